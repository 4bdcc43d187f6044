"""The online learners as classifiers of scikit-learn. `fit` learns the rows once, in their order, as a service would."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from riata.base.arrays import F64
from riata.base.directories import write_whole
from riata.estimators.classes import CLASSES, binary_tags, require_binary, two_classes, weighted_by_class
from riata.estimators.columns import Columns
from riata.estimators.learnt import Learnt
from riata.estimators.parameters import constructor, described, model_config
from riata.learn.ftrl_proximal import FtrlProximalConfig
from riata.learn.taylor_config import TaylorSketchConfig
from riata.learn.truncated_gradient import TruncatedGradientConfig


def _has_probability(estimator: OnlineClassifier) -> bool:
    return getattr(estimator, "loss", None) != "hinge"


class OnlineClassifier(ClassifierMixin, BaseEstimator):
    """A learner of the service as a classifier for two classes. Columns are numeric features.

    A DataFrame's columns have their own names; those of other matrices are called x0, x1 and so on. A service that imports
    `to_riata(path)` gives the same predictions for rows with these names.

    `partial_fit` takes importance weights as `sample_weight`. `fit` does not: there scikit-learn defines a weight as repetitions
    of a row in any order, and what an online learner learns depends on the order.
    """

    config: ClassVar[type[Any]]
    class_weight: Any

    def __init_subclass__(cls, config: type[Any], **others: Any) -> None:
        """Make a class for the learner of `config`, with its settings as parameters."""
        cls.config = config
        cls.__init__ = constructor(config)  # type: ignore[method-assign]
        cls.__doc__ = described(cls.__doc__ or "", config)
        super().__init_subclass__(**others)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the rows in their order, from nothing. Raises `ValueError` unless `y` holds two classes."""
        self.__dict__.pop("_learnt", None)
        X, y = self._validated(X, y, reset=True)
        self.classes_ = two_classes(y)
        return self._learn_anew(X, y, np.ones(len(y)))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn further rows. The first call for a new model names the two `classes`.

        sample_weight : importance of each row, up to 1000; a row of weight 0 is left out

        Raises `ValueError` if `class_weight` is "balanced": a part of the rows does not have the counts of all.
        Changed parameters take effect if a service could change them too (`PATCH /models/{model}`), otherwise `ValueError`.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' needs the counts of all rows, which partial_fit does not see: give a dictionary, as of "
                "sklearn.utils.class_weight.compute_class_weight('balanced', classes=classes, y=y)"
            )
        is_first = not self.__sklearn_is_fitted__()
        if is_first and hasattr(self, "classes_"):
            del self.classes_  # of a fit that failed
        X, y = self._validated(X, y, reset=is_first)
        is_first = _check_partial_fit_first_call(self, classes)
        if len(self.classes_) != CLASSES:
            raise ValueError(f"Only binary classification is supported. classes holds {len(self.classes_)}.")
        weight = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True, allow_all_zero_weights=True
        )
        if is_first:
            return self._learn_anew(X, y, weight)
        self._learnt.configure(self._model_config())
        return self._learn(X, y, weight)

    def decision_function(self, X: Any) -> F64:
        """Return the margin of each row: above 0 for the second class. With squared loss it is the margin minus 1/2."""
        return np.concatenate([scores.margin for scores in self._scores(X)]) - self._threshold

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> F64:
        """Return the probabilities of both classes, f64[n, 2]. Hinge loss has none."""
        second = np.concatenate([scores.probability for scores in self._scores(X)])
        return np.column_stack([1.0 - second, second])

    def predict(self, X: Any) -> Any:
        """Return the class of each row."""
        label = np.concatenate([scores.label for scores in self._scores(X)])
        return self.classes_[(label > 0.0).astype(np.intp)]

    @property
    def coef_(self) -> F64:
        """Weights of the columns, f64[1, d]; of rows that the encoder has normalised, if it does."""
        check_is_fitted(self)
        return self._learnt.weights()[np.newaxis]

    @property
    def intercept_(self) -> F64:
        """The intercept, f64[1]. With squared loss it is the learner's minus 1/2, so that class boundaries are at 0."""
        check_is_fitted(self)
        return np.array([self._learnt.model.weights.intercept - self._threshold])

    def to_riata(self, path: str | Path) -> Path:
        """Write the file that a service imports (`POST /models/{model}/import`), as `riata fit --out` does. Returns the path.

        The service knows classes as 0 and 1, or as -1 and 1 if those are the classes.
        """
        check_is_fitted(self)
        write_whole(Path(path), self._learnt.export())
        return Path(path)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "_learnt")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator takes: sparse matrices too, two classes only."""
        return binary_tags(super().__sklearn_tags__())

    def _validated(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=reset)
        require_binary(y)
        return X, y

    def _learn_anew(self, X: Any, y: Any, weight: F64) -> Self:
        names = getattr(self, "feature_names_in_", None)
        config = self._model_config()
        listed = unnamed(self.n_features_in_) if names is None else names.tolist()
        self._learnt = Learnt.empty(config, Columns.of(listed, config.encoder.hash_key))
        return self._learn(X, y, weight)

    def _learn(self, X: Any, y: Any, weight: F64) -> Self:
        if not np.isin(y, self.classes_).all():
            raise ValueError(f"y holds classes besides {self.classes_.tolist()}")
        label = (y == self.classes_[1]).astype(np.float64)
        refused = self._learnt.learn(X, label, weighted_by_class(weight, self.class_weight, self.classes_, y))
        if refused:
            why = next(iter(refused.values()))
            warnings.warn(f"{len(refused)} of {len(label)} rows were not learnt; the first: {why}", RuntimeWarning, stacklevel=3)
        return self

    def _scores(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self._learnt.scores(X)

    def _model_config(self) -> Any:
        labels = "-1/+1" if self.classes_.tolist() == [-1, 1] else "0/1"
        return model_config(self, self.config, labels)

    @property
    def _threshold(self) -> float:
        return 0.5 if self._learnt.model.weights.link == "identity" else 0.0


class TruncatedGradientClassifier(OnlineClassifier, config=TruncatedGradientConfig):
    """Truncated gradient: needs no tuning and no scaling, and its weights are sparse."""


class TaylorSketchClassifier(OnlineClassifier, config=TaylorSketchConfig):
    """The Taylor sketch: L1-penalised logistic or probit regression from a quadratic summary of all rows so far."""


class FTRLProximalClassifier(OnlineClassifier, config=FtrlProximalConfig):
    """FTRL-Proximal: logistic regression with a step size for each weight, L1 and L2."""


def unnamed(columns: int) -> list[str]:
    """Return the names of columns without names, as scikit-learn calls them."""
    return [f"x{i}" for i in range(columns)]
