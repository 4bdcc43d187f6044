"""Ranks of features: which slots occur in the data, how often, and the rank of each by decreasing frequency.

Theory of operation
    A solver's arrays are dense over the features that occur, the frequent ones first, so that they share the cache lines that
    are used most. A feature is a slot, the top bits of a hash. The map from slots is that of `service/native/columns.c`: an entry
    is slot * 2^32 + number, a count while the data is counted and rank + 1 afterwards.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32
from riata.base.errors import Corrupt
from riata.native.library import core, struct

_WORD: Final = 0xFFFFFFFF
_HALF: Final = 32
_AT_FIRST: Final = 2**12


def move_entries(place: I64, larger: I64) -> None:
    """Copy the entries of a map to another one, which is empty and has room for them. See `riata_move_entries`."""
    core.move_entries(place, len(place), larger, len(larger))


class SlotCounts:
    """Counts slots over any number of batches, with memory for the slots that occur.

    shift : slot = hash >> shift
    """

    def __init__(self, bits: int) -> None:
        self.shift = _HALF - bits
        self._place: I64 = np.zeros(_AT_FIRST, np.int64)
        self._counts = struct("riata_slot_counts", place=self._place, size=len(self._place))

    @property
    def nnz(self) -> int:
        """Features counted, equal slots of a row once."""
        return int(self._counts.counted)

    def add(self, indptr: I64, hashes: U32, keep: BOOL) -> None:
        """Count the rows that are kept."""
        row, n = 0, len(indptr) - 1
        while (row := core.count_slots(indptr, n, hashes, keep, self.shift, row, self._counts)) < n:
            larger: I64 = np.zeros(2 * len(self._place), np.int64)
            move_entries(self._place, larger)
            self._place = self._counts.place = larger
            self._counts.size = len(larger)

    def ranked(self) -> RankMap:
        """Return the ranks by decreasing count, those of equal counts by increasing slot."""
        taken = np.flatnonzero(self._place)
        entries = self._place[taken]
        slot, count = (entries >> _HALF) & _WORD, entries & _WORD
        order = np.lexsort((slot, -count))
        place = self._place.copy()
        place[taken[order]] = (slot[order] << _HALF) | np.arange(1, len(order) + 1)
        return RankMap(self.shift, place, slot[order].astype(np.uint32))


class RankMap:
    """The rank of each slot that occurs. Immutable.

    slots : u32[d]   slot of each rank
    """

    def __init__(self, shift: int, place: I64, slots: U32) -> None:
        self.slots = slots
        self._shift = shift
        self._place = place

    def rows(self, indptr: I64, hashes: U32, value: F64) -> tuple[I64, U32, F64]:
        """Return (indptr, rank, value) of these rows: each rank once in a row. Raises `Corrupt` if a slot was not counted."""
        starts, rank, total = np.empty(len(indptr), np.int64), np.empty(len(hashes), np.uint32), np.empty(len(hashes))
        rows = struct("riata_rows", indptr=indptr, hash=hashes, value=value, n=len(indptr) - 1, features=len(hashes))
        nnz = core.rank_rows(rows, self._shift, self._place, len(self._place), starts, rank, total)
        if nnz < 0:
            raise Corrupt("the data changed between two passes: it has a feature that was not there before")
        return starts, rank[:nnz], total[:nnz]
