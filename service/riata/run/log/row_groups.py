"""The rows of log records as batches that a learner takes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from riata.base.arrays import BOOL, I64
from riata.base.errors import Corrupt
from riata.base.halt import require_wanted
from riata.run.writer.turn_size import ROWS_TOGETHER
from riata.store.one_row import decode_batches
from riata.store.payload import decode_batch
from riata.store.store import Record
from riata.wire.batch import Batch, join_batches, slice_rows


def counted(record: Record, batch: Batch) -> Batch:
    """Return `batch` if it has as many rows as its record says. Raises `Corrupt`."""
    if batch.n != record.count:
        raise Corrupt(f"events {record.first} to {record.last}: the payload holds {batch.n}")
    return batch


def joined(run: Sequence[Record], batches: Sequence[Batch | None], many: bool) -> list[Batch]:
    """Return the rows of several records, in order, in batches of up to ROWS_TOGETHER or of one record; if `many` batches may
    be learnt at once, unjoined when already decoded. Raises `Corrupt`; `Halted` if they are not to be learnt any more."""
    require_wanted()
    known = [batch for batch in batches if batch is not None]
    counts = [record.count for record in run]
    if (many or min(counts) > ROWS_TOGETHER // 2) and [batch.n for batch in known] == counts:
        return known  # joining would cost more than it saves, or they are too large for it
    if len(known) < len(run):  # all or none are decoded, except for a moment after a start
        known = decode_batches([record.payload for record in run])
    if len(known) < len(run):
        run = [replace(run[0], count=sum(record.count for record in run))]
    together: list[list[Batch]] = []
    room = 0
    for record, batch in zip(run, known, strict=True):
        if batch.n > room:
            together.append([])
            room = ROWS_TOGETHER
        together[-1].append(counted(record, batch))
        room -= batch.n
    return [some[0] if len(some) == 1 else join_batches(some) for some in together]


def skip_mask(first: int, count: int, skips: frozenset[int]) -> BOOL | None:
    """Return which of the events first, first + 1, ... are in `skips`, bool[count]; None if there are none."""
    inside = [seq for seq in skips if first <= seq < first + count]
    if not inside:
        return None
    mask = np.zeros(count, dtype=np.bool_)
    mask[np.array(inside) - first] = True
    return mask


def parts_without(first: int, batch: Batch, left_out: I64) -> Iterator[tuple[int, Batch]]:
    """Yield the events first, first + 1, ... of `batch` but those with the numbers `left_out`, i64[k], increasing, in parts
    without gaps, each with the number of its first event."""
    low, high = np.searchsorted(left_out, [first, first + batch.n]).tolist()
    start = 0
    for stop in [*(left_out[low:high] - first).tolist(), batch.n]:
        if stop > start:
            yield first + start, slice_rows(batch, start, stop)
        start = stop + 1


def cut(run: list[Record], last: int) -> tuple[list[Record], list[Batch]]:
    """Return records up to event `last`, and their rows if that is inside the last record; otherwise the records as they are.
    The record that is cut was checked whole."""
    end = run[-1]
    if end.last <= last:
        return run, []
    short = [*run[:-1], replace(end, count=last - end.first + 1)]
    return short, [slice_rows(decode_batch(record.payload), 0, record.count) for record in short]


def is_set(rows: BOOL | None, i: int) -> bool:
    """Return entry i of a mask; false if there is no mask."""
    return rows is not None and bool(rows[i])
