"""Rows learnt one by one by stochastic gradient steps, with an L1 penalty that is applied to a weight when it is next used."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.batch.data import Rows
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.taylor import margin_form

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


@inline_kernel
def shrunk(walk: Walk, rates: Rates, j: int, step: int) -> float:
    """Weight j after the penalty of all steps up to `step`.

    Source    Langford, Li & Zhang 2009, section 5: lazy truncation
    """
    rate = rates.eta
    if rates.adaptive:
        rate = rates.eta / (math.sqrt(walk.squares[j]) * walk.peak[j]) if walk.squares[j] > 0.0 else 0.0
    pull, b = rate * rates.pull * (step - walk.seen[j]), float(walk.beta[j])
    walk.seen[j] = step
    return math.copysign(max(abs(b) - pull, 0.0), b)


@kernel
def walk_rows(rows: Rows, link: int, walk: Walk, rates: Rates, order: I64) -> None:
    """Learn rows in an order.

    Parameters
    ----------
    rows : Rows       read only
    link : int        LOGISTIC or PROBIT of `links`
    walk : Walk       overwritten
    rates : Rates
    order : i64[m]    numbers of rows

    Returns           nothing
    Cost              two reads of the features of these rows
    Source            Zinkevich, Weimer, Smola & Li 2010, algorithm 1; Duchi, Hazan & Singer 2011 for the adaptive rate; Ross,
                      Mineiro & Langford 2013, algorithm 2, for its scale; Langford, Li & Zhang 2009 for the penalty
    """
    for i in order:
        step = int(walk.own[STEPS])
        c = walk.own[INTERCEPT]
        for e in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.rank[e]
            walk.beta[j] = shrunk(walk, rates, j, step)
            size = abs(rows.value[e])
            if rates.adaptive and size > walk.peak[j]:  # what was learnt at a smaller scale weighs less
                walk.beta[j] *= walk.peak[j] / size if walk.peak[j] > 0.0 else 1.0
                walk.peak[j] = size
            c += walk.beta[j] * rows.value[e]
        s = rows.label[i]
        q, _, _ = margin_form(link, s * c)
        r = rows.weight[i] * s * q
        for e in range(rows.indptr[i], rows.indptr[i + 1]):
            j, x = rows.rank[e], rows.value[e]
            g = r * x
            if rates.adaptive:
                walk.squares[j] += g * g
                if g != 0.0:
                    walk.beta[j] += rates.eta * g / (math.sqrt(walk.squares[j]) * walk.peak[j])
            else:
                walk.beta[j] += rates.eta * g
        if rates.free and r != 0.0:
            walk.own[SQUARES] += r * r
            walk.own[INTERCEPT] += rates.eta * r / (math.sqrt(walk.own[SQUARES]) if rates.adaptive else 1.0)
        walk.own[STEPS] = step + 1


@kernel
def settle_walk(walk: Walk, rates: Rates) -> None:
    """Apply the penalty of all steps to all weights.

    Parameters
    ----------
    walk : Walk       overwritten
    rates : Rates

    Returns           nothing
    Cost              O(d)
    Source            Langford, Li & Zhang 2009, section 5
    """
    for j in range(len(walk.beta)):
        walk.beta[j] = shrunk(walk, rates, j, int(walk.own[STEPS]))


def new_walk(beta: F64, intercept: float) -> Walk:
    """A machine that begins at weights."""
    d = len(beta)
    own = np.zeros(SIZE)
    own[INTERCEPT] = intercept
    return Walk(beta.copy(), np.zeros(d), np.zeros(d), np.zeros(d, np.int64), own)
