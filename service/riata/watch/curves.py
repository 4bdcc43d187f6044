"""The learning curve: metrics at chosen events, thinned out so that there are at most a few hundred points.

Counting the non-zero weights reads every weight, which is far more expensive than the rest of a point. So after a count of n, the
next count is at the first point that is at least n / REST events later. The points between have no count. So for any number of
weights, counting takes a small share of the time that learning takes.

The faded loss of the base rate was added to points later. A checkpoint has it beside the points, so that the points have the
same bytes as before; of a point from an older checkpoint it is NaN.

A point has the number of the event after which it was made, in the log in which it was made. If a state was moved to another
log, those numbers mean nothing there, and may be larger than those of later points. Only the number of examples orders points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64
from riata.base.errors import Corrupt

POINTS_MAX: Final = 512
EARLY: Final = (10, 20, 50, 100, 200, 500)  # never thinned out; later points are at the multiples of a spacing
SPACING: Final = 1000  # initial value; doubled whenever POINTS_MAX is reached
REST: Final = 4  # counting one weight costs about a hundredth of learning a row

# Columns of a point.
SEQ: Final = 0
EXAMPLES: Final = 1
LOSS: Final = 2
FADED_LOSS: Final = 3
WINDOW_LOSS: Final = 4
BASE_LOSS: Final = 5
AUC: Final = 6
NON_ZEROS: Final = 7
FADED_BASE_LOSS: Final = 8
POINT: Final = 9
STORED: Final = 8  # the first columns, as in a checkpoint


class Carried(NamedTuple):
    """Which points of a curve were made in another log: those of up to `examples` events. Event `seq` brought them into this one.

    `examples` is UNKNOWN for a state written by a version that did not record it; `seq` is then the last event of that state.
    """

    seq: int
    examples: int


UNKNOWN: Final = -1
NOTHING_CARRIED: Final = Carried(0, 0)


class Curve:
    """Points of a learning curve. Which events have a point depends only on the number of events."""

    def __init__(self) -> None:
        self.carried = NOTHING_CARRIED
        self.spacing = SPACING
        self._points: F64 = np.zeros((0, POINT))
        self._noted = 0  # points whose number of non-zeros was set, or that never get one
        self._rested = 0  # number of events from which non-zeros may be counted again; a function of the points alone

    def next_after(self, examples: int) -> int:
        """Return the first number of events above `examples` that has a point."""
        regular = (examples // self.spacing + 1) * self.spacing
        return next((early for early in EARLY if early > examples), regular)

    def next_count_after(self, examples: int) -> int:
        """Return a number of events above `examples` before which no point needs a count of non-zeros.

        It is that of the next point that needs one, or of an earlier point at which points are dropped, since that may change it.
        """
        if examples < EARLY[-1]:
            return self.next_after(examples)
        dropping = (examples // self.spacing + 1 + POINTS_MAX - len(self._points)) * self.spacing
        return min(self.next_after(max(examples, self._rested - 1)), dropping)

    def add(self, point: F64) -> None:
        """Append a point (f64[POINT], non-zeros NaN). If there is no room, first drop every second regular point."""
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
        """Set the number of non-zero weights of the points added since the last call."""
        self._points[self._noted :, NON_ZEROS] = non_zeros
        self._noted = len(self._points)
        self._look_for_rest()

    @property
    def awaits_non_zeros(self) -> bool:
        """Whether points were added that need a `note_non_zeros`."""
        return self._noted < len(self._points)

    def since(self, seq: int) -> F64:
        """Return the points of events after `seq`, oldest first, as f64[n, POINT]; NaN where a figure is not defined.

        A point that was made in another log has the number of the event that brought it into this one.
        """
        points = self._points.copy()
        points[points[:, EXAMPLES] <= self.carried.examples, SEQ] = self.carried.seq
        return points[points[:, SEQ] > seq]

    def carry(self, seq: int, examples: int) -> None:
        """Note that event `seq` of a new log brought this curve, of `examples` events, into that log."""
        self.carried = Carried(seq, examples)

    def freeze(self) -> tuple[F64, list[int]]:
        """Return the points, f64[n, STORED], and the spacing and the number of noted points."""
        return self._points[:, :STORED].copy(), [self.spacing, self._noted]

    def faded_bases(self) -> list[float | None]:
        """Return the faded loss of the base rate at each point; None where it is not known."""
        return [None if math.isnan(loss) else loss for loss in self._points[:, FADED_BASE_LOSS].tolist()]

    def thaw(
        self, points: F64, spacing: int, noted: int, carried: Carried = NOTHING_CARRIED, bases: Sequence[float | None] = ()
    ) -> None:
        """Restore the curve from what `freeze` returned, `carried` and `faded_bases`; these may be missing. Raises `Corrupt`."""
        doublings = spacing // SPACING
        if points.ndim != 2 or points.shape[1] != STORED or len(points) > POINTS_MAX or not 0 <= noted <= len(points):
            raise Corrupt(f"learning curve: shape {points.shape} for {noted} points")
        if spacing < SPACING or spacing % SPACING or doublings & (doublings - 1):
            raise Corrupt(f"learning curve: spacing {spacing} is not {SPACING} times a power of two")
        if not np.isfinite(points[:, :LOSS]).all() or np.isinf(points).any():
            raise Corrupt("learning curve: a point is not finite")
        if carried.examples == UNKNOWN:
            carried = _find_carried(points, carried.seq)
        own = points[points[:, EXAMPLES] > carried.examples, SEQ]  # event numbers of other logs mean nothing
        if not _rises(points[:, EXAMPLES]) or not _rises(own) or (own <= carried.seq).any():
            raise Corrupt("learning curve: points are out of order")
        self.carried = carried
        faded = np.array([math.nan if base is None else base for base in bases] or [math.nan] * len(points), np.float64)
        if len(faded) != len(points) or np.isinf(faded).any():
            raise Corrupt(f"learning curve: {len(faded)} losses of the base rate for {len(points)} points")
        self.spacing, self._noted, self._points = spacing, noted, np.column_stack((points, faded))
        if not self._belongs(points[:, EXAMPLES]).all():
            raise Corrupt(f"learning curve: a point is at an event that spacing {spacing} does not include")
        self._look_for_rest()

    def copy(self) -> Curve:
        """Return a copy that later points do not change."""
        found = copy(self)
        found._points = self._points.copy()
        return found

    def memory(self) -> int:
        """Return bytes."""
        return self._points.nbytes

    def _look_for_rest(self) -> None:
        """Set from which number of events non-zeros may be counted again, according to the last count among the points."""
        counted = np.flatnonzero(self._points[:, NON_ZEROS] >= 0.0)  # not NaN
        last = self._points[counted[-1]] if len(counted) else np.zeros(POINT)
        self._rested = int(last[EXAMPLES]) + int(last[NON_ZEROS]) // REST

    def _belongs(self, examples: F64) -> BOOL:
        regular: BOOL = examples % self.spacing == 0
        return regular | np.isin(examples, EARLY)


def _find_carried(points: F64, applied: int) -> Carried:
    """Infer which points of a curve at event `applied` were made in another log, if the state does not record it.

    A point was made in another log if it, or a later point, has an event number that is not below that of the next point, or that
    is above `applied`. Which event brought them is not known: the latest possible one is returned.
    """
    bound = np.append(points[1:, SEQ], applied + 1)
    breaks = np.flatnonzero(points[:, SEQ] >= bound)
    return Carried(int(bound[breaks[-1]]) - 1, int(points[breaks[-1], EXAMPLES])) if len(breaks) else NOTHING_CARRIED


def _rises(numbers: F64) -> bool:
    return bool((np.diff(numbers) > 0).all())
