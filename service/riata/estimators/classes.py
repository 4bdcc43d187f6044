"""What all classifiers of this package share: two classes, and the tags that say so."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import type_of_target

from riata.base.arrays import F64
from riata.base.limits import WEIGHT_MAX

CLASSES: Final = 2


def require_binary(y: Any) -> None:
    """Raise `ValueError` if a target has more than two classes, or is none of classes."""
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")


def two_classes(y: Any) -> Any:
    """Return the classes of a target, sorted. Raises `ValueError` if there is only one."""
    classes = np.unique(y)
    if len(classes) < CLASSES:
        raise ValueError("y holds 1 class; a classifier needs rows of two")
    return classes


def weighted_by_class(weight: F64, class_weight: Any, classes: Any, y: Any) -> F64:
    """Return the weights of rows multiplied by the factor of their class, f64[n].

    class_weight : None: 1; a dictionary of factors, 1 for a class that it lacks; "balanced": both classes weigh the same
    classes      : the two classes

    Raises `ValueError` that names the class for a factor below 0, or above the largest importance of a row.
    """
    if class_weight is None:
        return weight
    factors = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=weight)
    for name, factor in zip(classes.tolist(), factors, strict=True):
        if not 0.0 <= factor <= WEIGHT_MAX:
            raise ValueError(f"class_weight: {factor:g} for class {name!r} is not from 0 to {WEIGHT_MAX:g}; divide both")
    return np.asarray(weight * factors[(y == classes[1]).astype(np.intp)], np.float64)


def binary_tags(tags: Any) -> Any:
    """Return scikit-learn's tags of an estimator for two classes that takes sparse matrices too."""
    tags.input_tags.sparse = True
    tags.classifier_tags.multi_class = False
    return tags
