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


class BlockSums:
    """Sums of a value over blocks of equal numbers of events, at most 2 * BLOCKS of them: if there are more, two neighbours
    become one. So there are at least BLOCKS once there were as many events, and memory does not grow.

    The value is a difference of losses, or a loss: two models with sums over the same events have paired differences too. How
    events are cut into calls changes no bit.
    """

    def __init__(self) -> None:
        self.size = 1  # events of a block
        self.events = 0
        self.weight: F64 = np.zeros(2 * BLOCKS)
        self.sums: F64 = np.zeros(2 * BLOCKS)

    def add(self, values: F64, weight: F64) -> None:
        """Add events in order: f64[n] each. An event without weight counts as an event only."""
        start = 0
        while start < len(weight):
            if self.events == 2 * BLOCKS * self.size:
                self.weight, self.sums = _halved(self.weight), _halved(self.sums)
                self.size *= 2
            stop = min(len(weight), start + 2 * BLOCKS * self.size - self.events)
            block = np.arange(self.events, self.events + stop - start) // self.size
            np.add.at(self.weight, block, weight[start:stop])  # one after the other: the order of additions decides the bits
            np.add.at(self.sums, block, weight[start:stop] * values[start:stop])
            self.events += stop - start
            start = stop

    def estimate(self) -> tuple[float, float] | None:
        """Return the mean and its standard error; None while there are fewer than BLOCKS events."""
        blocks = -(-self.events // self.size)
        return mean_of_blocks(self.weight[:blocks], self.sums[:blocks]) if blocks >= BLOCKS else None

    def minus(self, other: BlockSums) -> tuple[int, float, float] | None:
        """Return how many events were compared, the mean of this value minus that of `other`, and its standard error.

        Both are of the same events, one perhaps of more. Compared are the blocks that both have seen whole, without those in
        which an event has no weight on one side. None while there are fewer than BLOCKS / 2 of them.
        """
        size = max(self.size, other.size)
        mine, others = self._in_blocks_of(size), other._in_blocks_of(size)
        whole = np.arange(2 * BLOCKS) < min(self.events, other.events) // size
        both = whole & (mine[0] == others[0]) & (mine[0] > 0.0)
        if both.sum() < BLOCKS // 2:
            return None
        return int(both.sum()) * size, *mean_of_blocks(mine[0][both], (mine[1] - others[1])[both])

    def _in_blocks_of(self, size: int) -> tuple[F64, F64]:
        """Return weight and sums in blocks of `size` events, a power of two times the present size."""
        weight, sums = self.weight, self.sums
        for _ in range((size // self.size).bit_length() - 1):
            weight, sums = _halved(weight), _halved(sums)
        return weight, sums


def _halved(held: F64) -> F64:
    """Return the sums of two neighbours each, f64[2 * BLOCKS], and zeros for blocks to come."""
    return np.concatenate([held[0::2] + held[1::2], np.zeros(BLOCKS)])
