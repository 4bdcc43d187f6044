"""`Data` over mapped segments: passes over any number of rows with memory for one part per thread, and for the features.

One pass over the hashes finds the features, their ranks and the parts. A part is PART_ROWS rows that count, by their position
in the whole data, so neither the cut into segments nor the number of workers changes a part. Rows that do not count are left out
when a part is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, I64, U32
from riata.base.errors import BadInput
from riata.lab.batch.data import PART_ROWS, Rows
from riata.lab.batch.rank_map import RankMap, SlotCounts
from riata.store.control_events import Counted
from riata.store.segment import Segment
from riata.wire.batch import UNWEIGHTED, Batch, ByLabel, join_batches, select_rows, weighted

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
    """

    rows: int
    nnz: int
    parts: Sequence[SegmentPart]
    slots: U32
    bits: int

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
    counts = SlotCounts(bits)
    cuts: list[list[Piece]] = [[]]
    room = PART_ROWS
    for segment in segments:
        keep = counted.mask(segment.events(0, segment.rows))
        counts.add(segment.indptr.astype(np.int64), segment.hash, keep)
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
    return SegmentData(rows, counts.nnz, parts, ranks.slots, bits)


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
