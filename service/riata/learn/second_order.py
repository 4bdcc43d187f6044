"""A member of second order: the weights of all features together, as a normal distribution; `second_order.h` explains it.

It is for models of fewer than WEIGHTS features. With more it ends, and its arrays are freed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, I64, U8, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.frozen import check_numbers, check_slots, merged
from riata.learn.learner import ColumnRange
from riata.learn.slot_table import SlotTable
from riata.native.library import core, struct

WEIGHTS: Final = 80  # the intercept's included; these and the next are the numbers of second_order.h
KEYS: Final = 256
VARIANCE: Final = 40.0  # of a weight at first, times the square of the largest |x|
VARIANCE_COUNT: Final = 5.0  # of a feature whose values are 1
VARIANCE_INTERCEPT: Final = 100.0
PEAK_MIN: Final = 2.0**-400  # largest |x| outside of these are not learnt
PEAK_MAX: Final = 2.0**400
VARIANCE_SCALED: Final = 2.0  # of the weight of a column, over the variance of its values
DEVIATION_MIN: Final = 1e-4  # of a column over its largest |x|, or rounding errors of the intercept's variance would be too large

SLOT: Final = "second_slot"
WEIGHT: Final = "second_weight"
PEAK: Final = "second_peak"
COVARIANCE: Final = "second_covariance"
GIVEN: Final = "second_given"
STATE: Final = {SLOT, WEIGHT, PEAK, COVARIANCE}
_STEP: Final = 16  # places of room


class SecondOrder:
    """The arrays of the kernel. None while it does not learn: with the setting off, and once it has ended.

    native : `riata_second`
    """

    def __init__(self, counts: I64, at: int, wanted: bool, scaled: bool = False) -> None:
        """
        counts, at : the kernel keeps the number of places in use in counts[at]; 0 says that it does not learn
        scaled     : whether weights of columns may have variances at first as of `scaled_second_order`
        """
        self._counts, self._at, self._scaled = counts, at, scaled
        self._counts[at] = int(wanted)
        self._hold(0)
        if wanted:
            self._hold(_STEP)
            self._covariance[0, 0] = VARIANCE_INTERCEPT

    @property
    def size(self) -> int:
        """Places in use, the intercept's included."""
        return int(self._counts[self._at])

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(array.nbytes for array in (self._covariance, self._weight, self._peak, self._line, self._place))

    @property
    def checkpoint_nbytes(self) -> int:
        """Bytes of `freeze`."""
        size = self.size
        return 4 * (size - 1) + 8 * ((2 + self._scaled) * size - 1 + size * (size + 1) // 2) if size else 0

    def make_room(self, lines: int) -> bool:
        """Have room for the features of a table with so many lines. Returns whether arrays are others now."""
        needed = min(WEIGHTS, -(-(lines + 1) // _STEP) * _STEP) if self.size else 0
        if len(self._weight) >= needed > 0 or len(self._weight) == needed:
            return False
        held = self.size, self._covariance, self._weight, self._peak, self._line, self._given
        self._hold(needed)
        if needed:
            self._fill(*held)
        return True

    def added(self, slot: U32, beta: F64, share: float, slots: SlotTable) -> tuple[U32, F64]:
        """Weights of slots, and in addition those of this member times its share. slot : u32[m] strictly increasing"""
        if self.size < 2:
            return slot, beta
        own, order = self._slots(slots)
        every = merged(slot, own)
        total = np.zeros(len(every))
        total[np.searchsorted(every, slot)] = beta
        total[np.searchsorted(every, own)] += share * self._weight[order]
        return every, total

    def forget(self, keep: float) -> None:
        """Let the past count for `keep` of what it counted: variances grow, up to those at first."""
        size = self.size
        if not size:
            return
        part = self._covariance[:size, :size]
        part /= keep
        variance = part.diagonal()
        limit = np.minimum(1.0, np.sqrt(self._first()[:size] / np.where(variance > 0.0, variance, 1.0)))
        part *= limit
        part *= limit[:, np.newaxis]

    def mend(self, line: int, peak: float, mean: float) -> None:
        """Let a feature begin anew with another largest |x|; the intercept takes over what it gave a row with the mean."""
        for at in (np.flatnonzero(self._line[1 : self.size] == line) + 1).tolist():
            if self._peak[at] > peak:
                self._weight[0] += self._weight[at] * mean
                self._weight[at] = self._covariance[at] = self._covariance[:, at] = 0.0
                self._peak[at], self._covariance[at, at], self._given[at] = peak, VARIANCE / peak**2, 0.0

    @property
    def intercept(self) -> float:
        return float(self._weight[0])

    def freeze(self, slots: SlotTable) -> Arrays:
        """Return copies of its numbers, in the order of slots; all are empty if it does not learn.

        second_slot       : u32[d]  strictly increasing
        second_weight     : f64[d + 1]  the intercept first
        second_peak       : f64[d]  largest |x|
        second_covariance : f64[(d + 1) (d + 2) / 2]  the rows of the lower triangle
        second_given      : f64[d + 1]  with `scaled`: variances at first; 0 for those that follow from peaks
        """
        if not self.size:
            return no_second_order(self._scaled)
        slot, order = self._slots(slots)
        every = np.concatenate(([0], order))
        lower = np.tril_indices(len(every))
        covariance = self._covariance[np.ix_(every, every)][lower]
        given = {GIVEN: self._given[every]} if self._scaled else {}
        return {SLOT: slot, WEIGHT: self._weight[every], PEAK: self._peak[order], COVARIANCE: covariance, **given}

    def thaw(self, arrays: Arrays, slots: SlotTable) -> None:
        """Restore checked arrays."""
        size = len(arrays[WEIGHT])
        self._counts[self._at] = size
        self._hold(min(WEIGHTS, -(-size // _STEP) * _STEP))
        if not size:
            return
        lower = np.tril_indices(size)
        covariance = np.zeros((size, size))
        covariance[lower] = arrays[COVARIANCE]
        covariance.T[lower] = arrays[COVARIANCE]
        lines = np.concatenate(([0], slots.lines_of(arrays[SLOT].astype(np.uint32)))).astype(np.uint32)
        weight, peak = (arrays[name].astype(np.float64) for name in (WEIGHT, PEAK))
        given = arrays[GIVEN].astype(np.float64) if self._scaled else np.zeros(size)
        self._fill(size, covariance, weight, np.concatenate(([0.0], peak)), lines, given)

    def _hold(self, room: int) -> None:
        self._covariance: F64 = np.zeros((room, room))
        self._weight, self._peak, self._given = np.zeros(room), np.zeros(room), np.zeros(room)
        self._line: U32 = np.zeros(room, np.uint32)
        self._place: U8 = np.zeros(KEYS if room else 0, np.uint8)
        self.native: Any = struct(
            "riata_second",
            covariance=self._covariance,
            weight=self._weight,
            peak=self._peak,
            line=self._line,
            place=self._place,
            room=room,
        )

    def _fill(self, size: int, covariance: F64, weight: F64, peak: F64, line: U32, given: F64) -> None:
        self._covariance[:size, :size] = covariance[:size, :size]
        for mine, held in ((self._weight, weight), (self._peak, peak), (self._line, line), (self._given, given)):
            mine[:size] = held[:size]
        core.place_second(self.native, size)

    def _slots(self, slots: SlotTable) -> tuple[U32, I64]:
        """The slots of the features, increasing, and their places."""
        slot = slots.slots_of(self._line[1 : self.size])
        order = np.argsort(slot)
        return slot[order], order + 1

    def _first(self) -> F64:
        """The variances at first."""
        variance = np.where(self._peak == 1.0, VARIANCE_COUNT, VARIANCE)
        first: F64 = variance / np.where(self._peak > 0.0, self._peak, math.inf) ** 2
        first[0] = VARIANCE_INTERCEPT
        return np.where(self._given > 0.0, self._given, first)


def no_second_order(scaled: bool = False) -> Arrays:
    """The arrays of one that does not learn."""
    names = (WEIGHT, PEAK, COVARIANCE, GIVEN) if scaled else (WEIGHT, PEAK, COVARIANCE)
    return {SLOT: np.zeros(0, np.uint32), **{name: np.zeros(0) for name in names}}


def scaled_second_order(ranges: Mapping[int, ColumnRange]) -> Arrays:
    """The arrays of one before its first row, whose weights are independent once each column, by slot, has the mean 0 and the
    variance 1 over all rows, those without it included."""
    share, mean, within, low, high = np.array([ranges[slot] for slot in sorted(ranges)]).reshape(-1, 5).T
    peak = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(over="ignore"):
        centre, variance = share * mean, share * (within + (1.0 - share) * mean**2)
        kept = (variance > (DEVIATION_MIN * peak) ** 2) & (peak >= PEAK_MIN) & (peak <= PEAK_MAX)
    centre, peak, first = centre[kept], peak[kept], VARIANCE_SCALED / variance[kept]
    intercept = VARIANCE_INTERCEPT + float(centre**2 @ first)
    covariance = np.diag(np.append(intercept, first))
    covariance[1:, 0] = -centre * first
    return {
        SLOT: np.array(sorted(ranges), np.uint32)[kept],
        WEIGHT: np.zeros(len(covariance)),
        PEAK: peak,
        COVARIANCE: covariance[np.tril_indices(len(covariance))],
        GIVEN: np.append(intercept, first),
    }


def check_second_order(arrays: Mapping[str, Any], bits: int, share: float) -> None:
    """Raise `Corrupt` unless the arrays are those of `freeze`. share : of the member"""
    size, d = len(arrays[WEIGHT]), len(arrays[SLOT])
    check_slots(SLOT, arrays[SLOT], bits)
    if size != (d + 1 if d or size else 0) or size > WEIGHTS or (size > 0 and share == 0.0):
        raise Corrupt("learner state: the weights of second order are not those of its slots")
    check_numbers(WEIGHT, arrays[WEIGHT], size)
    check_numbers(PEAK, arrays[PEAK], d, least=0.0)
    check_numbers(COVARIANCE, arrays[COVARIANCE], size * (size + 1) // 2)
    if GIVEN in arrays:
        check_numbers(GIVEN, arrays[GIVEN], size, least=0.0)
