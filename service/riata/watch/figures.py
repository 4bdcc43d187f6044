"""Computes the reported metrics from sums: None where a metric is not defined, never NaN."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.maths.links import REAL, WITH_PROBABILITY, answers
from riata.native.library import core, struct

# Area under the ROC curve: exact over sorted scores, and from a histogram of margins (`service/native/figures.c`).

BINS: Final = 4096  # margins in one bin count as ties: the error is at most half the weight of its pairs of unlike labels


def histogram_auc(negative: F64, positive: F64) -> float:
    """Return the area of the weights of both classes in each bin; NaN if a class is absent. See `riata_histogram_auc`."""
    area: float = core.histogram_auc(negative, positive, len(negative))
    return area


def ranked_auc(score: F64, label: F64, weight: F64) -> float:
    """Return the exact area of sorted scores; NaN if a class is absent. See `riata_ranked_auc`."""
    area: float = core.ranked_auc(score, label, weight, len(score))
    return area


# The arrays that progressive validation keeps, and what adds events to them: `service/native/figures.c` has the method.

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

RENORMALISE_ABOVE: Final = 2.0**32  # no scale is larger


def tally_of(link: int, half_life: float, **arrays: F64) -> Any:
    """Return a `riata_tally` of arrays, which it keeps and changes: sums, window, calibration and what else it documents."""
    growth = 2.0 ** (1.0 / half_life)
    return struct("riata_tally", link=link, growth=growth, width=arrays["window"].shape[1], **arrays)


def tally_rows(tally: Any, margin: F64, label: F64, weight: F64) -> None:
    """Add events in order; see `riata_tally_rows`."""
    core.tally_rows(tally, margin, label, weight, len(margin))


def window_sums(tally: Any, count: int) -> tuple[F64, F64]:
    """Return the sums and the calibration cells of the last `count` events; see `riata_window_sums`."""
    sums, calibration = np.empty(SUMS), np.empty((CELLS, CELL))
    core.window_sums(tally, count, sums, calibration)
    return sums, calibration


Figures = dict[str, Any]


def has_probability(link: int) -> bool:
    """Return whether margins under this link become probabilities."""
    return link in WITH_PROBABILITY


def ratio(above: float, below: float) -> float | None:
    """Return above / below; None if that is not a finite number."""
    if not (below > 0.0 and math.isfinite(above) and math.isfinite(below)):
        return None
    quotient = above / below
    return quotient if math.isfinite(quotient) else None


def horizon_figures(sums: F64, auc: float, link: int) -> Figures:
    """Return the figures of one horizon.

    sums : f64[SUMS], as `accumulate_rows` updates them; auc : NaN where undefined

    Every mean is weighted by importance; `weight` is the sum of the weights. `loss` is the learner's training loss: log loss,
    squared error (without the factor 1/2) or hinge loss.
    """
    total: list[float] = sums.tolist()  # converted at once: reading a single number from an array takes as long
    weight = total[WEIGHT]
    probability, classes = has_probability(link), link != REAL

    def mean(column: int, defined: bool = True) -> float | None:
        return ratio(total[column], weight) if defined else None

    return {
        "weight": weight / total[SCALE],
        "log_loss": mean(LOG_LOSS, probability),
        "base_log_loss": mean(BASE_LOG_LOSS, probability),
        "normalised_entropy": ratio(total[LOG_LOSS], total[BASE_LOG_LOSS]) if probability else None,
        "auc": auc if classes and math.isfinite(auc) else None,
        "accuracy": mean(CORRECT, classes),
        "base_rate": mean(OBSERVED, classes),
        "calibration_ratio": ratio(total[PREDICTED], total[OBSERVED]) if probability else None,
        "loss": mean(LOSS),
        "base_loss": mean(BASE_LOSS),
    }


def calibration_error(calibration: F64) -> float | None:
    """Return the expected calibration error: the mean over events of |observed - predicted| of their cell; None without events.

    calibration : f64[CELLS, CELL], as `accumulate_rows` updates it

    Source : Naeini, Cooper & Hauskrecht 2015, with cells of equal width
    """
    far = abs(calibration[:, CELL_OBSERVED] - calibration[:, CELL_PREDICTED])
    return ratio(float(far.sum()), float(calibration[:, CELL_WEIGHT].sum()))


def calibration_cells(calibration: F64, link: int) -> list[Figures]:
    """Return the cells of the calibration table, from probability 0 to 1; none for a link without probabilities."""
    if not has_probability(link):
        return []
    return [
        {
            "from": cell / CELLS,
            "to": (cell + 1) / CELLS,
            "examples": int(row[CELL_EXAMPLES]),
            "mean_predicted": ratio(row[CELL_PREDICTED], row[CELL_WEIGHT]),
            "mean_observed": ratio(row[CELL_OBSERVED], row[CELL_WEIGHT]),
        }
        for cell, row in enumerate(calibration.tolist())
    ]


# What the decisions of a model cost in the window: realised with the labels that came, and as the model itself expected.


def cost_figures(past: F64, link: int, costs: tuple[float, float], shift: float = 0.0) -> Figures:
    """Return mean costs of an event of the window under the threshold of the costs, and under others for comparison.

    past  : f64[PAST, n]  margins before learning, labels 0 or 1 and weights, as the window holds them
    link  : of `maths.links`, with probabilities
    costs : of a decision for the positive class with label 0, and of one for the negative class with label 1
    shift : of served margins, the logarithm of the share of negatives that are learnt; each counts as 1 / share here
    """
    cost_fp, cost_fn = costs
    threshold = cost_fp / (cost_fp + cost_fn)
    margin, positive = past[PAST_MARGIN] + shift, past[PAST_LABEL] > 0.0
    probability, label = np.empty(len(margin)), np.empty(len(margin))
    answers(margin, link, 0.0, probability, label)
    weight = past[PAST_WEIGHT] * np.where(positive, 1.0, math.exp(-shift))
    total = float(weight.sum())

    def mean(cost: F64) -> float | None:
        return ratio(float((cost * weight).sum()), total)

    def realised(decided: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float | None:
        return mean(np.where(decided & ~positive, cost_fp, np.where(~decided & positive, cost_fn, 0.0)))

    return {
        "examples": len(margin),
        "threshold": threshold,
        "realised": realised(probability > threshold),
        "expected": mean(np.minimum((1.0 - probability) * cost_fp, probability * cost_fn)),
        "realised_at_half": realised(probability > 0.5),
        "always_negative": realised(np.zeros(len(margin), np.bool_)),
        "always_positive": realised(np.ones(len(margin), np.bool_)),
    }
