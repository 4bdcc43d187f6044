"""What classifiers with one weight for each column share: rows for a batch solver, and predictions from `coef_`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import expit, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from riata.base.arrays import F64
from riata.estimators.classes import binary_tags, require_binary, two_classes, weighted_by_class
from riata.lab.batch.data import DataInMemory, in_memory


class LinearClassifier(ClassifierMixin, BaseEstimator):
    """Predicts from `coef_` f64[1, d], `intercept_` f64[1] and the parameter `link`."""

    link: str
    class_weight: Any
    coef_: F64
    intercept_: F64
    classes_: Any

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
