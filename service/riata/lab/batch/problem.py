"""What a batch solver maximises."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np

from riata.base.arrays import F64, I64, Arrays
from riata.base.errors import BadInput, Conflict
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
    penalties       : f64[features], that of each rank; nothing writes to it
    """

    data: Data
    link: LinkName
    gamma: float | F64
    gamma_intercept: float = 0.0
    start: Weights | None = None
    penalties: F64 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raise `BadInput` if a penalty is not one."""
        given = np.asarray(self.gamma, np.float64)
        if given.shape not in ((), (self.data.features,)):
            raise BadInput(f"gamma: expected one penalty or one for each of {self.data.features} features, got {given.shape}")
        if not (np.all(given >= 0.0) and self.gamma_intercept >= 0.0):
            raise BadInput("gamma: expected penalties of at least 0")
        if self.data.rows == 0:
            raise BadInput("there are no rows to learn from", "no_events")
        object.__setattr__(self, "penalties", np.array(np.broadcast_to(given, self.data.features)))

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


# What a batch solver returns.

Stopped = Literal["tolerance", "passes", "cancelled", "stalled"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """How near weights are to the optimum, from one exact pass over all rows at these weights.

    objective : log-likelihood less penalties
    gap       : the optimum is at most this much higher; None if a feature has no penalty: the bound needs one
    kkt       : largest violation of an optimality condition, as a share of the largest penalty
    """

    objective: float
    gap: float | None
    kkt: float


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One pass over the rows: where it was taken, and what it cost.

    certificate : of the weights that the pass was taken at
    non_zeros   : weights that are not zero, the intercept not counted
    members     : weights in the working set: RMMP accumulates their curvature, others move them
    frozen      : weights that are not zero and not in the working set, because it has no room for them
    accesses    : feature values read so far
    seconds     : since the start
    """

    number: int
    certificate: Certificate
    non_zeros: int
    members: int
    frozen: int
    accesses: int
    seconds: float


Watch = Callable[[TraceRow], bool]  # called after each pass; False: stop, and return the best weights so far


def watch_nothing(_row: TraceRow) -> bool:
    """The `Watch` of a caller who only wants the end."""
    return True


@dataclass(frozen=True, slots=True)
class Sums:
    """The quadratic approximation at the weights of the solution, on the working set S. Entry 0 is the intercept.

    rank      : i64[k]              the features of entries 1 .. k, increasing
    gradient  : f64[k + 1]          G
    curvature : f64[k + 1]          D
    cross     : f64[k + 1, k + 1]   H, symmetric, diagonal zero
    outside_gradient, outside_curvature : f64[features]   G and D of every rank, those of S included
    """

    rank: I64
    gradient: F64
    curvature: F64
    cross: F64
    outside_gradient: F64
    outside_curvature: F64


@dataclass(frozen=True, slots=True)
class Spent:
    """What a solution cost.

    passes       : over all rows, those of line searches included
    accesses     : feature values read
    memory_bytes : planned before the start; rows held in memory are not counted
    """

    passes: int
    accesses: int
    memory_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about a solution.

    code  : stable, such as `duplicate_columns`
    slots : of the features that it is about; those who know their names show them
    """

    code: str
    text: str
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Solution:
    """Weights, their distance from the optimum, and how they were found.

    sums  : at these weights; None if the pass there did not accumulate curvature
    notes : what the user should know of how it went
    gamma : the penalty under which the weights are the optimum, where the solver found it: under a bound on their sum
    """

    weights: Weights
    certificate: Certificate
    trace: tuple[TraceRow, ...]
    sums: Sums | None
    spent: Spent
    stopped: Stopped
    notes: tuple[Note, ...] = ()
    gamma: float | None = None


# Where a solver begins.


def first_weights(problem: Problem, labels: Arrays) -> tuple[F64, float]:
    """The weights f64[features] and the intercept to begin with; see `Problem.start`.

    labels : what the job of this name found

    Raises `Conflict` if all rows have the same label.
    """
    weight = cast(F64, labels["weight"])
    if not np.all(weight > 0.0):
        label = "-1" if weight[0] > 0.0 else "1"
        raise Conflict(f"all {problem.data.rows} rows have the label {label}; a classifier needs rows of both", "one_class")
    if problem.start is not None:
        return problem.first(), problem.start.intercept if np.isfinite(problem.gamma_intercept) else 0.0
    if problem.gamma_intercept > 0.0:
        return problem.first(), 0.0
    negative, positive = weight.tolist()
    if problem.link == "logistic":
        return problem.first(), float(np.log(positive / negative))
    return problem.first(), statistics.NormalDist().inv_cdf(positive / (negative + positive))
