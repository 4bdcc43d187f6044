"""Kernels of progressive validation (test-then-train): what each event adds to the sums.

Theory of operation
    Every metric is a ratio of sums over events, each weighted by its importance. The sums are kept twice: cumulative, and
    exponentially faded, where an event counts half after `half_life` further events. The faded sums are not multiplied by a
    decay factor at every event. Instead each event is added with a weight that grows by 2^(1 / half_life) from one event to the
    next, and metrics divide by that weight. When it exceeds 2^32, all faded sums are multiplied by 2^-32, which is exact. The
    window keeps the last events themselves.

    The base-rate predictor for comparison knows only the labels before the event. It predicts
    (positives + 1/2) / (events + 1), both weighted, so 1/2 for the first event; for real labels the mean so far, 0 for the first.
"""

from __future__ import annotations

import math
from typing import Final

from riata.base.arrays import BOOL, F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.maths.auc import margin_bin
from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL, WITH_PROBABILITY, normal_cdf
from riata.maths.log_loss import PROBABILITY_MIN, log_loss
from riata.maths.taylor import log_likelihood

Judged = tuple[float, float, float, float, float, float]  # what `score_event` returns

MARGIN_HELD: Final = 1e9  # margins are clipped to this, so that one extreme row cannot make a sum infinite

# Rows of `sums` and of `histogram`.
CUMULATIVE: Final = 0
FADED: Final = 1

# Columns of `sums`: the first eight are sums over events of importance times the quantity.
WEIGHT: Final = 0
LOG_LOSS: Final = 1
BASE_LOG_LOSS: Final = 2
CORRECT: Final = 3
PREDICTED: Final = 4
OBSERVED: Final = 5
LOSS: Final = 6
BASE_LOSS: Final = 7
SCALE: Final = 8  # factor applied to the weight of the newest event; 1 in the cumulative row
SUMS: Final = 9

# Rows of `window`.
PAST_MARGIN: Final = 0
PAST_LABEL: Final = 1
PAST_WEIGHT: Final = 2
PAST_BASE: Final = 3  # what the base-rate predictor predicted
PAST_LOSS: Final = 4  # log loss, or the learner's own loss if there is no probability
PAST: Final = 5

# Columns of `calibration`.
CELLS: Final = 20
CELL_EXAMPLES: Final = 0
CELL_WEIGHT: Final = 1
CELL_PREDICTED: Final = 2
CELL_OBSERVED: Final = 3
CELL: Final = 4

RENORMALISE_ABOVE: Final = 2.0**32
RENORMALISE_BY: Final = 2.0**-32
IDENTITY_SPREAD: Final = 16.0  # spreads margins of the identity link, mostly in [0, 1], over the even bins of the histogram


@kernel
def all_usual(margin: F64, refused: BOOL) -> bool:
    """Return whether all events were learnt, with margins that need no clipping.

    Parameters
    ----------
    margin : f64[n]        read only
    refused : bool[n]      read only

    Returns                false if an event is refused, or its margin is NaN or beyond MARGIN_HELD
    Cost                   one pass over the events
    Source                 this module's theory of operation
    """
    others = 0
    for i in range(margin.shape[0]):
        others += refused[i] or not abs(margin[i]) <= MARGIN_HELD
    return others == 0


@inline_kernel
def base_prediction(link: int, weight: float, observed: float) -> float:
    """Prediction of the base-rate predictor after labels of total weight `weight` and weighted sum `observed`.

    Source             Krichevsky & Trofimov 1981 for two classes; the running mean for real labels
    """
    mean = observed / weight if weight > 0.0 else 0.0
    return mean if link == REAL else (observed + 0.5) / (weight + 1.0)


@inline_kernel
def both_sides(margin: float) -> tuple[float, float]:
    """sigma(margin) and sigma(-margin), exact to the last bit, with one exponential.

    Source             `maths.links.sigma`
    """
    e = math.exp(-abs(margin))
    near, far = 1.0 / (1.0 + e), e / (1.0 + e)
    return (near if margin >= 0.0 else far), (near if margin <= 0.0 else far)


@inline_kernel
def score_event(link: int, margin: float, label: float, base: float) -> Judged:
    """Return probability, log loss, log loss of `base`, 1 if the prediction was correct, own loss, own loss of `base`.

    Values that the link does not define are 0.

    Source             losses as in Langford, Li & Zhang 2009, section 2; squared without the factor 1/2; log_likelihood
    """
    sign = 1.0 if label == 1.0 else -1.0
    probability = 0.0
    of_label = 1.0
    above = margin > 0.0
    if link == LOGISTIC:
        probability, of_other = both_sides(margin)
        of_label = probability if label == 1.0 else of_other
        above = probability > 0.5
    elif link == PROBIT:
        probability = normal_cdf(margin)
        above = probability > 0.5
    elif link == IDENTITY:
        probability = min(max(margin, 0.0), 1.0)
        of_label = probability if label == 1.0 else 1.0 - probability
        above = margin > 0.5
    cost = 0.0
    base_cost = 0.0
    if link in WITH_PROBABILITY:
        # A probit probability of 1 - 1e-17 rounds to 1, so the log loss computed from it would be 0.
        cost = min(-log_likelihood(PROBIT, margin, label), -math.log(PROBABILITY_MIN)) if link == PROBIT else log_loss(of_label)
        base_cost = log_loss(base if label == 1.0 else 1.0 - base)
    own = cost
    base_own = base_cost
    if link == HINGE:
        own = max(0.0, 1.0 - sign * margin)
        base_own = max(0.0, 1.0 - sign * (1.0 if base > 0.5 else -1.0))
    elif link in (IDENTITY, REAL):
        own = (margin - label) * (margin - label)
        base_own = (base - label) * (base - label)
    correct = 1.0 if link != REAL and above == (label == 1.0) else 0.0
    return probability, cost, base_cost, correct, own, base_own


@inline_kernel
def accumulate(sums: F64, share: float, label: float, judged: Judged) -> None:
    """Add an event with weight `share` to one row of the sums.

    Source             this module's theory of operation
    """
    probability, cost, base_cost, correct, own, base_own = judged
    sums[WEIGHT] += share
    sums[LOG_LOSS] += share * cost
    sums[BASE_LOG_LOSS] += share * base_cost
    sums[CORRECT] += share * correct
    sums[PREDICTED] += share * probability
    sums[OBSERVED] += share * label
    sums[LOSS] += share * own
    sums[BASE_LOSS] += share * base_own


@inline_kernel
def calibrate(cell: F64, weight: float, probability: float, label: float) -> None:
    """Add an event to its cell of the calibration table.

    Source             reliability diagram, DeGroot & Fienberg 1983
    """
    cell[CELL_EXAMPLES] += 1.0
    cell[CELL_WEIGHT] += weight
    cell[CELL_PREDICTED] += weight * probability
    cell[CELL_OBSERVED] += weight * label


@kernel
def accumulate_rows(
    margin: F64,
    label: F64,
    weight: F64,
    link: int,
    growth: float,
    examples: I64,
    sums: F64,
    histogram: F64,
    calibration: F64,
    window: F64,
) -> None:
    """Add events, in order.

    Parameters
    ----------
    margin, label, weight : f64[n]   |margin| <= MARGIN_HELD, importance positive; read only
    link : int                       LOGISTIC, PROBIT, IDENTITY, HINGE or REAL
    growth : float                   2^(1 / half_life)
    examples : i64[1]                events so far; advanced by n
    sums : f64[2, SUMS]              updated
    histogram : f64[2, 2, BINS]      weight by horizon, class and bin of the margin; updated
    calibration : f64[CELLS, CELL]   by predicted probability; updated
    window : f64[PAST, w]            the last w events, event number t at column t % w; updated

    Returns            nothing
    Cost               two logarithms and an exponential (probit: two erfc) for each event; no allocation
    Source             this module's theory of operation
    """
    # Rows of these arrays are passed to other kernels; reference counting of them would take as long as the sums.
    sums, histogram, calibration, window = borrow(sums), borrow(histogram), borrow(calibration), borrow(window)
    w = window.shape[1]
    at = examples[0] % w
    for i in range(margin.shape[0]):
        m = margin[i]
        y = label[i]
        h = weight[i]
        base = base_prediction(link, sums[CUMULATIVE, WEIGHT], sums[CUMULATIVE, OBSERVED])
        judged = score_event(link, m, y, base)
        probability, cost, _, _, own, _ = judged
        sums[FADED, SCALE] *= growth
        score = (m - 0.5) * IDENTITY_SPREAD if link == IDENTITY else m
        bin_ = margin_bin(score)
        side = 1 if y == 1.0 else 0
        for horizon in range(2):
            row = sums[horizon]
            share = h * row[SCALE]
            accumulate(row, share, y, judged)
            histogram[horizon, side, bin_] += share
        calibrate(calibration[min(int(probability * CELLS), CELLS - 1)], h, probability, y)
        window[PAST_MARGIN, at] = m
        window[PAST_LABEL, at] = y
        window[PAST_WEIGHT, at] = h
        window[PAST_BASE, at] = base
        window[PAST_LOSS, at] = cost if link in WITH_PROBABILITY else own
        at = at + 1 if at + 1 < w else 0
        if sums[FADED, SCALE] > RENORMALISE_ABOVE:
            sums[FADED] *= RENORMALISE_BY
            histogram[FADED] *= RENORMALISE_BY
    examples[0] += margin.shape[0]


@kernel
def window_sums(window: F64, start: int, count: int, link: int, sums: F64, calibration: F64) -> None:
    """Sum the events of the window from the oldest to the newest.

    Parameters
    ----------
    window : f64[PAST, w]  as `accumulate_rows` keeps it; read only
    start, count : int     column of the oldest event, and the number of events
    link : int             as for `accumulate_rows`
    sums : f64[SUMS]       overwritten, with scale 1
    calibration : f64[CELLS, CELL]   overwritten: by predicted probability

    Returns            nothing
    Cost               as for `accumulate_rows`, for each event of the window
    Source             this module's theory of operation
    """
    sums[:] = 0.0
    calibration[:] = 0.0
    sums[SCALE] = 1.0
    for i in range(count):
        at = (start + i) % window.shape[1]
        y = window[PAST_LABEL, at]
        h = window[PAST_WEIGHT, at]
        judged = score_event(link, window[PAST_MARGIN, at], y, window[PAST_BASE, at])
        accumulate(sums, h, y, judged)
        calibrate(calibration[min(int(judged[0] * CELLS), CELLS - 1)], h, judged[0], y)


@kernel
def window_loss(window: F64, start: int, count: int) -> float:
    """Return the weighted mean of the losses in the window, added from the oldest to the newest.

    Parameters
    ----------
    window : f64[PAST, w]  as `accumulate_rows` keeps it; read only
    start, count : int     column of the oldest event, and the number of events

    Returns            the mean; NaN if the window is empty
    Cost               two additions and a multiplication for each event of the window
    Source             this module's theory of operation
    """
    loss = 0.0
    weight = 0.0
    for i in range(count):
        at = start + i
        if at >= window.shape[1]:
            at -= window.shape[1]
        loss += window[PAST_WEIGHT, at] * window[PAST_LOSS, at]
        weight += window[PAST_WEIGHT, at]
    return loss / weight if weight > 0.0 else math.nan
