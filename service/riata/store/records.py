"""Record format of the log, and the hash chain over records.

Theory of operation
    A record is one accepted request. The payload of `observe` is described in `payload.py`. The others are, little endian:
    `config` and `repair` version u8 and canonical JSON; `skip` version u8, three zero bytes, the
    skipped sequence number u64 and a reason in UTF-8; `restore` and `upgrade` version u8, three zero bytes, length u32 of
    a JSON description of the source, that description, and a checkpoint (`layout.py`). Version 2 of `restore` has, after the
    length, the event u64 up to which the state in the checkpoint has learnt this log, and the chain after it, 20 bytes.

    Records are linked:  digest = SHA-256(kind u8, 7 zero bytes, count u64, accepted_ms i64, payload)
                         chain  = SHA-1(chain of the record before, digest)
    The chain before the first record is SHA-1 of the lineage after a prefix. A record that is lost, edited, swapped with
    another or copied from another model breaks the chain at that record. The digest does not contain the position of a record;
    the chain and the counts of the records before it fix the position. So an appender need not know the end of the log, and
    several processes may append at once.

    Compatibility: a change of the layout is a new version. Old versions stay readable, since old logs are replayed.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import I64
from riata.base.errors import Corrupt, LogFork, LogGap
from riata.store.payload import ID_BYTES, IDS, encode_batch, encode_parts
from riata.store.store import Head, Kind, Record
from riata.wire.batch import Batch, Encoded, slice_rows

DOCUMENT_VERSION: Final = 1  # of every payload other than `observe`
PROMOTION_VERSION: Final = 2  # of a `restore` that carries a state of the same log
KIND_CODES: Final[Mapping[Kind, int]] = {
    "observe": 1, "config": 2, "skip": 3, "restore": 4, "upgrade": 5, "repair": 6, "joint": 7
}  # fmt: skip
KINDS: Final[Mapping[int, Kind]] = {code: kind for kind, code in KIND_CODES.items()}

RECORD_DAMAGED: Final = "record_damaged"  # code of the error about a record whose bytes are not those of its digest
ACCEPT_LOSS: Final = "accept_loss"  # the action of a `repair` record by which missing events are accepted

_SKIP = struct.Struct("<B3xQ")
_RESTORE = struct.Struct("<B3xI")
_PROMOTION = struct.Struct("<B3xIQ20s")
_DIGESTED = struct.Struct("<B7xQq")
_ROW = struct.Struct("<Idd")
_FLAGS_AT: Final = 1  # in a payload of `observe`


class Through(NamedTuple):
    """Up to where the state in a `restore` record has learnt the log that the record is in.

    seq   : the last event that the state includes
    chain : the chain of the log after it
    """

    seq: int
    chain: bytes


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Return the payload of a `config` or `repair` record: version and canonical JSON."""
    return bytes([DOCUMENT_VERSION]) + canonical_json(document)


def decode_document(payload: bytes) -> dict[str, Any]:
    """Return the document of a `config` or `repair` payload. Raises `Corrupt`."""
    _require_version(payload[0] if payload else 0, "document")
    return read_json(payload[1:], "document payload")


def encode_skip(seq: int, reason: str) -> bytes:
    """Return the payload of a `skip` record: event `seq` is not learned, and the reason."""
    return _SKIP.pack(DOCUMENT_VERSION, seq) + reason.encode()


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


def encode_restore(source: Mapping[str, Any], checkpoint: bytes, through: Through | None = None) -> bytes:
    """Return the payload of a `restore` or `upgrade` record: the source of the state, and the state.

    through : what the state includes of the log that the record is for; the events after it will be learnt again
    """
    described = canonical_json(source)
    if through is not None:
        return _PROMOTION.pack(PROMOTION_VERSION, len(described), *through) + described + checkpoint
    return _RESTORE.pack(DOCUMENT_VERSION, len(described)) + described + checkpoint


def decode_restore(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Return (source, checkpoint bytes) of a `restore` or `upgrade` payload. Raises `Corrupt`."""
    start, stop = _source_span(payload)
    return read_json(payload[start:stop], "restore payload"), payload[stop:]


def decode_source(payload: bytes) -> dict[str, Any]:
    """Return the source of a `restore` or `upgrade` payload, without a copy of the checkpoint. Raises `Corrupt`."""
    start, stop = _source_span(payload)
    return read_json(payload[start:stop], "restore payload")


def _source_span(payload: bytes) -> tuple[int, int]:
    if len(payload) < _RESTORE.size or any(payload[1:4]):
        raise Corrupt(f"restore payload: malformed, {len(payload)} bytes")
    version, length = _RESTORE.unpack_from(payload)
    _require_version(version, "restore", PROMOTION_VERSION)
    start = _PROMOTION.size if version == PROMOTION_VERSION else _RESTORE.size
    if start + length > len(payload):
        raise Corrupt(f"restore payload: a description of {length} bytes does not fit in {len(payload)}")
    return start, start + length


def decode_through(payload: bytes) -> Through | None:
    """Return what the state in a `restore` payload includes of its log; None for a state of another place, which replaces all
    events before the record. The beginning of the payload is enough. Raises `Corrupt`."""
    if not payload or payload[0] != PROMOTION_VERSION:
        return None
    if len(payload) < _PROMOTION.size:
        raise Corrupt(f"restore payload: malformed, {len(payload)} bytes")
    return Through(*_PROMOTION.unpack_from(payload)[2:])


def canonical_json(document: Mapping[str, Any]) -> bytes:
    """Write `document` with sorted keys, without spaces, in ASCII; equal documents give equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def read_json(text: bytes, what: str) -> dict[str, Any]:
    """Read a JSON object that `canonical_json` wrote; `what` names it in the error. Raises `Corrupt` for any other text,
    including JSON that is not canonical, such as a duplicate key or another spelling of a number."""
    try:
        document = json.loads(text, parse_constant=_no_constant)
        if not isinstance(document, dict):
            raise Corrupt(f"{what}: expected an object")
        written = canonical_json(document)
    except (ValueError, RecursionError):
        raise Corrupt(f"{what}: not JSON") from None
    if written != text:
        raise Corrupt(f"{what}: its JSON differs from what was written")
    return document


def row_digests(batch: Batch, rows: Sequence[int]) -> list[bytes]:
    """Return 16 bytes for each of `rows`: BLAKE2b of hashes, values, label and weight. Dedupe compares it for equal ids."""
    if not rows:
        return []
    hash_bytes = np.ascontiguousarray(batch.hash, "<u4").view(np.uint8).data
    value_bytes = np.ascontiguousarray(batch.value, "<f8").view(np.uint8).data
    indptr, label, weight = batch.indptr.tolist(), batch.label.tolist(), batch.weight.tolist()
    digests = []
    for i in rows:
        start, stop = indptr[i], indptr[i + 1]
        digest = hashlib.blake2b(_ROW.pack(stop - start, label[i], weight[i]), digest_size=ID_BYTES)
        digest.update(hash_bytes[4 * start : 4 * stop])
        digest.update(value_bytes[8 * start : 8 * stop])
        digests.append(digest.digest())
    return digests


def first_chain(lineage: bytes) -> bytes:
    """Return the chain before the first record of a model."""
    return hashlib.sha1(b"riata log 1\0" + lineage, usedforsecurity=False).digest()


def next_chain(chain: bytes, digest: bytes) -> bytes:
    """Return the chain of a record with `digest` after a record with `chain`."""
    return hashlib.sha1(chain + digest, usedforsecurity=False).digest()


def record_digest(kind: Kind, count: int, accepted_ms: int, payload: bytes) -> bytes:
    """Return SHA-256 over kind, count, accepted_ms and payload of a record; the chain covers its position."""
    return coded_digest(KIND_CODES[kind], count, accepted_ms, payload)


def coded_digest(code: int, count: int, accepted_ms: int, payload: bytes) -> bytes:
    """As `record_digest`, for a kind given by its number, which may be unknown to this program."""
    digest = hashlib.sha256(_DIGESTED.pack(code, count, accepted_ms))
    digest.update(payload)
    return digest.digest()


def observe_record(batch: Batch, accepted_ms: int) -> tuple[bytes, bytes]:
    """Return payload and digest of the record that holds `batch`. Raises `BadInput` as `encode_batch` does."""
    payload = encode_batch(batch)
    return payload, coded_digest(KIND_CODES["observe"], len(batch.label), accepted_ms, payload)


def write_ahead(batch: Batch, accepted_ms: int) -> Encoded:
    """Encode `batch` ahead of its append: payload and digest if every row is accepted, and the content digests of rows with an
    id. This takes the work off the log thread.

    Raises `BadInput` as `encode_batch` does.
    """
    return write_parts_ahead(batch, np.array([batch.n]), [accepted_ms])[0]


def write_parts_ahead(batch: Batch, stop: I64, accepted_ms: Sequence[int]) -> list[Encoded]:
    """As `write_ahead` for each part of `batch`, with one call of the core. stop : where each part ends"""
    found, start = [], 0
    for end, payload, moment in zip(stop.tolist(), encode_parts(batch, stop), accepted_ms, strict=True):
        part, start = slice_rows(batch, start, end), end
        digest = record_digest("observe", part.n, moment, payload)
        with_id = np.flatnonzero(part.has_id).tolist() if payload[_FLAGS_AT] & IDS else []
        found.append(Encoded(part, moment, payload, digest, row_digests(part, with_id)))
    return found


def names_digest(names: bytes) -> bytes:
    """Return 16 bytes of BLAKE2b over the names that came with one request."""
    return hashlib.blake2b(names, digest_size=ID_BYTES).digest()


def check_chain(records: Iterable[Record], after_seq: int, chain: bytes) -> tuple[int, bytes]:
    """Check that `records` follow event `after_seq`, whose chain is `chain`; return (last event, its chain).

    Raises `LogGap` if an event is missing and `LogFork` if a record is not the one that was written.
    """
    for record in records:
        if record.first != after_seq + 1 or record.count < 1:
            raise LogGap(f"log of {record.model!r}: expected event {after_seq + 1}, found {record.first}", event=after_seq + 1)
        if record.digest != record_digest(record.kind, record.count, record.accepted_ms, record.payload):
            what = f"log of {record.model!r}: the record at event {record.first} was changed after it was written"
            raise LogFork(what, RECORD_DAMAGED, record.first)
        chain = next_chain(chain, record.digest)
        if record.chain != chain:
            what = f"log of {record.model!r}: the record at event {record.first} does not continue the record before it"
            raise LogFork(what, event=record.first)
        after_seq = record.last
    return after_seq, chain


def check_read(head: Head, start: tuple[int, bytes], after_seq: int, records: Sequence[Record], complete: bool) -> None:
    """Check the records read after event `after_seq` before they are returned.

    start    : last event and chain of the stored record before `records`, or of the last trimmed record
    complete : `records` reach the end of the log, so they must end at `head.seq`
    Raises `LogGap` or `LogFork`.
    """
    if after_seq > head.seq:
        raise LogGap(f"the log ends at event {head.seq}, but event {after_seq} was expected in it: was the store rolled back?")
    if after_seq < head.first_seq - 1:
        raise LogGap(f"events {after_seq + 1} to {head.first_seq - 1} have been trimmed")
    seq, chain = check_chain(records, *start)
    if complete and seq != head.seq:
        raise LogGap(f"events {seq + 1} to {head.seq} are missing at the end of the log", event=seq + 1)
    if complete and chain != head.chain:
        raise LogFork(f"the last record of the log is not the one that was written last, at event {head.seq}", event=head.seq + 1)


def _require_version(version: int, what: str, newest: int = DOCUMENT_VERSION) -> None:
    if not DOCUMENT_VERSION <= version <= newest:
        code = "newer_format" if version > newest else None
        raise Corrupt(f"{what} payload: version {version}, this program reads {DOCUMENT_VERSION} to {newest}", code)


def _no_constant(name: str) -> None:
    raise ValueError(name)
