"""Reads the small bodies of several requests with one call.

If newlines separate rows, concatenated bodies are again a body, and a document of one row may be a line, too. The kernel, its
arrays and the copies of results cost about as much for a hundred short rows as for one. So requests that wait for the same sync
are read together. Only requests whose rows are all accepted are taken from there. A request with any other row is left to
`parse_examples`, which reports the error with the row numbers of that request.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final

import numpy as np

from riata.base.arrays import I64
from riata.base.errors import Unsupported
from riata.wire.batch import Batch, select_rows
from riata.wire.codes import OK
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NO_NAMES, Names
from riata.wire.parse import Context, Labels, make_rules
from riata.wire.parsed import ID_BYTES, Reading, make_batch, names_in, new_names
from riata.wire.read_body import FORMATS, Format, format_of, read_body
from riata.wire.rows import BEGIN, END, ID_START, ID_STOP, ROW_START, SUBJECT_START, SUBJECT_STOP, TIME_AT, Rules

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_TYPES_KEPT: Final = 64  # ways to write a Content-Type, and to read a body
_ONE: Final = np.ones(1, np.int64)


@dataclass(frozen=True, slots=True)
class JoinedBodies:
    """The result of reading several bodies.

    batch : Batch            the rows of the requests in `taken`, in their order
    stop  : i64[len(taken)]  where the rows of each end in the batch
    taken : list[int]        numbers of those bodies, increasing; the others have to be parsed one by one
    names : Names            the names not seen before, of all of them, each once
    """

    batch: Batch
    stop: I64
    taken: list[int]
    names: Names


def lines_of(body: bytes, content_type: str) -> tuple[Format, bytes] | None:
    """The format and the lines, without a newline after the last, with which `body` can be read together with others; None
    if it must be read alone."""
    form = _format(content_type)
    if form is None or form.functions is None or body.startswith(_BYTE_ORDER_MARK):
        return None  # bodies with a header: each has its own
    if form.split == "lines":
        return form, body.removesuffix(b"\n")
    line = form.functions.as_line(body)
    return None if line is None else (FORMATS[form.reader.line_type], line)


def read_together(bodies: Sequence[bytes], form: Format, context: Context) -> JoinedBodies:
    """Read labelled rows of bodies for which `lines_of` gave `form`. Raises as `parse_examples` does; each must then be parsed
    alone."""
    seen = NO_NAMES if context.names is None else context.names.table()
    rules = _rules(context.encoder, context.labels)._replace(seen=seen)
    whole = bodies[0] if len(bodies) == 1 else b"\n".join(bodies)
    reading = read_body(whole, form, rules, curves=context.encoder.curves)
    if len(bodies) == reading.rows == 1 and reading.sink.code.item(0) == OK:
        return JoinedBodies(_batch_of_one(reading), _ONE.copy(), [0], new_names(reading))
    batch, rows = make_batch(reading)
    count = _rows_of(bodies, reading)
    if len(rows) == reading.rows and bool(count.all()):
        return JoinedBodies(batch, count.cumsum(), list(range(len(bodies))), new_names(reading))
    owner = np.repeat(np.arange(len(bodies)), count)
    whole = (np.bincount(owner[rows], minlength=len(bodies)) == count) & (count > 0)
    batch = select_rows(batch, whole[owner[rows]])
    return JoinedBodies(batch, count[whole].cumsum(), whole.nonzero()[0].tolist(), names_in(new_names(reading), batch))


def _rows_of(bodies: Sequence[bytes], reading: Reading) -> I64:
    """Number of rows of each body."""
    if len(bodies) == 1:
        return np.array([reading.rows])
    if reading.rows == reading.lines == len(bodies):  # the common case: each is at least a line, so each is one
        return np.ones(len(bodies), np.int64)
    stop = np.array(list(accumulate(len(body) + 1 for body in bodies)), np.int64)
    owner = stop.searchsorted(reading.sink.place[: reading.rows, ROW_START], "right")
    return np.bincount(owner, minlength=len(bodies))


def _batch_of_one(reading: Reading) -> Batch:
    """What `make_batch` returns for a single accepted row, in as few steps as possible: their number determines the cost."""
    sink = reading.sink
    place = sink.place[0].tolist()
    noted = place[ID_STOP] > place[ID_START] or place[SUBJECT_STOP] > place[SUBJECT_START] or place[TIME_AT] > place[ROW_START]
    if noted or reading.identities or reading.subjects or reading.times:
        return make_batch(reading)[0]
    begin, end = place[BEGIN], place[END]
    return Batch(
        indptr=np.array((0, end - begin)),
        hash=sink.hash[begin:end].copy(),
        value=sink.value[begin:end].copy(),
        label=sink.label[:1].copy(),
        weight=sink.weight[:1].copy(),
        event_id=np.zeros((1, ID_BYTES), np.uint8),
        has_id=np.zeros(1, np.bool_),
    )


def with_keys(batch: Batch, keys: Sequence[tuple[str, int, int]]) -> Batch:
    """Give each row without an event id the id `key/index`. Each (key, start, stop) is for the rows start:stop; `index` is the
    row's place among those, counted from 0."""
    if not keys:
        return batch
    event_id, has_id = batch.event_id.copy(), batch.has_id.copy()
    for key, start, stop in keys:
        for at in range(start, stop):
            if not has_id[at]:
                event_id[at] = np.frombuffer(id_of(key, at - start), np.uint8)
                has_id[at] = True
    return dataclasses.replace(batch, event_id=event_id, has_id=has_id)


def id_of(key: str, index: int) -> bytes:
    """The event id, as a digest, of row `index` of a request with an Idempotency-Key."""
    return hashlib.blake2b(f"{key}/{index}".encode(), digest_size=ID_BYTES).digest()


@lru_cache(_TYPES_KEPT)
def _rules(encoder: EncoderConfig, labels: Labels) -> Rules:
    return make_rules(Context(encoder, labels), True)


@lru_cache(_TYPES_KEPT)
def _format(content_type: str) -> Format | None:
    try:
        return format_of(content_type)
    except Unsupported:
        return None
