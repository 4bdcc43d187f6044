"""Small bodies of several requests, read by one call.

Where rows are parted by newlines, bodies put behind one another are a body, and a body of one JSON object is a line of NDJSON.
The kernel, its arrays and the copies out of them cost about as much for a hundred short rows as for one, so requests that
wait for the same sync are read together. Only what is beyond doubt is taken from there: a request with a row that is not
accepted is left to `parse_examples`, which says what is wrong with it, in its own words and places.
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
from riata.wire.names import NO_NAMES, Names
from riata.wire.parse import NDJSON, Context, Format, format_of, make_rules, read_body
from riata.wire.parsed import ID_BYTES, accepted, make_batch, new_names
from riata.wire.rows import ROW_START

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_SPACE: Final = b" \t\r\n"
_TYPES_KEPT: Final = 64  # ways to write a Content-Type
_OBJECT: Final = 0x7B  # {


@dataclass(frozen=True, slots=True)
class Together:
    """What several bodies became.

    batch : Batch            the rows of the requests in `taken`, in their order
    stop  : i64[len(taken)]  where the rows of each end in the batch
    taken : list[int]        which of the bodies these are, increasing; the others have to be parsed one by one
    names : Names            the names not seen before, of all of them, each once
    """

    batch: Batch
    stop: I64
    taken: list[int]
    names: Names


def lines_of(body: bytes, content_type: str) -> tuple[Format, bytes] | None:
    """The format and the lines, without a newline behind the last, by which `body` can be read together with others; None
    where it has to be read by itself."""
    form = _format(content_type)
    if form is None or body.startswith(_BYTE_ORDER_MARK):
        return None
    if form.by_line:
        return form, body.removesuffix(b"\n")
    text = body.strip(_SPACE)
    if not text or text[0] != _OBJECT or b"\n" in text or not _is_utf8(text):
        return None
    return NDJSON, text


def read_together(bodies: Sequence[bytes], form: Format, context: Context) -> Together:
    """Read labelled rows of bodies for which `lines_of` gave `form`. Raises as `parse_examples` does: then each has to be parsed
    by itself."""
    seen = NO_NAMES if context.names is None else context.names.table()
    reading = read_body(b"\n".join(bodies), form, make_rules(context, True, seen))
    rows = accepted(reading)
    stop = np.array(list(accumulate(len(body) + 1 for body in bodies)), np.int64)
    owner = np.searchsorted(stop, reading.sink.place[: reading.rows, ROW_START], "right")  # of every row
    count = np.bincount(owner, minlength=len(bodies))
    batch, names = make_batch(reading, rows), new_names(reading)
    good = np.bincount(owner[rows], minlength=len(bodies))
    whole = (good == count) & (count > 0)
    if not whole.all():
        batch = select_rows(batch, whole[owner[rows]])
        names = names_in(names, batch)
    return Together(batch, np.cumsum(count[whole]), np.flatnonzero(whole).tolist(), names)


def names_in(names: Names, batch: Batch) -> Names:
    """Those of `names` whose features occur in `batch`."""
    return names.take(np.isin(names.fingerprint >> np.uint64(32), batch.hash).view(np.uint8))


def with_keys(batch: Batch, keys: Sequence[tuple[str, int, int]]) -> Batch:
    """Give every row that has no event id, from `start` to `stop` of each (key, start, stop), the id `key/index`, `index` being
    its place among them, counted from 0."""
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
def _format(content_type: str) -> Format | None:
    try:
        return format_of(content_type)
    except Unsupported:
        return None


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
