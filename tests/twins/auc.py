"""Slow, obvious twin of `riata.watch.figures`: every pair of a positive and a negative is looked at."""

from __future__ import annotations

import math

from riata.base.arrays import F64

TWINS_OF = ("figures",)


def ranked_auc(score: F64, label: F64, weight: F64) -> float:
    """Share of the weight of all pairs of unlike labels in which the positive scores higher; ties count half."""
    rows = list(zip(score.tolist(), label.tolist(), weight.tolist(), strict=True))
    right = pairs = 0.0
    for s, _, w in (row for row in rows if row[1] == 1.0):
        for other, _, v in (row for row in rows if row[1] != 1.0):
            pairs += w * v
            right += w * v * (1.0 if s > other else 0.5 if s == other else 0.0)
    return right / pairs if pairs else math.nan


def histogram_auc(negative: F64, positive: F64) -> float:
    """The same, where the score is the number of the bin."""
    right = pairs = 0.0
    for i, w in enumerate(positive.tolist()):
        for j, v in enumerate(negative.tolist()):
            pairs += w * v
            right += w * v * (1.0 if i > j else 0.5 if i == j else 0.0)
    return right / pairs if pairs else math.nan
