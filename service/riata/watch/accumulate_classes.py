"""The kernel of progressive validation of several classes: what each event adds to the sums.

The sums are those of `watch.accumulate`, faded in the same way. What is judged is the class of the largest margin: `CORRECT` and
`OBSERVED` are 1 if it is the label, `PREDICTED` is its probability. The base-rate predictor knows the labels before the event; of
k classes it gives one (its events + 1/2) / (events + k/2), weighted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.maths.classes import share_out
from riata.maths.log_loss import log_loss
from riata.watch.accumulate import (
    CELLS,
    CUMULATIVE,
    FADED,
    PAST,
    PAST_BASE,
    PAST_LABEL,
    PAST_LOSS,
    PAST_MARGIN,
    PAST_WEIGHT,
    RENORMALISE_ABOVE,
    RENORMALISE_BY,
    SCALE,
    WEIGHT,
    accumulate,
    calibrate,
)

# Columns of `by_class`, sums of weights over the events of a class, or that were given the class.
SUPPORT: Final = 0
GIVEN: Final = 1
HITS: Final = 2
COST: Final = 3  # times the log loss
PER_CLASS: Final = 4

# Of the window: PAST_MARGIN holds the probability of the winner, PAST_LABEL the class, PAST_BASE the loss of the base rate.
PAST_WINNER: Final = PAST
PAST_OF_CLASSES: Final = PAST + 1


@inline_kernel
def note(by_class: F64, label: int, winner: int, share: float, cost: float) -> None:
    """Add an event with weight `share` to the sums of one horizon. Source: this module."""
    by_class[label, SUPPORT] += share
    by_class[winner, GIVEN] += share
    by_class[label, HITS] += share if winner == label else 0.0
    by_class[label, COST] += share * cost


@kernel
def accumulate_classes(
    margin: F64,
    label: F64,
    weight: F64,
    link: int,
    growth: float,
    examples: I64,
    sums: F64,
    by_class: F64,
    calibration: F64,
    window: F64,
) -> None:
    """Add events, in order.

    Parameters
    ----------
    margin : f64[n, k]               one for each class; finite; read only
    label, weight : f64[n]           classes 0 to k - 1, importance positive; read only
    link : int                       LOGISTIC or PROBIT
    growth : float                   2^(1 / half_life)
    examples : i64[1]                events so far; advanced by n
    sums : f64[2, SUMS]              updated
    by_class : f64[2, k, PER_CLASS]  updated
    calibration : f64[CELLS, CELL]   by the probability of the winner; updated
    window : f64[PAST_OF_CLASSES, w] the last w events, event number t at column t % w; updated

    Returns            nothing
    Cost               one logarithm and two exponentials for each class of each event
    Source             this module and `watch.accumulate`
    """
    sums, by_class, calibration, window = borrow(sums), borrow(by_class), borrow(calibration), borrow(window)
    k, w = margin.shape[1], window.shape[1]
    at = examples[0] % w
    chance = np.empty(k)
    for i in range(margin.shape[0]):
        y, h = int(label[i]), weight[i]
        winner = share_out(margin[i], link, chance)
        cost = log_loss(chance[y])
        base_cost = log_loss((by_class[CUMULATIVE, y, SUPPORT] + 0.5) / (sums[CUMULATIVE, WEIGHT] + 0.5 * k))
        right = 1.0 if winner == y else 0.0
        probability = chance[winner]
        sums[FADED, SCALE] *= growth
        for horizon in range(2):
            share = h * sums[horizon, SCALE]
            accumulate(sums[horizon], share, right, (probability, cost, base_cost, right, cost, base_cost))
            note(by_class[horizon], y, winner, share, cost)
        calibrate(calibration[min(int(probability * CELLS), CELLS - 1)], h, probability, right)
        window[PAST_MARGIN, at] = probability
        window[PAST_LABEL, at] = y
        window[PAST_WEIGHT, at] = h
        window[PAST_BASE, at] = base_cost
        window[PAST_LOSS, at] = cost
        window[PAST_WINNER, at] = winner
        at = at + 1 if at + 1 < w else 0
        if sums[FADED, SCALE] > RENORMALISE_ABOVE:
            sums[FADED] *= RENORMALISE_BY
            by_class[FADED] *= RENORMALISE_BY
    examples[0] += margin.shape[0]
