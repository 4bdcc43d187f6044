"""Computes the reported metrics from sums: None where a metric is not defined, never NaN."""

from __future__ import annotations

import math
from typing import Any

from riata.base.arrays import F64
from riata.maths.links import REAL, WITH_PROBABILITY
from riata.watch import accumulate
from riata.watch.accumulate import SCALE, WEIGHT

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
        "log_loss": mean(accumulate.LOG_LOSS, probability),
        "base_log_loss": mean(accumulate.BASE_LOG_LOSS, probability),
        "normalised_entropy": ratio(total[accumulate.LOG_LOSS], total[accumulate.BASE_LOG_LOSS]) if probability else None,
        "auc": auc if classes and math.isfinite(auc) else None,
        "accuracy": mean(accumulate.CORRECT, classes),
        "base_rate": mean(accumulate.OBSERVED, classes),
        "calibration_ratio": ratio(total[accumulate.PREDICTED], total[accumulate.OBSERVED]) if probability else None,
        "loss": mean(accumulate.LOSS),
        "base_loss": mean(accumulate.BASE_LOSS),
    }


def calibration_error(calibration: F64) -> float | None:
    """Return the expected calibration error: the mean over events of |observed - predicted| of their cell; None without events.

    calibration : f64[CELLS, CELL], as `accumulate_rows` updates it

    Source : Naeini, Cooper & Hauskrecht 2015, with cells of equal width
    """
    far = abs(calibration[:, accumulate.CELL_OBSERVED] - calibration[:, accumulate.CELL_PREDICTED])
    return ratio(float(far.sum()), float(calibration[:, accumulate.CELL_WEIGHT].sum()))


def calibration_cells(calibration: F64, link: int) -> list[Figures]:
    """Return the cells of the calibration table, from probability 0 to 1; none for a link without probabilities."""
    if not has_probability(link):
        return []
    return [
        {
            "from": cell / accumulate.CELLS,
            "to": (cell + 1) / accumulate.CELLS,
            "examples": int(row[accumulate.CELL_EXAMPLES]),
            "mean_predicted": ratio(row[accumulate.CELL_PREDICTED], row[accumulate.CELL_WEIGHT]),
            "mean_observed": ratio(row[accumulate.CELL_OBSERVED], row[accumulate.CELL_WEIGHT]),
        }
        for cell, row in enumerate(calibration.tolist())
    ]
