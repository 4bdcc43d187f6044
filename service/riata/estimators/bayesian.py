"""The particle filter as a classifier of scikit-learn: Bayesian logistic regression in one pass over the rows."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from riata.base.arrays import F64
from riata.base.errors import Conflict
from riata.estimators.classes import two_classes
from riata.estimators.online import OnlineClassifier, unnamed
from riata.learn.particle_filter import FEATURES_ADVISED, FEATURES_MOST, ParticleFilterConfig, dependent_column
from riata.predict.posterior import PosteriorModel, positive, quantiles, require_posterior


class BayesianLogisticRegression(OnlineClassifier, config=ParticleFilterConfig):
    """Logistic regression with the posterior distribution of its weights, by a particle filter in one pass over the rows.

    Weights and `predict_proba` are those of the posterior mean. `predict_interval`, `coef_interval` and `draws` show the whole
    distribution. `fit` draws exactly from the posterior of the first `start` rows (of all, if there are fewer) and filters the
    rest, so these rows should be a random sample of all. Columns should be of the order of one; see `gamma`.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the rows in their order, from nothing.

        Raises `ValueError` unless `y` holds two classes; `too_many_features` if X has more columns than features_max;
        `singular_start`, which names the column, if a column of the first rows is a linear combination of those before it.
        """
        self.__dict__.pop("_learnt", None)
        X, y = self._validated(X, y, reset=True)
        self.classes_ = two_classes(y)
        self._rows = len(y)
        self._require_few_columns()
        self._require_independent(X[: min(self.start, self._rows)])
        return self._learn_anew(X, y, np.ones(len(y)))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn further rows, as `OnlineClassifier.partial_fit`. The first `start` rows are those of the first calls."""
        if not self.__sklearn_is_fitted__():
            self._rows = int(self.start)
        return super().partial_fit(X, y, classes, sample_weight)

    def predict_interval(self, X: Any, level: float = 0.95) -> F64:
        """Return low and high end of the central interval of the probability of the second class, f64[n, 2].

        level : posterior probability of the interval, in (0, 1)
        """
        model = self._posterior(level)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        nothing, one = np.full(X.shape[0], np.nan), np.ones(X.shape[0])
        l2 = self._learnt.state.config.encoder.normalise == "l2"
        batches = self._learnt.columns.batches(X, nothing, one, l2)
        return np.concatenate([model.intervals(batch, level)[:, :2] for batch in batches])

    def coef_interval(self, level: float = 0.95) -> F64:
        """Return low and high end of the central interval of each weight, f64[d, 2]; NaN for a column without values."""
        weight = self._posterior(level).posterior.weight
        return np.array(
            [quantiles(line, weight, level) if np.isfinite(line[0]) else (np.nan, np.nan) for line in self.draws()[1:]]
        )

    def draws(self) -> F64:
        """Return the particles, f64[1 + d, M], the intercept first; `draw_weight_` has their weights."""
        p, columns = self._posterior().posterior, self._learnt.columns
        found = np.full((1 + len(columns.place), len(p.weight)), np.nan)
        found[0] = p.base[0]
        hashes = columns.hash[columns.place]
        at = np.minimum(np.searchsorted(p.slot, hashes), len(p.slot) - 1)
        known = p.slot[at] == hashes
        found[1:][known] = p.theta[at[known]]
        return found

    @property
    def draw_weight_(self) -> F64:
        """Weights of the particles, f64[M]; their sum is 1."""
        weight = self._posterior().posterior.weight
        return np.asarray(weight / weight.sum())

    @property
    def positive_(self) -> F64:
        """Posterior probability that the weight of each column is above zero, f64[d]."""
        weight = self.draw_weight_
        return np.array([positive(line, weight) for line in self.draws()[1:]])

    @property
    def effective_sample_size_(self) -> float:
        """Of the particles now."""
        return float(self._posterior().posterior.figures[0])

    @property
    def rejuvenations_(self) -> int:
        """How often the particles were moved."""
        return int(self._posterior().posterior.figures[1])

    @property
    def tempered_(self) -> int:
        """How many rows were learnt in parts, because few particles would have been left."""
        return int(self._posterior().posterior.figures[2])

    def _posterior(self, level: float = 0.95) -> PosteriorModel:
        check_is_fitted(self)
        if not 0.0 < level < 1.0:
            raise ValueError(f"level: {level!r} is not between 0 and 1")
        try:
            return require_posterior(self._learnt.model)
        except Conflict as error:
            raise ValueError(str(error)) from None

    def _model_config(self) -> Any:
        """The settings, with as many particles as the columns need, and all rows in the start if there are few."""
        config = super()._model_config()
        self._require_few_columns()
        learner = config.learner
        first = max(1, min(learner.start, getattr(self, "_rows", learner.start)))
        columns = max(1, min(learner.features_max, self.n_features_in_))
        return dataclasses.replace(config, learner=dataclasses.replace(learner, start=first, features_max=columns))

    def _require_few_columns(self) -> None:
        columns = self.n_features_in_
        if columns > self.features_max or columns > FEATURES_MOST:
            raise ValueError(
                f"too_many_features: X has {columns} columns and features_max is {self.features_max}; up to {FEATURES_MOST} are "
                "possible. SparseLogisticRegression takes any number"
            )
        if columns > FEATURES_ADVISED:
            warnings.warn(
                f"{columns} columns: above {FEATURES_ADVISED} the posterior is close to a normal distribution", stacklevel=4
            )

    def _require_independent(self, first: Any) -> None:
        dense = first if isinstance(first, np.ndarray) else first.toarray()
        n, d = dense.shape
        ones = np.ones((int(self.intercept), n))
        at = dependent_column(np.ascontiguousarray(np.vstack([ones, dense.T])))
        if n > d and at >= 0:
            names = getattr(self, "feature_names_in_", unnamed(d))
            raise ValueError(
                f"singular_start: in the first {n} rows the column {names[at - int(self.intercept)]!r} is constant, or a linear "
                "combination of those before it; leave it out"
            )
