"""Ranks of features: which slots occur in the data, how often, and the rank of each by decreasing frequency.

Theory of operation
    A solver's arrays are dense over the features that occur, the frequent ones first, so that they share the cache lines that
    are used most. A feature is a slot, the top bits of a hash. The map from slots is a hash map with open addressing: as large as
    the number of features asks for, whatever the number of slots is. A table over all slots would take 16 GiB for 32 bits.

    An entry is slot * 2^32 + number, so one read returns both. The number is a count while the data is counted, and
    rank + 1 afterwards; 0 is an empty entry. The map is at most half full.

    Slots of a row can be equal although its hashes are not. Their values are summed: a curvature is of the sum's square. Hashes
    increase within a row, so equal slots are neighbours.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32
from riata.base.errors import Corrupt
from riata.jit.kernel import inline_kernel, kernel

_SPREAD: Final = 0x9E3779B1  # 2^32 / golden ratio, odd: adjacent slots are mapped far apart
_WORD: Final = 0xFFFFFFFF
_FOLD: Final = 15  # the upper bits of the product depend on all bits of a slot
_HALF: Final = 32
_AT_FIRST: Final = 2**12


@inline_kernel
def place_of(place: I64, slot: int) -> int:
    """Where the entry of a slot is, or where it would be.

    Source    open addressing with linear probing; this module
    """
    mask = len(place) - 1
    spread = (slot * _SPREAD) & _WORD
    at = (spread ^ (spread >> _FOLD)) & mask
    while place[at] != 0 and (place[at] >> _HALF) & _WORD != slot:
        at = (at + 1) & mask
    return at


@kernel
def count_slots(indptr: I64, hashes: U32, keep: BOOL, shift: int, start: int, place: I64, used: int) -> tuple[int, int, int]:
    """Count how often each slot occurs.

    Parameters
    ----------
    indptr : i64[n + 1]   row i is indptr[i]:indptr[i + 1]
    hashes : u32[nnz]     increasing within a row; read only
    keep : bool[n]        rows that are not kept are not counted
    shift : int           slot = hash >> shift
    start : int           the first row to count
    place : i64[2^k]      the map; overwritten
    used : int            its entries

    Returns               the row before which it stopped, n or one for which the map may lack room; entries; features counted
    Cost                  one probe for each feature
    Source                this module's theory of operation
    """
    counted = 0
    for i in range(start, len(indptr) - 1):
        if not keep[i]:
            continue
        first, stop = indptr[i], indptr[i + 1]
        if 2 * (used + stop - first) > len(place):
            return i, used, counted
        before, at = -1, 0
        for k in range(first, stop):
            slot = int(hashes[k]) >> shift
            if slot != before:
                before, at = slot, place_of(place, slot)
                counted += 1
                if place[at] == 0:
                    place[at] = slot << _HALF
                    used += 1
            place[at] += 1
    return len(indptr) - 1, used, counted


@kernel
def move_entries(place: I64, larger: I64) -> None:
    """Copy the entries of a map to another one.

    Parameters
    ----------
    place : i64[2^k]     read only
    larger : i64[2^m]    empty, with room for them; overwritten

    Returns              nothing
    Cost                 O(2^k)
    Source               this module's theory of operation
    """
    for at in range(len(place)):
        if place[at] != 0:
            larger[place_of(larger, (place[at] >> _HALF) & _WORD)] = place[at]


@kernel
def rank_rows(indptr: I64, hashes: U32, value: F64, shift: int, place: I64, starts: I64, rank: U32, total: F64) -> int:
    """Replace hashes by ranks, and sum the values of equal ranks of a row.

    Parameters
    ----------
    indptr : i64[n + 1]   row i is indptr[i]:indptr[i + 1]
    hashes : u32[nnz]     increasing within a row; read only
    value : f64[nnz]      read only
    shift : int           slot = hash >> shift
    place : i64[2^k]      the map, with ranks; read only
    starts : i64[n + 1]   overwritten: where the rows begin in the arrays below
    rank : u32[nnz]       its head is overwritten: each rank once in a row, in the order of the slots
    total : f64[nnz]      its head is overwritten: values

    Returns               features written; -1 if a slot is not in the map
    Cost                  one probe for each feature
    Source                this module's theory of operation
    """
    to = 0
    for i in range(len(indptr) - 1):
        starts[i] = to
        before = -1
        for k in range(indptr[i], indptr[i + 1]):
            slot = int(hashes[k]) >> shift
            if slot == before:
                total[to - 1] += value[k]
                continue
            before = slot
            number = place[place_of(place, slot)] & _WORD
            if number == 0:
                return -1
            rank[to] = np.uint32(number - 1)
            total[to] = value[k]
            to += 1
    starts[len(indptr) - 1] = to
    return to


class SlotCounts:
    """Counts slots over any number of batches, with memory for the slots that occur.

    shift : slot = hash >> shift
    nnz   : features counted, equal slots of a row once
    """

    def __init__(self, bits: int) -> None:
        self.shift = _HALF - bits
        self.nnz = 0
        self._used = 0
        self._place: I64 = np.zeros(_AT_FIRST, np.int64)

    def add(self, indptr: I64, hashes: U32, keep: BOOL) -> None:
        """Count the rows that are kept."""
        row, n = 0, len(indptr) - 1
        while True:
            row, self._used, counted = count_slots(indptr, hashes, keep, self.shift, row, self._place, self._used)
            self.nnz += counted
            if row == n:
                return
            larger: I64 = np.zeros(2 * len(self._place), np.int64)
            move_entries(self._place, larger)
            self._place = larger

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
        nnz = rank_rows(indptr, hashes, value, self._shift, self._place, starts, rank, total)
        if nnz < 0:
            raise Corrupt("the data changed between two passes: it has a feature that was not there before")
        return starts, rank[:nnz], total[:nnz]
