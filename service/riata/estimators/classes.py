"""What all classifiers of this package share: two classes, and the tags that say so."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from sklearn.utils.multiclass import type_of_target

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


def binary_tags(tags: Any) -> Any:
    """Return scikit-learn's tags of an estimator for two classes that takes sparse matrices too."""
    tags.input_tags.sparse = True
    tags.classifier_tags.multi_class = False
    return tags
