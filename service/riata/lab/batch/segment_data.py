"""`Data` over mapped segments: passes over any number of rows with memory for one part per thread, and for the features.

One pass over the hashes finds the features, their ranks and the parts. A part is PART_ROWS rows that count, by their position
in the whole data, so neither the cut into segments nor the number of workers changes a part. Rows that do not count are left out
when a part is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32
from riata.base.errors import BadInput, Corrupt
from riata.lab.batch.data import PART_ROWS, Rows, no_slots
from riata.native.library import core, struct
from riata.store.control_events import Counted
from riata.store.segment import Segment
from riata.wire.batch import UNWEIGHTED, Batch, ByLabel, join_batches, select_rows, weighted

# Ranks of features: which slots occur in the data, how often, and the rank of each by decreasing frequency.
#
# Theory of operation
#     A solver's arrays are dense over the features that occur, the frequent ones first, so that they share the cache lines that
#     are used most. A feature is a slot, the top bits of a hash. The map from slots is that of `service/native/batch_pass.c`: an
#     entry is slot * 2^32 + number, a count while the data is counted and rank + 1 afterwards.

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

    def met(self) -> U32:
        """Return the slots that occur, in no order."""
        found: U32 = (self._place[self._place != 0] >> _HALF & _WORD).astype(np.uint32)
        return found

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


EVERY_EVENT: Final = Counted(np.array([[0, 2**62]]), np.zeros(0, np.int64))
_LEAST_WEIGHT: Final = float(np.finfo(np.float64).tiny)  # weights are positive also where a power of rho is not


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows start:stop of a segment."""

    segment: Segment
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """Consecutive rows of the data.

    age      : how many rows of the data come after the last one of this part
    by_label : factors of the weights of negative and of positive rows
    """

    pieces: tuple[Piece, ...]
    counted: Counted
    ranks: RankMap
    rho: float
    age: int
    by_label: ByLabel = UNWEIGHTED

    def load(self) -> Rows:
        """Return the rows. Any thread may call it; the bits are the same each time. Raises `Corrupt`."""
        batch = join_batches([_kept(piece, self.counted) for piece in self.pieces])
        indptr, rank, value = self.ranks.rows(batch.indptr, batch.hash, batch.value)
        weight = weighted(batch, self.by_label).weight
        if self.rho < 1.0:
            ages = np.arange(self.age + batch.n - 1, self.age - 1, -1)
            weight = np.maximum(weight * self.rho**ages, _LEAST_WEIGHT)
        return Rows(indptr, rank, value, 2.0 * batch.label - 1.0, weight)


@dataclass(frozen=True, slots=True)
class SegmentData:
    """The rows that count of some segments: a `Data`.

    slots : u32[features]   table slot of each rank: hash >> (32 - bits)
    shared: u32[s]   slots of several feature hashes, increasing
    """

    rows: int
    nnz: int
    parts: Sequence[SegmentPart]
    slots: U32
    bits: int
    shared: U32 = field(default_factory=no_slots)

    @property
    def features(self) -> int:
        """Number of features that occur."""
        return len(self.slots)


def data_of(
    segments: Sequence[Segment],
    bits: int,
    counted: Counted = EVERY_EVENT,
    rho: float = 1.0,
    by_label: ByLabel = UNWEIGHTED,
) -> SegmentData:
    """Return the data of consecutive segments.

    bits    : a feature is a slot, the top bits of its hash
    counted : the events to take
    rho     : a row followed by k others weighs rho^k times its weight; 1 for a learner that does not forget
    by_label: factors of the weights of negative and of positive rows

    Raises `BadInput`: code `not_for_this_loss` for real labels, `no_events` if no example is left.
    """
    if any(segment.zeros + segment.ones < segment.rows for segment in segments):
        raise BadInput("the labels are real numbers; a batch solver needs labels of two classes", "not_for_this_loss")
    counts, hashes = SlotCounts(bits), SlotCounts(_HALF)
    cuts: list[list[Piece]] = [[]]
    room = PART_ROWS
    for segment in segments:
        keep = counted.mask(segment.events(0, segment.rows))
        counts.add(segment.indptr.astype(np.int64), segment.hash, keep)
        if bits < _HALF:
            hashes.add(segment.indptr.astype(np.int64), segment.hash, keep)
        for start, stop, rows in _cut(keep, room):
            if not room:
                cuts.append([])
                room = PART_ROWS
            cuts[-1].append(Piece(segment, start, stop))
            room -= rows
    rows = (len(cuts) - 1) * PART_ROWS + PART_ROWS - room
    if not rows:
        raise BadInput("no example is left to learn from in these events", "no_events")
    ranks = counts.ranked()
    parts = [
        SegmentPart(tuple(pieces), counted, ranks, rho, max(rows - (number + 1) * PART_ROWS, 0), by_label)
        for number, pieces in enumerate(cuts)
    ]
    slot, of_slot = np.unique(hashes.met() >> np.uint32(_HALF - bits), return_counts=True)
    return SegmentData(rows, counts.nnz, parts, ranks.slots, bits, slot[of_slot > 1])


def _cut(keep: BOOL, room: int) -> Iterator[tuple[int, int, int]]:
    """Cut the rows of a segment so that every piece but the last has as many kept rows as its part has room for: yields start,
    stop and the number of kept rows. `room` is that of the part under way; the others have room for PART_ROWS."""
    kept: I64 = np.flatnonzero(keep)
    taken = 0
    while taken < len(kept):
        rows = min(room or PART_ROWS, len(kept) - taken)
        yield int(kept[taken]), int(kept[taken + rows - 1]) + 1, rows
        taken, room = taken + rows, PART_ROWS


def _kept(piece: Piece, counted: Counted) -> Batch:
    """Return the rows of a piece that count."""
    keep = counted.mask(piece.segment.events(piece.start, piece.stop))
    return select_rows(piece.segment.batch(piece.start, piece.stop), keep)
