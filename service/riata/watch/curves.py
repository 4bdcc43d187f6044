"""The learning curve: figures at chosen events, thinned out so that there are never more than a few hundred points.

Counting the weights that are not zero takes a look at each of them, which is far more than a point costs otherwise. So after a
count of n the next is at the first point that n / REST events or more have passed by, and the points between have none: however
many weights there are, counting takes a small share of the time that learning does.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64
from riata.base.errors import Corrupt

POINTS_MAX: Final = 512
EARLY: Final = (10, 20, 50, 100, 200, 500)  # kept for ever; later points are at the multiples of a spacing
SPACING: Final = 1000  # to begin with; doubled whenever the points run out
REST: Final = 4  # a look at a weight costs about a hundredth of learning a row

# Columns of a point.
SEQ: Final = 0
EXAMPLES: Final = 1
LOSS: Final = 2
FADED_LOSS: Final = 3
WINDOW_LOSS: Final = 4
BASE_LOSS: Final = 5
AUC: Final = 6
NON_ZEROS: Final = 7
POINT: Final = 8


class Curve:
    """Points of a learning curve. Which events have one depends on how many events there were and on nothing else."""

    def __init__(self) -> None:
        self.spacing = SPACING
        self.changes = 0  # of the points
        self._points: F64 = np.zeros((0, POINT))
        self._noted = 0  # points whose number of non-zeros has been told, or was never going to be
        self._rested = 0  # number of events from which on non-zeros may be counted again; a function of the points alone

    def next_after(self, examples: int) -> int:
        """Return the first number of events above `examples` that has a point."""
        regular = (examples // self.spacing + 1) * self.spacing
        return next((early for early in EARLY if early > examples), regular)

    def next_count_after(self, examples: int) -> int:
        """Return a number of events above `examples` up to which no point awaits a count of non-zeros.

        It is that of the next point that does, or of an earlier one at which that may change: where points are dropped.
        """
        if examples < EARLY[-1]:
            return self.next_after(examples)
        dropping = (examples // self.spacing + 1 + POINTS_MAX - len(self._points)) * self.spacing
        return min(self.next_after(max(examples, self._rested - 1)), dropping)

    def add(self, point: F64) -> None:
        """Append a point (f64[POINT], non-zeros NaN); where there is no room, first drop every other of the regular ones."""
        self.changes += 1
        while len(self._points) >= POINTS_MAX:
            self.spacing *= 2
            keep = self._belongs(self._points[:, EXAMPLES])
            self._noted = int(keep[: self._noted].sum())
            self._points = self._points[keep]
            self._look_for_rest()
        examples = int(point[EXAMPLES])
        if examples % self.spacing == 0 or examples in EARLY:
            is_passed_over = not self.awaits_non_zeros and examples < self._rested
            self._points = np.vstack((self._points, point))
            self._noted += is_passed_over

    def note_non_zeros(self, non_zeros: int) -> None:
        """Give the points added since the last call this number of non-zero weights."""
        self.changes += 1
        self._points[self._noted :, NON_ZEROS] = non_zeros
        self._noted = len(self._points)
        self._look_for_rest()

    @property
    def awaits_non_zeros(self) -> bool:
        """Whether points were added since `note_non_zeros`."""
        return self._noted < len(self._points)

    def since(self, seq: int) -> F64:
        """Return the points of events after `seq`, oldest first, as f64[n, POINT]; NaN where a figure is not defined."""
        return self._points[self._points[:, SEQ] > seq].copy()

    def freeze(self) -> tuple[F64, list[int]]:
        """Return the points, and the two numbers beside them."""
        return self._points.copy(), [self.spacing, self._noted]

    def thaw(self, points: F64, spacing: int, noted: int) -> None:
        """Become the curve that `freeze` was called on. Raises `Corrupt`."""
        doublings = spacing // SPACING
        if points.ndim != 2 or points.shape[1] != POINT or len(points) > POINTS_MAX or not 0 <= noted <= len(points):
            raise Corrupt(f"learning curve: shape {points.shape}, {noted} noted")
        if spacing < SPACING or spacing % SPACING or doublings & (doublings - 1):
            raise Corrupt(f"learning curve: spacing {spacing} is not {SPACING} doubled")
        ordered = bool((np.diff(points[:, [SEQ, EXAMPLES]], axis=0) > 0).all()) and bool(np.isfinite(points[:, :LOSS]).all())
        if not ordered or np.isinf(points).any():
            raise Corrupt("learning curve: points out of order, or not finite")
        self.changes += 1
        self.spacing, self._noted, self._points = spacing, noted, points.copy()
        if not self._belongs(points[:, EXAMPLES]).all():
            raise Corrupt(f"learning curve: a point at an event that has none at spacing {spacing}")
        self._look_for_rest()

    def memory(self) -> int:
        """Return bytes."""
        return self._points.nbytes

    def _look_for_rest(self) -> None:
        """Find the last count among the points, and with it the end of the rest from counting."""
        counted = np.flatnonzero(self._points[:, NON_ZEROS] >= 0.0)  # not NaN
        last = self._points[counted[-1]] if len(counted) else np.zeros(POINT)
        self._rested = int(last[EXAMPLES]) + int(last[NON_ZEROS]) // REST

    def _belongs(self, examples: F64) -> BOOL:
        regular: BOOL = examples % self.spacing == 0
        return regular | np.isin(examples, EARLY)
