"""What a batch solver returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from riata.base.arrays import F64, I64
from riata.learn.learner import Weights

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
