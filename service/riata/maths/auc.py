"""Area under the ROC curve: exact over sorted scores, and from a histogram of margins (`service/native/figures.c`)."""

from __future__ import annotations

from typing import Final

from riata.base.arrays import F64
from riata.native.library import core

BINS: Final = 4096  # margins in one bin count as ties: the error is at most half the weight of its pairs of unlike labels


def histogram_auc(negative: F64, positive: F64) -> float:
    """Return the area of the weights of both classes in each bin; NaN if a class is absent. See `riata_histogram_auc`."""
    area: float = core.histogram_auc(negative, positive, len(negative))
    return area


def ranked_auc(score: F64, label: F64, weight: F64) -> float:
    """Return the exact area of sorted scores; NaN if a class is absent. See `riata_ranked_auc`."""
    area: float = core.ranked_auc(score, label, weight, len(score))
    return area
