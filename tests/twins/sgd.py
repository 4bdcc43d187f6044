"""Stochastic gradient steps with the penalty applied to every weight at every step, on dense rows."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64, I64
from riata.lab.batch.data import Rows
from riata.lab.batch.passes import INTERCEPT, SQUARES, STEPS, Rates, Walk
from tests.twins.batch import dense_rows, slope

TWINS_OF = ("stochastic",)


def rate(walk: Walk, rates: Rates) -> F64:
    """f64[d]: the step size of each weight; 0 for one that has had no gradient."""
    if not rates.adaptive:
        return np.full(len(walk.beta), rates.eta)
    size = np.sqrt(walk.squares) * walk.peak
    return np.divide(rates.eta, size, out=np.zeros(len(size)), where=size > 0.0)


def walk_rows(rows: Rows, link: int, walk: Walk, rates: Rates, order: I64) -> None:
    """Learn rows in an order."""
    x = dense_rows(rows, len(walk.beta))
    for i in order:
        used = np.zeros(len(walk.beta), np.bool_)
        used[rows.rank[rows.indptr[i] : rows.indptr[i + 1]]] = True
        pull = rate(walk, rates) * rates.pull * (walk.own[STEPS] - walk.seen)  # of the steps since the weight was last used
        shrunk = np.sign(walk.beta) * np.maximum(np.abs(walk.beta) - pull, 0.0)
        walk.beta[used], walk.seen[used] = shrunk[used], walk.own[STEPS]
        if rates.adaptive:
            peak = np.maximum(walk.peak, np.abs(x[i]))
            walk.beta[:] *= np.divide(walk.peak, peak, out=np.ones(len(peak)), where=walk.peak > 0.0)
            walk.peak[:] = peak
        s = rows.label[i]
        r = rows.weight[i] * s * float(slope(link, np.array([s * (walk.own[INTERCEPT] + x[i] @ walk.beta)]))[0])
        if rates.adaptive:
            walk.squares[:] += (r * x[i]) ** 2
        walk.beta[:] += rate(walk, rates) * r * x[i]
        if rates.free:
            walk.own[SQUARES] += r * r
            walk.own[INTERCEPT] += rates.eta * r / (np.sqrt(walk.own[SQUARES]) if rates.adaptive else 1.0)
        walk.own[STEPS] += 1


def settle_walk(walk: Walk, rates: Rates) -> None:
    """Apply what is left of the penalty."""
    pull = rate(walk, rates) * rates.pull * (walk.own[STEPS] - walk.seen)
    walk.beta[:] = np.sign(walk.beta) * np.maximum(np.abs(walk.beta) - pull, 0.0)
    walk.seen[:] = int(walk.own[STEPS])
