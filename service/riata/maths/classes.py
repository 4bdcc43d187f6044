"""Probabilities of several classes from one margin a class: one-vs-rest."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64, I64
from riata.native.library import core


def class_probabilities(margin: F64, link: int) -> tuple[F64, I64]:
    """Return the probabilities f64[n, k] of margins f64[n, k], which sum to one, and the class of the largest margin of each row.

    See `riata_class_probabilities`.
    """
    (n, k), probability = margin.shape, np.empty(margin.shape)
    winner = np.empty(n, np.int64)
    core.class_probabilities(margin, n, k, link, probability, winner)
    return probability, winner
