"""The mean difference of two losses of the same events, with a standard error for events that depend on each other.

Neighbouring events resemble each other, so their differences do. The standard error is therefore taken over blocks of
consecutive events (batch means: Law & Kelton, Simulation Modeling and Analysis, section 9.5.3). Blocks that are long against the
dependence are independent of each other.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64

BLOCKS: Final = 50
ERRORS: Final = 2.0  # standard errors on both sides of an interval of about 95 %


def mean_of_blocks(weight: F64, sums: F64) -> tuple[float, float]:
    """Return a weighted mean and its standard error.

    weight, sums : f64[b], weight of each block, and its sum of weight times value; b at least 2
    """
    n, total = len(weight), weight.sum()
    mean = float(sums.sum() / total)
    squares = float(((sums - weight * mean) ** 2).sum())
    return mean, float(np.sqrt(n / (n - 1) * squares) / total)


class PairedDifference:
    """Sums of a difference over blocks of equal numbers of events, at most 2 * BLOCKS of them: if there are more, two neighbours
    become one. So there are at least BLOCKS once there were as many events, and memory does not grow."""

    def __init__(self) -> None:
        self._size = 1  # events of a block
        self._events = 0
        self._weight: F64 = np.zeros(2 * BLOCKS)
        self._sums: F64 = np.zeros(2 * BLOCKS)

    def add(self, difference: F64, weight: F64) -> None:
        """Add events in order: f64[n] each, the weights positive."""
        while self._events + len(weight) > 2 * BLOCKS * self._size:
            for held in (self._weight, self._sums):
                held[:BLOCKS] = held[0::2] + held[1::2]
                held[BLOCKS:] = 0.0
            self._size *= 2
        block = np.arange(self._events, self._events + len(weight)) // self._size
        self._weight += np.bincount(block, weight, 2 * BLOCKS)
        self._sums += np.bincount(block, weight * difference, 2 * BLOCKS)
        self._events += len(weight)

    def estimate(self) -> tuple[float, float] | None:
        """Return the mean difference and its standard error; None while there are fewer than BLOCKS events."""
        blocks = -(-self._events // self._size)
        return mean_of_blocks(self._weight[:blocks], self._sums[:blocks]) if blocks >= BLOCKS else None
