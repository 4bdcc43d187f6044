"""Write the examples of a log that count as an Arrow stream, for whatever else is to be done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import I64
from riata.base.limits import FEATURES_PER_REQUEST_MAX, ROWS_PER_REQUEST_MAX
from riata.run.log.effective_log import Window, read_effective_log
from riata.run.log.log_reading import Call, read_log
from riata.store.control_events import Counted
from riata.store.payload import decode_batch
from riata.store.segment import Segment
from riata.wire.arrow_writer import END, Column, floats, integers, lists, small_integers, write_batch, write_schema
from riata.wire.batch import NO_TIME, Batch, join_batches, select_rows, slice_rows

SEGMENT_ROWS: Final = ROWS_PER_REQUEST_MAX  # taken from a segment at once


class Examples(NamedTuple):
    """Some examples: the numbers of their events, when they were accepted (unix ms), and what they are."""

    seq: I64
    accepted_ms: I64
    batch: Batch


_NOTHING: Final = Examples(
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    Batch(
        np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0), np.zeros(0), np.zeros(0),
        np.zeros((0, 16), np.uint8), np.zeros(0, np.bool_),
    ),
)  # fmt: skip


def export_log(
    call: Call,
    model: str,
    segments: Sequence[Segment],
    write: Callable[[bytes], object],
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Window:
    """Write the examples that count, from `segments` and the log after them, and return what they are of.

    Columns: seq, accepted_ms, label, weight, indices (feature hashes), values, ts_ms (when the event happened; null if the row
    does not say, or if only a segment has it, as segments have no times). A record batch has at most as many rows and features
    as a request. The memory does not grow with the log.
    """
    effective = read_effective_log(call, model, segments)
    window, counted = effective.window(), effective.counted()
    write(write_schema(_columns(_NOTHING), {"model": model, "window": window.document()}))
    for examples in _gathered(_counting(_all(call, model, segments, window.last), counted)):
        write(write_batch(_columns(examples)))
        on_progress(int(examples.seq[-1]), window.last)
    write(END)
    return window


def _columns(examples: Examples) -> list[Column]:
    batch = examples.batch
    return [
        integers("seq", examples.seq),
        integers("accepted_ms", examples.accepted_ms),
        floats("label", batch.label),
        floats("weight", batch.weight),
        lists("indices", batch.indptr, small_integers("item", batch.hash)),
        lists("values", batch.indptr, floats("item", batch.value)),
        integers("ts_ms", np.full(batch.n, NO_TIME) if batch.time is None else batch.time, NO_TIME),
    ]


def _all(call: Call, model: str, segments: Sequence[Segment], last: int) -> Iterator[Examples]:
    """Yield every example up to event `last`, in pieces of any size, none of more rows than a request may have. Segments are read
    for what the log no longer has."""
    kept = call(lambda s: s.head(model).first_seq).result()
    segments = [one for one in segments if one.first < kept]
    for one in segments:
        for start in range(0, one.rows, SEGMENT_ROWS):
            stop = min(start + SEGMENT_ROWS, one.rows)
            yield Examples(one.events(start, stop), one.accepted_ms(start, stop), one.batch(start, stop))
    after = segments[-1].last if segments else kept - 1
    for record in read_log(call, model, after):
        if record.last > last:
            return
        if record.kind == "observe":
            seq = np.arange(record.first, record.last + 1)
            yield Examples(seq, np.full(record.count, record.accepted_ms), decode_batch(record.payload))


def _counting(found: Iterator[Examples], counted: Counted) -> Iterator[Examples]:
    """Yield only the examples that count; nothing where none does."""
    for examples in found:
        keep = counted.mask(examples.seq)
        if keep.any():
            yield Examples(examples.seq[keep], examples.accepted_ms[keep], select_rows(examples.batch, keep))


def _gathered(found: Iterator[Examples]) -> Iterator[Examples]:
    """Join small pieces, and cut large ones, so that each is about as large as a request may be."""
    held: list[Examples] = []
    rows = features = 0
    for whole in found:
        for examples in _cut(whole):
            batch = examples.batch
            if held and (rows + batch.n > ROWS_PER_REQUEST_MAX or features + batch.nnz > FEATURES_PER_REQUEST_MAX):
                yield _joined(held)
                held, rows, features = [], 0, 0
            held.append(examples)
            rows, features = rows + batch.n, features + batch.nnz
    if held:
        yield _joined(held)


def _cut(examples: Examples) -> Iterator[Examples]:
    """Cut examples in halves until each piece has at most as many features as a request may have, or one row."""
    n = examples.batch.n
    if n == 1 or examples.batch.nnz <= FEATURES_PER_REQUEST_MAX:
        yield examples
        return
    for start, stop in ((0, n // 2), (n // 2, n)):
        half = slice_rows(examples.batch, start, stop)
        yield from _cut(Examples(examples.seq[start:stop], examples.accepted_ms[start:stop], half))


def _joined(held: list[Examples]) -> Examples:
    seq, accepted = (np.concatenate(column) for column in zip(*((one.seq, one.accepted_ms) for one in held), strict=True))
    return Examples(seq, accepted, join_batches([one.batch for one in held]))
