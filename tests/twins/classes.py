"""Slow, obvious twins of the kernels of several classes: probabilities from their definition, sums over all events."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

from riata.base.arrays import F64
from riata.maths.links import PROBIT

TWINS_OF = ("figures",)


def shares(margins: list[float], link: int) -> list[float]:
    """The probability of each class: its own, divided by the sum, with as many digits as it takes."""
    with mpmath.workdps(60):
        own = [mpmath.ncdf(m) if link == PROBIT else 1 / (1 + mpmath.exp(-mpmath.mpf(m))) for m in margins]
        return [float(each / sum(own)) for each in own]


def class_probabilities(margin: F64, link: int) -> tuple[list[list[float]], list[int]]:
    """The probabilities of each row, and the class of its largest margin, the first of equal ones."""
    rows = margin.tolist()
    return [shares(row, link) for row in rows], [row.index(max(row)) for row in rows]


def accumulate_classes(margin: F64, label: F64, weight: F64, link: int) -> dict[str, Any]:
    """What is known of the events together: means by importance, and of each class recall, precision, f1 and log loss."""
    chances, winners = class_probabilities(margin, link)
    y, w, k = label.astype(int).tolist(), weight.tolist(), margin.shape[1]
    cost = [-np.log(max(row[c], 1e-15)) for row, c in zip(chances, y, strict=True)]
    base = []
    for i, c in enumerate(y):
        seen = sum(w[j] for j in range(i) if y[j] == c)
        base.append(-np.log((seen + 0.5) / (sum(w[:i]) + 0.5 * k)))
    classes = []
    for c in range(k):
        of, given = [i for i in range(len(y)) if y[i] == c], [i for i in range(len(y)) if winners[i] == c]
        hits = sum(w[i] for i in of if winners[i] == c)
        support, told = sum(w[i] for i in of), sum(w[i] for i in given)
        classes.append(
            {
                "recall": hits / support if support else None,
                "precision": hits / told if told else None,
                "f1": 2 * hits / (support + told) if support + told else None,
                "log_loss": sum(w[i] * cost[i] for i in of) / support if support else None,
            }
        )
    total = sum(w)
    return {
        "accuracy": sum(w[i] for i in range(len(y)) if winners[i] == y[i]) / total,
        "log_loss": sum(a * b for a, b in zip(w, cost, strict=True)) / total,
        "base_log_loss": sum(a * b for a, b in zip(w, base, strict=True)) / total,
        "classes": classes,
    }
