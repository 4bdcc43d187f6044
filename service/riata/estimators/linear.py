"""What classifiers with one weight for each column share: rows for a batch solver, and predictions from `coef_`."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np
import scipy.sparse
from scipy.special import expit, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from riata.base.arrays import F64
from riata.base.limits import WEIGHT_MAX
from riata.lab.batch.data import DataInMemory, in_memory
from riata.lab.batch.problem import Solution


class LinearClassifier(ClassifierMixin, BaseEstimator):
    """Predicts from `coef_` f64[1, d], `intercept_` f64[1] and the parameter `link`."""

    link: str
    class_weight: Any
    coef_: F64
    intercept_: F64
    classes_: Any
    certificate_: Any
    n_features_in_: int

    def decision_function(self, X: Any) -> F64:
        """Return the margin of each row: above 0 for the second class."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(safe_sparse_dot(X, self.coef_[0]) + self.intercept_[0])

    def predict_proba(self, X: Any) -> F64:
        """Return the probabilities of both classes, f64[n, 2]."""
        margin = self.decision_function(X)
        probability = ndtr if self.link == "probit" else expit
        return np.column_stack([probability(-margin), probability(margin)])

    def predict(self, X: Any) -> Any:
        """Return the class of each row."""
        above = self.decision_function(X) > 0.0
        return self.classes_[above.astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator takes."""
        return binary_tags(super().__sklearn_tags__())

    def _take(self, solution: Solution, remedy: str) -> None:
        """Keep the weights of a solution, and warn with a remedy if it is not one of the tolerance."""
        self.coef_ = np.zeros((1, self.n_features_in_))
        self.coef_[0, solution.weights.slot] = solution.weights.beta
        self.intercept_ = np.array([solution.weights.intercept])
        self.certificate_ = solution.certificate
        if solution.stopped != "tolerance":
            warnings.warn(remedy, ConvergenceWarning, stacklevel=3)

    def _data(self, X: Any, y: Any, sample_weight: Any) -> DataInMemory:
        """Check rows, and return them as a batch solver takes them: column j is slot j. Rows of weight zero are left out."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        require_binary(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_ = two_classes(y[weight > 0.0])
        weight = weighted_by_class(weight, self.class_weight, self.classes_, y)
        kept = np.flatnonzero(weight)
        label = np.where(y == self.classes_[1], 1.0, -1.0)
        if len(kept) < len(weight):
            X, label, weight = X[kept], label[kept], weight[kept]
        rows = scipy.sparse.csr_array(X)
        return in_memory(rows.indptr, rows.indices.astype(np.uint32), rows.data, label, weight)


# What all classifiers of this package share: two classes, and the tags that say so.


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
