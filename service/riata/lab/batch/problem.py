"""What a batch solver maximises."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import BadInput
from riata.lab.batch.data import Data
from riata.learn.learner import Weights

LinkName = Literal["logistic", "probit"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Maximise  sum_i w_i log p(y_i | b_0 + x_i b)  -  gamma_intercept |b_0|  -  sum_j gamma_j |b_j|.

    Sums, not means: twice the rows with the same gamma is half the penalty.

    gamma           : one penalty, or f64[features] with one for each rank; >= 0; inf keeps a weight at 0
    gamma_intercept : likewise; inf keeps the intercept at 0
    start           : where to begin. Features that do not occur in the data are dropped. None: all weights zero and, if the
                      intercept has no penalty, the intercept at the optimum of that
    """

    data: Data
    link: LinkName
    gamma: float | F64
    gamma_intercept: float = 0.0
    start: Weights | None = None

    def __post_init__(self) -> None:
        """Raise `BadInput` if a penalty is not one."""
        given = np.asarray(self.gamma, np.float64)
        if given.shape not in ((), (self.data.features,)):
            raise BadInput(f"gamma: expected one penalty or one for each of {self.data.features} features, got {given.shape}")
        if not (np.all(given >= 0.0) and self.gamma_intercept >= 0.0):
            raise BadInput("gamma: expected penalties of at least 0")
        if self.data.rows == 0:
            raise BadInput("there are no rows to learn from", "no_events")

    @property
    def penalties(self) -> F64:
        """f64[features]: the penalty of each rank."""
        return np.array(np.broadcast_to(np.asarray(self.gamma, np.float64), self.data.features))

    @property
    def scale(self) -> float:
        """The largest finite penalty of a feature, in units of which violations are given; 1 if there is none above 0."""
        finite = self.penalties[np.isfinite(self.penalties)]
        return float(np.max(finite, initial=0.0)) or 1.0

    def penalty(self, beta: F64, intercept: float) -> float:
        """The L1 penalty of weights f64[features]."""
        held = np.flatnonzero(beta)
        own = self.gamma_intercept * abs(intercept) if intercept else 0.0
        return own + math.fsum(self.penalties[held] * np.abs(beta[held]))

    def first(self) -> F64:
        """f64[features]: the weights of `start` by rank; zeros if there is none."""
        beta = np.zeros(self.data.features) if self.start is None else self.by_rank(self.start)
        beta[np.isinf(self.penalties)] = 0.0
        return beta

    def by_rank(self, weights: Weights) -> F64:
        """f64[features]: `weights` by rank. Those of features that do not occur in the data are dropped."""
        if not len(weights.slot):
            return np.zeros(self.data.features)
        at = np.searchsorted(weights.slot, self.data.slots)
        at[at == len(weights.slot)] = 0
        return np.where(weights.slot[at] == self.data.slots, weights.beta[at], 0.0)
