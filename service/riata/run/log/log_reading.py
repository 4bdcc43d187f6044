"""Reading a log in order through the store's thread: once to learn it, and again from where a promoted state ends."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import BOOL, F64, I64, U8, U32, distinct
from riata.base.errors import Corrupt, LogFork
from riata.base.halt import require_wanted
from riata.base.limits import VALUE_ABS_MAX
from riata.store import records
from riata.store.payload import FORMS, IDS, PAYLOAD_VERSION, POWERS, decode_batch
from riata.store.store import Head, Record, Store
from riata.wire.batch import Batch, join_batches, slice_rows

Call = Callable[[Callable[[Store], Any]], Future[Any]]

READ_BYTES: Final = 2**24
PACED_BYTES: Final = 2**21  # while events are acknowledged: these wait for as long as one call takes


@dataclass(frozen=True, slots=True)
class Again:
    """The events that a promoted state has not learnt.

    skips : events that a skip event excludes, wherever in the log it is
    runs  : the records between the event that the state has reached and the event that promotes it, cut as by `turn_size.runs`
    """

    skips: frozenset[int]
    runs: list[list[Record]]


ReadAgain = Callable[[Record, records.Through], Again | None]


def read_log(call: Call, name: str, after: int, bytes_max: int = READ_BYTES) -> Iterator[Record]:
    """Yield every record after event `after`, in order; read about `bytes_max` at a time, the next while some are applied."""
    reading = _reading(call, name, after, bytes_max)
    while True:
        found: list[Record] = reading.result()
        if not found:
            return
        after = found[-1].last
        reading = _reading(call, name, after, bytes_max)
        yield from found
        if not reading.result():  # the end was read before the last records were applied, which may have appended to the log
            reading = _reading(call, name, after, bytes_max)


def read_again(call: Call, promotion: Record, through: records.Through, bytes_max: int = READ_BYTES) -> Again | None:
    """Read the events between a promoted state and the event `promotion` that carries it.

    None if the log no longer has them, or never was the log that the state has learnt. Both are so for every reader: from the
    moment when a promotion is in a log, the log is not trimmed beyond `through` while a state before the promotion is retained.
    Raises `LogFork` if the log no longer has the promotion, and what reading the log raises.
    """
    name = promotion.model
    head: Head = call(lambda s: s.head(name)).result()
    if not head.first_seq - 1 <= through.seq < promotion.first:
        return None
    before: list[Record] = []
    skips: set[int] = set()
    chain, promoted = through.chain, False
    for record in read_log(call, name, through.seq, bytes_max):
        if chain and (record.first != through.seq + 1 or record.chain != records.next_chain(chain, record.digest)):
            return None
        chain = b""  # checked: the store checks the others
        if record.kind == "skip":
            skips.add(records.decode_skip(record.payload)[0])
        if record.last < promotion.first:
            before.append(record)
        promoted |= record.chain == promotion.chain
    if not promoted:
        raise LogFork(f"log of {name!r}: it no longer has event {promotion.first}", event=promotion.first)
    return Again(frozenset(skips), list(runs(before)))


def _reading(call: Call, name: str, after: int, bytes_max: int) -> Future[list[Record]]:
    return call(lambda s: s.read(name, after, bytes_max))


# The rows of log records as batches that a learner takes at once.


_HEAD: Final = 16  # bytes of the header that begins every payload
_FIRST: Final = _HEAD + 2  # the number of features of the row (u16) is between header and hashes
_HASH: Final = 4
_ID: Final = 16
_TRUE: Final = 0x80  # the byte of one packed bit that is set
_ONES, _U8, _I8, _U16, _I16 = (FORMS.index(form) for form in ("", "u1", "i1", "<u2", "<i2"))
_WIDTH: Final = np.array([np.dtype(form).itemsize if form else 0 for form in FORMS])

_POWER: Final = np.array(POWERS)


def counted(record: Record, batch: Batch) -> Batch:
    """Return `batch` if it has as many rows as its record says. Raises `Corrupt`."""
    if batch.n != record.count:
        raise Corrupt(f"events {record.first} to {record.last}: the payload holds {batch.n}")
    return batch


def unreadable(run: Sequence[Record]) -> int:
    """Return the first event of the record that cannot be read, among records that are learnt together."""
    for record in run[1:]:
        try:
            if record.kind == "observe":
                decode_batch(record.payload)
        except Corrupt:
            return record.first
    return run[0].first


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


# Vectorized decoding of many one-row records: an order of magnitude faster than one by one on a long log.


def decode_batches(payloads: Sequence[bytes]) -> list[Batch]:
    """Return batches whose rows, in order, are those of `payloads`: one batch if `decode_rows` can decode them all, otherwise
    one for each payload. Raises `Corrupt` as `decode_batch` does."""
    joined = decode_rows(payloads) if len(payloads) > 1 else None
    return [decode_batch(payload) for payload in payloads] if joined is None else [joined]


def decode_rows(payloads: Sequence[bytes]) -> Batch | None:
    """Return the batches of `decode_batch` for `payloads`, joined into one. None unless every payload is one row of version 2
    with values of at most two bytes, label 0 or 1 and weight 1. None also if a payload is invalid: `decode_batch` reports why."""
    length = np.fromiter(map(len, payloads), np.int64, len(payloads))
    if not payloads or int(length.min()) <= _FIRST:
        return None
    whole = np.frombuffer(b"".join(payloads), np.uint8)
    start = np.cumsum(length) - length
    n, nnz, total = _numbers(whole, start + 4, 3, "<u4").T.astype(np.int64)
    version, flags, form, digits = whole[start[:, None] + np.arange(4)].T.astype(np.int64)
    features = _numbers(whole, start + _HEAD, 1, "<u2")[:, 0]
    with_id = flags == IDS
    sound = (version == PAYLOAD_VERSION) & (with_id | (flags == 0)) & (form >= _ONES) & (form <= _I16) & (digits < len(POWERS))
    if not bool((sound & (n == 1) & (features == nnz) & (total == length)).all()):
        return None
    end = start + _FIRST + nnz * (_HASH + _WIDTH[form])
    if not bool((start + length == end + 1 + (1 + _ID) * with_id).all()):
        return None
    label, marked = whole[end], whole[end[with_id] + 1]
    if bool((label & ~np.uint8(_TRUE)).any()) or bool((marked != _TRUE).any()):
        return None
    indptr = np.concatenate(([0], np.cumsum(nnz)))
    at = np.repeat(start + _FIRST - _HASH * indptr[:-1], nnz) + _HASH * np.arange(indptr[-1])  # offset of each hash
    hashes = _numbers(whole, at, 1, "<u4")[:, 0].astype(np.uint32)
    stored = _stored(whole, start + _FIRST + _HASH * nnz, form, indptr)
    value = stored / _POWER[np.repeat(digits, nnz)]
    if not _right(indptr, hashes, value) or not _said_shortest(stored, form, digits, indptr):
        return None
    event_id = np.zeros((len(payloads), _ID), np.uint8)
    event_id[with_id] = whole[(end[with_id] + 2)[:, None] + np.arange(_ID)]
    return Batch(indptr, hashes, value, (label == _TRUE).astype(np.float64), np.ones(len(payloads)), event_id, with_id)


def _numbers(whole: U8, at: I64, count: int, kind: str) -> NDArray[Any]:
    """Return kind[len(at), count]: `count` numbers of this type from each byte offset of `at`."""
    numbers: NDArray[Any] = whole[at[:, None] + np.arange(np.dtype(kind).itemsize * count)].view(kind)
    return numbers


def _stored(whole: U8, begin: I64, form: I64, indptr: I64) -> F64:
    """Return f64[nnz]: the stored whole numbers of rows of these forms, whose values begin at `begin`."""
    stored = np.ones(int(indptr[-1]))
    for each in distinct(form).tolist():
        if each != _ONES:
            entries = np.flatnonzero(np.repeat(form == each, np.diff(indptr)))
            row = np.searchsorted(indptr, entries, "right") - 1
            at = begin[row] + int(_WIDTH[each]) * (entries - indptr[row])
            stored[entries] = _numbers(whole, at, 1, FORMS[each])[:, 0]
    return stored


def _said_shortest(stored: F64, form: I64, digits: I64, indptr: I64) -> bool:
    """Return whether form and digits of every row are the narrowest, as `encode_batch` chooses them."""

    def some(entries: BOOL) -> BOOL:
        count = np.concatenate(([0], np.cumsum(entries)))
        found: BOOL = count[indptr[1:]] > count[indptr[:-1]]
        return found

    negative = some(stored < 0)
    beyond_i8 = some((stored < -128) | (stored > 127))
    needed = [
        (form == _ONES) & (digits == 0),
        (form == _U8) & some(stored != 1.0) | (form == _U8) & (digits > 0),
        (form == _I8) & negative,
        (form == _U16) & some(stored > 255),
        (form == _I16) & negative & beyond_i8,
    ]
    exact = (digits == 0) | some(np.mod(stored, 10.0) != 0.0)
    return bool((np.any(needed, axis=0) & exact).all())


def _right(indptr: I64, hashes: U32, value: F64) -> bool:
    """Return whether hashes rise strictly within every row and values are within their bounds; False if a value is NaN."""
    rising = np.ones(len(hashes) + 1, np.bool_)
    rising[1:-1] = hashes[1:] > hashes[:-1]
    rising[indptr] = True  # a row may begin anywhere
    return bool(rising.all() and (np.abs(value) <= VALUE_ABS_MAX).all())


# Turn size: records that are learnt in one step, so that many requests of one row cost little more than few large ones.
#
# A learner's state does not depend on how events are cut into batches, nor does anything else in `ModelState`. So consecutive
# records may be joined freely, and no bit changes.
#
# If a learner takes many batches in one call of its kernel, nothing is joined: with the truncated gradient, 60 records of a row
# are learnt in 4.4 µs a row if they are joined and in 2.3 if not, 20 of sixteen rows in 1.4 and 0.7. For other learners small
# records are joined. Large records are not, because joining would copy them. But the Python code that runs once per turn holds
# the interpreter's lock, and predictions wait for it. So the writer takes more of them in one turn as long as it stays short
# (`Turn`).


ROWS_TOGETHER: Final = 1024  # learnt in about a millisecond; more make a row no cheaper
TURN_ROWS_MAX: Final = 16 * ROWS_TOGETHER  # at this size the cost per turn is negligible
TURN_MS: Final = 10  # of a turn; what is served is at least some tens of milliseconds old anyway


class Turn:
    """The maximum number of rows of one model learnt in a turn: as many as take TURN_MS, and at least ROWS_TOGETHER."""

    def __init__(self) -> None:
        self.rows_max = ROWS_TOGETHER

    def took(self, rows: int, milliseconds: int) -> None:
        """Adapt to the time that a turn with this many rows took."""
        if milliseconds > TURN_MS:
            self.rows_max = max(ROWS_TOGETHER, self.rows_max // 2)
        elif rows > self.rows_max // 2 and 2 * milliseconds <= TURN_MS:
            self.rows_max = min(TURN_ROWS_MAX, 2 * self.rows_max)


def runs(records: Iterable[Record], stops: Container[int] = frozenset()) -> Iterator[list[Record]]:
    """Cut a log into runs, in order: observe records of up to ROWS_TOGETHER rows in all, or any record alone.

    stops : events after which a run has to end
    """
    run: list[Record] = []
    rows = 0
    for record in records:
        if run and (record.kind != "observe" or rows + record.count > ROWS_TOGETHER):
            yield run
            run, rows = [], 0
        run.append(record)
        rows += record.count
        if record.kind != "observe" or record.last in stops:
            yield run
            run, rows = [], 0
    if run:
        yield run
