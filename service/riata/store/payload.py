"""Payload format of an `observe` record: the events of one request, canonical and compact.

Theory of operation
    Learning sees only the payload, so a later change of request parsing cannot change a replay.
    All integers and floats are little endian. A payload of n events with nnz features in total:

         0        1        2        3        4                 8                12                16
        ┌────────┬────────┬────────┬────────┬─────────────────┬─────────────────┬─────────────────┐
        │ 2      │ flags  │ form   │ digits │ n u32           │ nnz u32         │ bytes u32       │
        ├────────┴────────┴────────┴────────┴─────────────────┴─────────────────┴─────────────────┤
        │ length  u16[n]            features of each event; u32[n] under flag LONG                │
        │ hash    u32[nnz]          strictly increasing within an event                           │
        │ value   form[nnz]         to be divided by 10^digits (`payload.py`)                      │
        │ label   ceil(n / 8) bits  f64[n] under flag REAL: some label is neither 0 nor 1         │
        │ weight  f64[n]            under flag WEIGHTED only: some weight is not 1                │
        │ has_id  ceil(n / 8) bits  under flag IDS only: some event carries an id                 │
        │ id      u8[k, 16]         under flag IDS only: of the k events that carry one           │
        │ has_subject  ceil(n / 8)  under flag SUBJECTS only: bits, whether an event names one    │
        │ subject u8[k, 16]         under flag SUBJECTS only: digests of those (`wire.codes`)  │
        │ time    i64[n]            under flag TIMES only: unix ms, or NO_TIME (`wire.batch`)       │
        └─────────────────────────────────────────────────────────────────────────────────────────┘

    `bytes` is the length of the whole payload. Bits are packed from the highest down, the last byte padded with zeros.
    Of every choice (form, digits, each flag) only the narrowest lossless one is valid, so a batch has exactly one payload.
    A reader refuses a payload with any other choice.

    Version 4 is that of payloads with the flag TIMES, version 3 of those with SUBJECTS and without TIMES: what older programs can
    read keeps its version.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import BOOL, F64, I64
from riata.base.errors import BadInput, Corrupt
from riata.base.limits import LABEL_ABS_MAX, VALUE_ABS_MAX, WEIGHT_MAX
from riata.native.library import address, core, for_bytes
from riata.wire.batch import NO_TIME, Batch

FORMS: Final = ("<f8", "<f4", "", "u1", "i1", "<u2", "<i2", "<i4")


# Lossless compression of the values of a payload: decimal fixed point, float32 or float64.
#
# Theory of operation
#     Most input numbers have few decimals. The division k / 10^d, as IEEE 754 rounds it, gives the float64 nearest to k / 10^d
#     if k < 2^53 and d <= 22, since then both operands are exact. So a value of two decimals is stored as the whole number k =
#     round(100 x), and the division restores it. This is checked, bit by bit, for every value.
#
#     The only valid form is the least number of decimals (up to nine) that is exact for all values, with the narrowest integer
#     type that holds every k. -0.0 cannot be stored as a whole number. Values that contain it, or that need more digits, are
#     float32 if that is exact for all, otherwise float64.
#
#     Choosing and writing the form is in `service/native/payload.c` because of the interpreter's lock, not because of the
#     amount of
#     arithmetic: numpy would release the lock at each of forty operations and then wait for the threads that took it meanwhile.


"""Types of the stored values, by the number that a payload says. The third stores nothing: every value is 1. Those after it
are whole numbers, to be divided by 10^digits."""


_F64, _F32, _ONES, _I32 = 0, 1, 2, 7
WHOLE: Final = range(3, 8)  # narrowest first, unsigned before signed
POWERS: Final = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)  # of at most 31 bits, so k / 10^d is exact
_HOLDS: Final = {form: (float(np.iinfo(FORMS[form]).min), float(np.iinfo(FORMS[form]).max)) for form in WHOLE}
_SAMPLE: Final = 256

Stored = NDArray[Any]


def choose(value: F64, found: I64) -> tuple[int, int]:
    """Return (form, digits) of `value`: f64[nnz], finite, within VALUE_ABS_MAX; `found` is the result of `riata_decimals`."""
    digits, low, high = found.tolist()
    if not value.size or (low == high == 1 and digits == 0):
        return _ONES, 0
    form = next((form for form, (least, most) in _HOLDS.items() if least <= low and high <= most), _F64) if digits >= 0 else _F64
    if form in (_F64, _I32) and is_narrow(value):
        return _F32, 0
    return form, digits if form in WHOLE else 0


def unpack_values(form: int, digits: int, stored: Stored, count: int) -> F64:
    """Return the stored values as f64[count]."""
    if form == _ONES:
        return np.ones(count)
    value: F64 = stored.astype(np.float64)
    if digits:
        value /= POWERS[digits]
    return value


def is_form(form: int, digits: int) -> bool:
    """Return whether (form, digits) is valid in a payload."""
    return form < len(FORMS) and digits < (len(POWERS) if form in WHOLE else 1)


def stored_bytes(form: int) -> int:
    """Bytes of one stored value."""
    return np.dtype(FORMS[form]).itemsize if FORMS[form] else 0


def is_narrow(value: F64) -> bool:
    """Return whether float32 is exact for all of `value`. The first _SAMPLE values nearly always decide."""
    some = value[:_SAMPLE]
    return not bool((some.astype(np.float32) != some).any()) and not bool((value.astype(np.float32) != value).any())


PAYLOAD_VERSION: Final = 2
SUBJECT_VERSION: Final = 3  # of a payload in which an event names a subject, and none has a time
TIME_VERSION: Final = 4  # of a payload in which an event has a time
REAL: Final = 2
WEIGHTED: Final = 4
IDS: Final = 8
LONG: Final = 16
SUBJECTS: Final = 32  # from version 3 on
TIMES: Final = 64  # in version 4 only
ID_BYTES: Final = 16

_HEAD = Struct("<BBBBIII")
_SHORT_MAX: Final = 2**16 - 1
_EVENT_BYTES: Final = 64  # of a payload, at most: length, label, weight, time, two digests and their bits
_FEATURE_BYTES: Final = 12
_FACTS: Final = 4
_FOUND: Final = _FACTS + 3
_POWERS: Final = np.array(POWERS)
_POWERS_AT: Final = address(_POWERS)

# Arrays of a batch in the order of `riata_events`. To fill a structure field by field takes longer than to write a row.
EVENTS: Final = (
    *(("indptr", np.int64), ("hash", np.uint32), ("value", np.float64), ("label", np.float64), ("weight", np.float64)),
    *(("has_id", np.bool_), ("event_id", np.uint8), ("subject", np.uint8), ("time", np.int64)),
)
_KINDS: Final = tuple(kind for _, kind in EVENTS)
_arrays_of: Final = attrgetter(*(name for name, _ in EVENTS))

_NOT_RISING: Final = 1
_REASONS: Final = (  # by what `riata_look_at` returns
    "",
    "indptr does not rise from 0 to the number of features, over at least one event",
    "hashes do not rise within an event",
    f"a value is not a number within {VALUE_ABS_MAX:g}",
    f"a label is not a number within {LABEL_ABS_MAX:g}",
    f"a weight is not in (0, {WEIGHT_MAX:g}]",
)


class _Head(NamedTuple):
    """Header of a payload."""

    flags: int
    form: int
    digits: int
    n: int
    nnz: int


def encode_batch(batch: Batch) -> bytes:
    """Return the canonical payload of `batch`, at least one event.

    Raises `BadInput` (code `bad_batch`) if `decode_batch` could not return the same batch: a payload that cannot be read back
    is never written.
    """
    return encode_parts(batch, np.array([len(batch.label)]))[0]


def encode_parts(batch: Batch, stop: I64) -> list[bytes]:
    """Return the canonical payload of each part of `batch`, in one call of the core. Raises as `encode_batch` does.

    stop : i64[parts]   where each part ends, increasing
    """
    wrong = _misshapen(batch)
    if wrong:
        raise BadInput(f"batch: {wrong}", "bad_batch")
    n, parts = len(batch.label), len(stop)
    events, *_kept = events_of(batch)
    whole = np.empty(_EVENT_BYTES * n + _FEATURE_BYTES * len(batch.hash) + _HEAD.size * parts, np.uint8)
    stop, end, indptr = np.ascontiguousarray(stop, np.int64), np.empty(parts, np.int64), np.empty(n + 1, np.int64)
    write = for_bytes(len(whole)).write_payloads
    arrays = address(indptr), address(whole), address(end)
    reason = write(address(events), address(stop), parts, _POWERS_AT, len(_POWERS), *arrays)
    if reason:
        raise BadInput(f"batch: {_REASONS[reason]}", "bad_batch")
    if parts == 1:
        return [whole[: end.item()].tobytes()]
    joined, last = whole[: end[-1]].tobytes(), end.tolist()
    return [joined[start:stop] for start, stop in zip([0, *last[:-1]], last, strict=True)]


def events_of(batch: Batch) -> tuple[NDArray[Any], ...]:
    """Return the `riata_events` of a batch, followed by the arrays that it refers to, which the caller keeps."""
    each = zip(_arrays_of(batch), _KINDS, strict=True)
    given = [None if one is None else np.ascontiguousarray(one, kind) for one, kind in each]
    events = np.array([len(batch.label), *[0 if one is None else address(one) for one in given]], np.int64)
    return events, *[one for one in given if one is not None]


def decode_batch(payload: bytes) -> Batch:
    """Return the batch that was written, bit for bit.

    Lengths are compared with the payload before anything is allocated. Raises `Corrupt`.
    """
    version = payload[0] if payload else PAYLOAD_VERSION
    if not PAYLOAD_VERSION <= version <= TIME_VERSION:
        code = "newer_format" if version > TIME_VERSION else None
        raise Corrupt(f"observe payload: version {version}, this program reads {PAYLOAD_VERSION} to {TIME_VERSION}", code)
    head = _read_head(payload)
    packed = (head.n + 7) // 8
    fixed = head.n * (4 if head.flags & LONG else 2) + head.nnz * (4 + stored_bytes(head.form)) + _HEAD.size
    fixed += (8 * head.n if head.flags & REAL else packed) + (8 * head.n if head.flags & WEIGHTED else 0)
    fixed += 8 * head.n if head.flags & TIMES else 0
    fixed += packed * (bool(head.flags & IDS) + bool(head.flags & SUBJECTS))
    room = len(payload) - fixed
    if room < 0 or room % ID_BYTES or (room and not head.flags & (IDS | SUBJECTS)):
        raise Corrupt(f"observe payload: {len(payload)} bytes cannot hold {head.n} events with {head.nnz} features")
    batch = _decode_parts(payload, head, room // ID_BYTES)
    wrong, found = _look(batch)
    if wrong:
        raise Corrupt(f"observe payload: {wrong}")
    if (head.flags, head.form, head.digits) != (_flags(found, batch), *choose(batch.value, found[_FACTS:])):
        raise Corrupt("observe payload: it has parts that say nothing, so it is not what was written")
    return batch


def _read_head(payload: bytes) -> _Head:
    """Read the first bytes of a payload of a known version. Raises `Corrupt`."""
    if len(payload) < _HEAD.size:
        raise Corrupt(f"observe payload: expected at least {_HEAD.size} bytes, got {len(payload)}")
    version, flags, form, digits, n, nnz, total = _HEAD.unpack_from(payload)
    allowed = REAL | WEIGHTED | IDS | LONG | SUBJECTS | TIMES
    strange = flags & ~allowed or not is_form(form, digits) or version != _version(flags)
    if strange or not n or total != len(payload):
        raise Corrupt(
            f"observe payload: header says {n} events, {total} bytes, flags {flags}, values {form} {digits}; "
            f"there are {len(payload)} bytes"
        )
    return _Head(flags, form, digits, n, nnz)


def _decode_parts(payload: bytes, head: _Head, digests: int) -> Batch:
    at = _HEAD.size
    flags, n, nnz = head.flags, head.n, head.nnz
    packed = (n + 7) // 8

    def take(dtype: str, count: int) -> np.ndarray[Any, Any]:
        nonlocal at
        part = np.frombuffer(payload, dtype, count, at)
        at += part.nbytes
        return part

    length = take("<u4" if flags & LONG else "<u2", n).astype(np.int64)
    if int(length.sum()) != nnz:
        raise Corrupt(f"observe payload: lengths add up to {int(length.sum())} features, header says {nnz}")
    indptr: I64 = np.zeros(n + 1, np.int64)
    np.cumsum(length, out=indptr[1:])
    hashes = take("<u4", nnz).astype(np.uint32)
    value = unpack_values(head.form, head.digits, take(FORMS[head.form] or "u1", nnz if FORMS[head.form] else 0), nnz)
    label: F64 = take("<f8", n).astype(np.float64) if flags & REAL else _bits(take("u1", packed), n).astype(np.float64)
    weight: F64 = take("<f8", n).astype(np.float64) if flags & WEIGHTED else np.ones(n)
    has_id = _bits(take("u1", packed), n) if flags & IDS else np.zeros(n, np.bool_)
    ids = int(has_id.sum())
    if ids > digests or (ids < digests and not flags & SUBJECTS):
        raise Corrupt(f"observe payload: {ids} events carry an id, {digests} ids are there")
    event_id = np.zeros((n, ID_BYTES), np.uint8)
    event_id[has_id] = take("u1", ID_BYTES * ids).reshape(ids, ID_BYTES)
    batch = Batch(indptr, hashes, value, label, weight, event_id, has_id)
    if flags & SUBJECTS:
        named = _bits(take("u1", packed), n)
        if int(named.sum()) != digests - ids:
            raise Corrupt(f"observe payload: {int(named.sum())} events name a subject, {digests - ids} digests are there")
        subject = np.zeros((n, ID_BYTES), np.uint8)
        subject[named] = take("u1", ID_BYTES * (digests - ids)).reshape(-1, ID_BYTES)
        batch = replace(batch, subject=subject)
        if not np.array_equal(subject.any(axis=1), named):
            raise Corrupt("observe payload: the digest of a subject is zero")
    return replace(batch, time=take("<i8", n).astype(np.int64)) if flags & TIMES else batch


def _bits(packed: np.ndarray[Any, Any], n: int) -> BOOL:
    bits = np.unpackbits(packed)
    if bits[n:].any():
        raise Corrupt("observe payload: padding bits are set")
    return bits[:n].astype(np.bool_)


def _named(batch: Batch) -> BOOL | None:
    """Return which events name a subject, bool[n]; None if none does."""
    if batch.subject is None:
        return None
    named: BOOL = (batch.subject != 0).any(axis=1)
    return named if named.any() else None


def _flags(found: I64, batch: Batch) -> int:
    """Return the flags of the payload of a batch, from the result of `riata_look_at`."""
    real, weighted, ids, longest = found[:_FACTS].tolist()
    flags: int = REAL * bool(real) | WEIGHTED * bool(weighted) | IDS * bool(ids) | LONG * bool(longest > _SHORT_MAX)
    flags |= SUBJECTS * (_named(batch) is not None)
    return flags | TIMES * (batch.time is not None and bool((batch.time != NO_TIME).any()))


def _version(flags: int) -> int:
    """The version of a payload with these flags."""
    return TIME_VERSION if flags & TIMES else SUBJECT_VERSION if flags & SUBJECTS else PAYLOAD_VERSION


def _misshapen(batch: Batch) -> str:
    """Return why the arrays of `batch` do not fit each other; empty if they do."""
    n, nnz = len(batch.indptr) - 1, len(batch.hash)
    if n < 1 or batch.indptr.item(0) != 0 or batch.indptr.item(n) != nnz:
        return _REASONS[_NOT_RISING]
    if (len(batch.value), len(batch.label), len(batch.weight), len(batch.has_id)) != (nnz, n, n, n):
        return "arrays differ in length"
    if batch.event_id.shape != (n, ID_BYTES):
        return f"event_id is not {n} x {ID_BYTES}"
    if batch.subject is not None and batch.subject.shape != (n, ID_BYTES):
        return f"subject is not {n} x {ID_BYTES}"
    if batch.time is not None and batch.time.shape != (n,):
        return f"time is not {n}"
    return ""


def _look(batch: Batch) -> tuple[str, I64]:
    """Return (why `batch` is invalid, empty if it is valid; the result of `riata_look_at`)."""
    found = np.zeros(_FOUND, np.int64)
    if wrong := _misshapen(batch):
        return wrong, found
    plain = np.ascontiguousarray
    indptr, hashes, value = plain(batch.indptr), plain(batch.hash), plain(batch.value)
    per_event = (plain(batch.label), plain(batch.weight), plain(batch.has_id))
    reason = core.look_at(indptr, batch.n, hashes, value, batch.nnz, *per_event, _POWERS, len(_POWERS), found)
    return _REASONS[reason], found
