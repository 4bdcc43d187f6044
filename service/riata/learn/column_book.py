"""The book of numeric columns of truncated gradient, whose centres the kernel takes from it; `numeric_columns.h` explains it."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, I64, U8, Arrays
from riata.base.errors import Corrupt
from riata.learn.frozen import check_numbers, check_slots
from riata.learn.learner import ColumnRange
from riata.learn.slot_table import SlotTable

ENTRIES: Final = 2048  # these and the next are the numbers of numeric_columns.h
KEY: Final = 0  # numbers of an entry: the slot plus one, 0 for none
COUNT: Final = 1  # rows of the survey with the feature; then rows before its first, sum, lowest and highest of its values
SUM: Final = 3
LOW: Final = 4
HIGH: Final = 5
ENTRY: Final = 6
LINE: Final = 6  # and what is no state: the line of the slot; then when a centre was computed, and its numbers
KEPT: Final = 10
MARKS: Final = 1024


class ColumnBook:
    """The entries of the book, for a kernel and for a frozen state.

    column : f64[KEPT, ENTRIES]; none if columns are not centred
    mark   : u8[MARKS]
    """

    def __init__(self, counts: I64, at: int, centred: bool) -> None:
        """
        counts, at : the kernel keeps the number of entries in counts[at], and the number of rows learnt in counts[0]
        centred    : whether columns are centred
        """
        self._counts, self._at, self._centred = counts, at, centred
        self.column: F64 = np.zeros((KEPT, ENTRIES if centred else 0))
        self.mark: U8 = np.ones(MARKS, np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of the entries."""
        return self.column.nbytes

    @property
    def checkpoint_nbytes(self) -> int:
        """Bytes of `freeze`."""
        return int(self._counts[self._at]) * (4 + ENTRY * self.column.itemsize)

    def has(self, slot: int) -> bool:
        """Whether a slot has an entry."""
        return bool((self.column[KEY] == slot + 1.0).any())

    def mend(self, slot: int, found: ColumnRange) -> None:
        """Let a column, if it has an entry, have the values of a range."""
        for at in np.flatnonzero(self.column[KEY] == slot + 1.0).tolist():
            self.column[[SUM, LOW, HIGH], at] = self.column[COUNT, at] * found.mean, found.low, found.high
            self.column[LINE + 1 :, at] = 0.0

    def freeze(self) -> Arrays:
        """Return copies of the entries; nothing if columns are not centred.

        entry       : u32[c]    places in the book; strictly increasing
        column_slot : i64[c]    their slots
        survey      : f64[5 c]  rows of the survey, those before, sum, lowest and highest value of each
        """
        if not self._centred:
            return {}
        entry = np.flatnonzero(self.column[KEY]).astype(np.uint32)
        return {
            "entry": entry,
            "column_slot": self.column[KEY, entry].astype(np.int64) - 1,
            "survey": self.column[COUNT:ENTRY, entry].T.ravel(),
        }

    def thaw(self, arrays: Arrays, slots: SlotTable) -> None:
        """Restore checked entries of a table into an empty book; counts[0] is that of the state."""
        if not self._centred:
            return
        entry = arrays["entry"]
        survey = arrays["survey"].astype(np.float64)
        self.column[KEY, entry] = arrays["column_slot"].astype(np.int64) + 1
        self.column[COUNT:ENTRY, entry] = survey.reshape(-1, ENTRY - 1).T
        self.column[LINE, entry] = slots.lines_of(arrays["column_slot"].astype(np.uint32))
        self._counts[self._at] = len(entry)

    def check(self, arrays: Arrays, bits: int) -> None:
        """Raise `Corrupt` unless the arrays are entries of the book after counts[0] rows, of slots with so many bits."""
        if not self._centred:
            return
        entry, slot, survey = (arrays[name] for name in ("entry", "column_slot", "survey"))
        learnt = int(arrays["counts"][0])
        check_slots("entry", entry, ENTRIES.bit_length() - 1)
        if slot.dtype != np.int64 or slot.shape != entry.shape:
            raise Corrupt("learner state: the columns have no slots")
        check_numbers("the numbers of columns", survey, (ENTRY - 1) * len(entry))
        count, since, _, low, high = survey.astype(np.float64).reshape(-1, ENTRY - 1).T
        slots = slot.astype(np.int64)
        good = (slots >= 0) & (slots < 2**bits) & (count >= 1.0) & (since >= 0.0) & (since <= learnt) & (low <= high)
        if not bool(good.all()):
            raise Corrupt("learner state: an entry of the columns is out of range")


def no_columns() -> Arrays:
    """The entries of a book without any."""
    return ColumnBook(np.zeros(1, np.int64), 0, True).freeze()
