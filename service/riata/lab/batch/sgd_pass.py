"""Rows learnt one by one by stochastic gradient steps, with an L1 penalty that is applied to a weight when it is next used."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.lab.batch.data import Rows, native_rows
from riata.native.library import core, struct

# Entries of the array `own` of `Walk`: what belongs to no feature.
INTERCEPT, SQUARES, STEPS, SIZE = 0, 1, 2, 3


class Walk(NamedTuple):
    """The state of one machine.

    beta    : f64[d]      weights; the penalty of the steps since `seen` is still to be applied
    squares : f64[d]      sums of squared gradients
    peak    : f64[d]      largest |x| so far
    seen    : i64[d]      the step up to which the penalty is applied
    own     : f64[SIZE]   the intercept, its sum of squared gradients, and the number of steps
    """

    beta: F64
    squares: F64
    peak: F64
    seen: I64
    own: F64


class Rates(NamedTuple):
    """How far a step goes.

    eta      : step size
    pull     : penalty of one step
    adaptive : whether a step is divided by the root of the squared gradients so far and by the largest |x|
    free     : whether there is an intercept
    """

    eta: float
    pull: float
    adaptive: bool
    free: bool


def walk_rows(rows: Rows, link: int, walk: Walk, rates: Rates, order: I64) -> None:
    """Learn rows in an order. See `riata_walk_rows`."""
    core.walk_rows(native_rows(rows), link, _native(walk), struct("riata_rates", **rates._asdict()), order, len(order))


def settle_walk(walk: Walk, rates: Rates) -> None:
    """Apply the penalty of all steps to all weights. See `riata_settle_walk`."""
    core.settle_walk(_native(walk), struct("riata_rates", **rates._asdict()))


def new_walk(beta: F64, intercept: float) -> Walk:
    """A machine that begins at weights."""
    d = len(beta)
    own = np.zeros(SIZE)
    own[INTERCEPT] = intercept
    return Walk(beta.copy(), np.zeros(d), np.zeros(d), np.zeros(d, np.int64), own)


def _native(walk: Walk) -> Any:
    return struct("riata_walk", features=len(walk.beta), **walk._asdict())
