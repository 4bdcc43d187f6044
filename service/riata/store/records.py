"""What a record of the log holds, byte for byte, and how records are chained.

Theory of operation
    A record is one accepted request. Its payload is canonical: what learning sees is a function of the payload alone, so a
    later change in how requests are parsed cannot change a replay. All integers and floats are little endian.

    An `observe` payload of n events with nnz features in all:

         0        1        2                 4                 8                12                16
        ┌────────┬────────┬─────────────────┬─────────────────┬─────────────────┬─────────────────┐
        │ version│ flags  │ zero u16        │ n u32           │ nnz u32         │ bytes u32       │
        ├────────┴────────┴─────────────────┴─────────────────┴─────────────────┴─────────────────┤
        │ length  u32[n]            features of each event                                         │
        │ hash    u32[nnz]          strictly increasing within an event                            │
        │ value   f32[nnz]          f64[nnz] under flag WIDE: some value is not exact in float32   │
        │ label   ceil(n / 8) bits  f64[n] under flag REAL: some label is neither 0 nor 1          │
        │ weight  f64[n]            under flag WEIGHTED only: some weight is not 1                 │
        │ has_id  ceil(n / 8) bits  under flag IDS only: some event carries an id                  │
        │ id      u8[k, 16]         under flag IDS only: of the k events that carry one            │
        └──────────────────────────────────────────────────────────────────────────────────────────┘

    `bytes` is the length of the whole payload. Bits are packed from the highest down, the last byte padded with zeros.
    The other kinds: `config` and `upgrade` are version u8 and canonical JSON; `skip` is version u8, three zero bytes, the
    skipped sequence number u64 and a reason in UTF-8; `restore` is version u8, three zero bytes, length u32 of a JSON
    description of the source, that description, and a checkpoint (`layout.py`).

    Records are linked:  digest = SHA-256(kind u8, 7 zero bytes, count u64, accepted_ms i64, payload)
                         chain  = SHA-1(chain of the record before, digest)
    and the chain before the first record is SHA-1 of the lineage under a prefix. A record lost, edited, swapped with
    another or taken over from another model breaks the chain at that record. The chain alone says where a record stands, by
    the counts of those before it: so whoever appends need not know the end of the log, and several may append at once.

    Rule for change: another layout is another version; readers of version 1 stay for ever, as old logs are replayed.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import BOOL, F64, I64
from riata.base.errors import BadInput, Corrupt, LogFork, LogGap
from riata.base.limits import LABEL_ABS_MAX, VALUE_ABS_MAX, WEIGHT_MAX
from riata.store.store import Head, Kind, Record
from riata.wire.batch import Batch

PAYLOAD_VERSION: Final = 1
WIDE: Final = 1
REAL: Final = 2
WEIGHTED: Final = 4
IDS: Final = 8
KIND_CODES: Final[Mapping[Kind, int]] = {"observe": 1, "config": 2, "skip": 3, "restore": 4, "upgrade": 5}
KINDS: Final[Mapping[int, Kind]] = {code: kind for kind, code in KIND_CODES.items()}

_HEAD = struct.Struct("<BBHIII")
_SKIP = struct.Struct("<B3xQ")
_RESTORE = struct.Struct("<B3xI")
_DIGESTED = struct.Struct("<B7xQq")
_ROW = struct.Struct("<Idd")
_ID_BYTES = 16
_ONE_BITS = np.float64(1.0).view(np.uint64)
_SMALLEST = math.ulp(0.0)  # of the numbers above 0
_SAMPLE = 256


def encode_batch(batch: Batch) -> bytes:
    """Return the canonical payload of `batch`, at least one event.

    Raises `BadInput` (code `bad_batch`) where the batch is not one that `decode_batch` would give back: what could not
    be read again is never written.
    """
    wrong = _wrong(batch)
    if wrong:
        raise BadInput(f"batch: {wrong}", "bad_batch")
    narrow = _narrowed(batch.value)
    flags = WIDE * (narrow is None) | _flags(batch)
    real, weighted, ids = flags & REAL, flags & WEIGHTED, flags & IDS
    parts = [
        np.diff(batch.indptr).astype("<u4"),
        np.ascontiguousarray(batch.hash, "<u4"),
        np.ascontiguousarray(batch.value, "<f8") if narrow is None else narrow,
        np.ascontiguousarray(batch.label, "<f8") if real else np.packbits(batch.label == 1.0),
    ]
    parts += [np.ascontiguousarray(batch.weight, "<f8")] if weighted else []
    parts += [np.packbits(batch.has_id), np.ascontiguousarray(batch.event_id[batch.has_id])] if ids else []
    total = _HEAD.size + sum(part.nbytes for part in parts)
    head = _HEAD.pack(PAYLOAD_VERSION, flags, 0, batch.n, batch.nnz, total)
    return b"".join([head, *(part.data for part in parts)])


def decode_batch(payload: bytes) -> Batch:
    """Return the batch that `encode_batch` was given, bit for bit.

    Lengths are compared with the payload before anything is allocated. Raises `Corrupt`.
    """
    if len(payload) < _HEAD.size:
        raise Corrupt(f"observe payload: expected at least {_HEAD.size} bytes, got {len(payload)}")
    version, flags, zero, n, nnz, total = _HEAD.unpack_from(payload)
    _require_version(version, "observe")
    if zero or flags & ~(WIDE | REAL | WEIGHTED | IDS) or not n or total != len(payload):
        raise Corrupt(f"observe payload: header says {n} events, {total} bytes, flags {flags}; there are {len(payload)} bytes")
    packed = (n + 7) // 8
    fixed = 4 * n + nnz * (12 if flags & WIDE else 8) + (8 * n if flags & REAL else packed)
    fixed += (8 * n if flags & WEIGHTED else 0) + (packed if flags & IDS else 0) + _HEAD.size
    room = len(payload) - fixed
    if room < 0 or room % _ID_BYTES or (room and not flags & IDS):
        raise Corrupt(f"observe payload: {len(payload)} bytes cannot hold {n} events with {nnz} features")
    return _decode_parts(payload, flags, n, nnz, room // _ID_BYTES)


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Return the payload of a `config` or `upgrade` record: version and canonical JSON."""
    return bytes([PAYLOAD_VERSION]) + canonical_json(document)


def decode_document(payload: bytes) -> dict[str, Any]:
    """Return the document of a `config` or `upgrade` payload. Raises `Corrupt`."""
    _require_version(payload[0] if payload else 0, "document")
    return read_json(payload[1:], "document payload")


def encode_skip(seq: int, reason: str) -> bytes:
    """Return the payload of a `skip` record: event `seq` is not to be learnt, and why."""
    return _SKIP.pack(PAYLOAD_VERSION, seq) + reason.encode()


def decode_skip(payload: bytes) -> tuple[int, str]:
    """Return (seq, reason) of a `skip` payload. Raises `Corrupt`."""
    if len(payload) < _SKIP.size or any(payload[1:4]):
        raise Corrupt(f"skip payload: malformed, {len(payload)} bytes")
    version, seq = _SKIP.unpack_from(payload)
    _require_version(version, "skip")
    try:
        return int(seq), payload[_SKIP.size :].decode()
    except UnicodeDecodeError:
        raise Corrupt("skip payload: the reason is not UTF-8") from None


def encode_restore(source: Mapping[str, Any], checkpoint: bytes) -> bytes:
    """Return the payload of a `restore` record: where the state comes from, and the state itself."""
    described = canonical_json(source)
    return _RESTORE.pack(PAYLOAD_VERSION, len(described)) + described + checkpoint


def decode_restore(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Return (source, checkpoint bytes) of a `restore` payload. Raises `Corrupt`."""
    if len(payload) < _RESTORE.size or any(payload[1:4]):
        raise Corrupt(f"restore payload: malformed, {len(payload)} bytes")
    version, length = _RESTORE.unpack_from(payload)
    _require_version(version, "restore")
    end = _RESTORE.size + length
    if end > len(payload):
        raise Corrupt(f"restore payload: description of {length} bytes in {len(payload)}")
    return read_json(payload[_RESTORE.size : end], "restore payload"), payload[end:]


def canonical_json(document: Mapping[str, Any]) -> bytes:
    """Write `document` with sorted keys, without spaces, in ASCII; equal documents give equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def read_json(text: bytes, what: str) -> dict[str, Any]:
    """Read a JSON object that `canonical_json` wrote; `what` names it in the error. Raises `Corrupt` for any other text: also
    for one that is JSON, but says a key twice, or a number as nobody writes it."""
    try:
        document = json.loads(text, parse_constant=_no_constant)
        if not isinstance(document, dict):
            raise Corrupt(f"{what}: expected an object")
        written = canonical_json(document)
    except (ValueError, RecursionError):
        raise Corrupt(f"{what}: not JSON") from None
    if written != text:
        raise Corrupt(f"{what}: not as it was written")
    return document


def row_digests(batch: Batch, rows: Iterable[int]) -> list[bytes]:
    """Return 16 bytes for each of `rows`: BLAKE2b of features, values, label and weight, which an id stands for."""
    hashes, values = batch.hash.astype("<u4").tobytes(), batch.value.astype("<f8").tobytes()
    indptr, label, weight = batch.indptr.tolist(), batch.label.tolist(), batch.weight.tolist()
    digests = []
    for i in rows:
        start, stop = indptr[i], indptr[i + 1]
        content = _ROW.pack(stop - start, label[i], weight[i]) + hashes[4 * start : 4 * stop] + values[8 * start : 8 * stop]
        digests.append(hashlib.blake2b(content, digest_size=_ID_BYTES).digest())
    return digests


def first_chain(lineage: bytes) -> bytes:
    """Return the chain before the first record of a model."""
    return hashlib.sha1(b"riata log 1\0" + lineage, usedforsecurity=False).digest()


def next_chain(chain: bytes, digest: bytes) -> bytes:
    """Return the chain of a record with `digest` that follows one with `chain`."""
    return hashlib.sha1(chain + digest, usedforsecurity=False).digest()


def record_digest(kind: Kind, count: int, accepted_ms: int, payload: bytes) -> bytes:
    """Return SHA-256 over everything a record says but its place, which the chain says."""
    digest = hashlib.sha256(_DIGESTED.pack(KIND_CODES[kind], count, accepted_ms))
    digest.update(payload)
    return digest.digest()


def names_digest(names: bytes) -> bytes:
    """Return 16 bytes of BLAKE2b over the names that came with one request."""
    return hashlib.blake2b(names, digest_size=_ID_BYTES).digest()


def check_chain(records: Iterable[Record], after_seq: int, chain: bytes) -> tuple[int, bytes]:
    """Check that `records` follow event `after_seq`, whose chain is `chain`; return where they end.

    Raises `LogGap` where an event is missing and `LogFork` where a record is not the one that was written.
    """
    for record in records:
        if record.first != after_seq + 1 or record.count < 1:
            raise LogGap(f"log of {record.model!r}: expected event {after_seq + 1}, found {record.first}")
        if record.digest != record_digest(record.kind, record.count, record.accepted_ms, record.payload):
            raise LogFork(f"log of {record.model!r}: the record at event {record.first} was changed after it was written")
        chain = next_chain(chain, record.digest)
        if record.chain != chain:
            raise LogFork(f"log of {record.model!r}: the record at event {record.first} does not follow the one before")
        after_seq = record.last
    return after_seq, chain


def check_read(head: Head, start: tuple[int, bytes], after_seq: int, records: Sequence[Record], complete: bool) -> None:
    """Check what was read after event `after_seq` before it is handed out.

    start    : end and chain of the stored record before `records`, or of what was trimmed last
    complete : `records` are all there are, so they end where the head says
    Raises `LogGap` or `LogFork`.
    """
    if after_seq > head.seq:
        raise LogGap(f"the log ends at event {head.seq}, expected it to reach {after_seq}: was the store rolled back?")
    if after_seq < head.first_seq - 1:
        raise LogGap(f"events {after_seq + 1} to {head.first_seq - 1} are trimmed")
    seq, chain = check_chain(records, *start)
    if complete and seq != head.seq:
        raise LogGap(f"events {seq + 1} to {head.seq} are missing at the end of the log")
    if complete and chain != head.chain:
        raise LogFork(f"the log does not end in the record that was written last, at event {head.seq}")


def _require_version(version: int, what: str) -> None:
    if version != PAYLOAD_VERSION:
        code = "newer_format" if version > PAYLOAD_VERSION else None
        raise Corrupt(f"{what} payload: version {version}, this program reads {PAYLOAD_VERSION}", code)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _decode_parts(payload: bytes, flags: int, n: int, nnz: int, ids: int) -> Batch:
    at = _HEAD.size
    packed = (n + 7) // 8

    def take(dtype: str, count: int) -> np.ndarray[Any, Any]:
        nonlocal at
        part = np.frombuffer(payload, dtype, count, at)
        at += part.nbytes
        return part

    length = take("<u4", n).astype(np.int64)
    if int(length.sum()) != nnz:
        raise Corrupt(f"observe payload: lengths add up to {int(length.sum())} features, header says {nnz}")
    indptr: I64 = np.zeros(n + 1, np.int64)
    np.cumsum(length, out=indptr[1:])
    hashes = take("<u4", nnz).astype(np.uint32)
    value: F64 = take("<f8" if flags & WIDE else "<f4", nnz).astype(np.float64)
    label: F64 = take("<f8", n).astype(np.float64) if flags & REAL else _bits(take("u1", packed), n).astype(np.float64)
    weight: F64 = take("<f8", n).astype(np.float64) if flags & WEIGHTED else np.ones(n)
    has_id = _bits(take("u1", packed), n) if flags & IDS else np.zeros(n, np.bool_)
    if int(has_id.sum()) != ids:
        raise Corrupt(f"observe payload: {int(has_id.sum())} events carry an id, {ids} ids are there")
    event_id = np.zeros((n, _ID_BYTES), np.uint8)
    event_id[has_id] = take("u1", _ID_BYTES * ids).reshape(ids, _ID_BYTES)
    batch = Batch(indptr, hashes, value, label, weight, event_id, has_id)
    wrong = _wrong(batch)
    if wrong:
        raise Corrupt(f"observe payload: {wrong}")
    if flags != WIDE * (_narrowed(value) is None) | _flags(batch):
        raise Corrupt("observe payload: it has parts that say nothing, so it is not what was written")
    return batch


def _bits(packed: np.ndarray[Any, Any], n: int) -> BOOL:
    bits = np.unpackbits(packed)
    if bits[n:].any():
        raise Corrupt("observe payload: padding bits are set")
    return bits[:n].astype(np.bool_)


def _flags(batch: Batch) -> int:
    """Return which parts the payload of `batch` has besides those that all have, but for WIDE."""
    bits = batch.label.view(np.uint64)  # by bits, so that -0.0 keeps its sign
    real = bool(((bits != 0) & (bits != _ONE_BITS)).any())
    return REAL * real | WEIGHTED * bool((batch.weight != 1.0).any()) | IDS * bool(batch.has_id.any())


def _narrowed(value: F64) -> NDArray[np.float32] | None:
    """Return `value` as float32, little endian; None where that is not exact for some. The first few nearly always tell."""
    some = value[:_SAMPLE]
    if bool((some.astype(np.float32) != some).any()):
        return None
    narrow = value.astype("<f4")
    return None if bool((narrow != value).any()) else narrow


def _within(numbers: F64, low: float, high: float) -> bool:
    """Tell whether low <= numbers <= high; false where one is NaN, which is its own maximum."""
    return not numbers.size or bool(numbers.min() >= low and numbers.max() <= high)


def _wrong(batch: Batch) -> str:
    """Say what `batch` breaks of its own contract; empty where nothing."""
    lengths = np.diff(batch.indptr)
    if batch.n < 1 or int(batch.indptr[0]) != 0 or bool((lengths < 0).any()) or len(batch.hash) != batch.nnz:
        return "indptr does not rise from 0 to the number of features, over at least one event"
    n, nnz = batch.n, batch.nnz
    if (len(batch.value), len(batch.label), len(batch.weight), len(batch.has_id)) != (nnz, n, n, n):
        return "arrays differ in length"
    if batch.event_id.shape != (n, _ID_BYTES):
        return f"event_id is not {n} x {_ID_BYTES}"
    rising = np.ones(nnz + 1, np.bool_)
    rising[1:nnz] = batch.hash[1:] > batch.hash[:-1]
    rising[batch.indptr] = True  # a row may begin anywhere
    if not rising.all():
        return "hashes do not rise within an event"
    if not _within(batch.value, -VALUE_ABS_MAX, VALUE_ABS_MAX):
        return f"a value is not a number within {VALUE_ABS_MAX:g}"
    if not _within(batch.label, -LABEL_ABS_MAX, LABEL_ABS_MAX):
        return f"a label is not a number within {LABEL_ABS_MAX:g}"
    if not _within(batch.weight, _SMALLEST, WEIGHT_MAX):
        return f"a weight is not in (0, {WEIGHT_MAX:g}]"
    return ""
