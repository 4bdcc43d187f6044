"""The log loss from its definition."""

from __future__ import annotations

import math

from riata.base.arrays import BOOL, F64

TWINS_OF = ("figures",)


def log_loss(probability: float) -> float:
    """-log p, and 15 log 10 for the impossible."""
    return -math.log(probability) if probability > 1e-15 else 15.0 * math.log(10.0)


def log_losses(margin: F64, refused: BOOL, label: F64, weight: F64, loss: F64) -> None:
    """One row after the other."""
    for i, m in enumerate(margin.tolist()):
        sign = 1.0 if label[i] == 1.0 else -1.0
        impossible = bool(refused[i]) or not math.isfinite(m) or sign * m < -700.0
        loss[i] = weight[i] * log_loss(0.0 if impossible else 1.0 / (1.0 + math.exp(-sign * m)))
