"""Binary format of a pending prediction: the stored row that waits for its label.

     0      1              9               13
    ┌──────┬──────────────┬───────────────┬─────────────────────────┬─────────────────┐
    │ "R"  │ check u8[8]  │ length u32    │ payload, `length` bytes │ names           │   pending
    ├──────┼──────────────┼───────────────┼───────────────┬─────────┴───────┬─────────┘
    │ "L"  │ check u8[8]  │ label f64     │ weight f64    │ seq u64         │             labelled
    └──────┴──────────────┴───────────────┴───────────────┴─────────────────┘

    payload  `payload.encode_batch` of the one event, with label 0, weight 1 and no id
    names    `Names.to_bytes` of the names of its features that were not in the log then; empty if there are none
    seq      log position of the labelled event, or a later one of the same request
    check    BLAKE2b of everything after it: a corrupted row is discarded, not learnt

Little endian. Rule for changes: a new layout gets a new first byte.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.errors import Corrupt
from riata.base.limits import REMEMBERED_ROW_BYTES_MAX
from riata.store.payload import decode_batch, encode_batch
from riata.wire.batch import Batch, slice_rows
from riata.wire.names import NOTHING_NAMED, Names
from riata.wire.parsed import ID_BYTES

TOO_LARGE: Final = "row_too_large_to_remember"
_WAITS: Final = b"R"
_LABELLED: Final = b"L"
_CHECK_BYTES: Final = 8
_HEAD_BYTES: Final = 1 + _CHECK_BYTES
_LENGTH = struct.Struct("<I")
_LABEL = struct.Struct("<ddQ")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A prediction without its label: a batch of one event, and names that may be new to the log."""

    batch: Batch
    names: Names


@dataclass(frozen=True, slots=True)
class Labelled:
    """What is kept of a labelled prediction: enough to answer a repeated label."""

    label: float
    weight: float
    seq: int


def encode_waiting(batch: Batch, names: Names) -> list[bytes]:
    """Encode the rows of `batch`, each with those of `names` that its features have.

    A row may be longer than REMEMBERED_ROW_BYTES_MAX. A row's names are omitted if they would make it longer.
    """
    n = batch.n
    nobody = np.zeros((n, ID_BYTES), np.uint8)
    plain = dataclasses.replace(batch, label=np.zeros(n), weight=np.ones(n), event_id=nobody, has_id=np.zeros(n, np.bool_))
    named = _names_of_rows(batch, names)
    rows = []
    for i in range(n):
        payload = encode_batch(slice_rows(plain, i, i + 1))
        row = _checked(_WAITS, _LENGTH.pack(len(payload)) + payload)
        if i in named:
            longer = _checked(_WAITS, _LENGTH.pack(len(payload)) + payload + named[i].to_bytes())
            row = longer if len(longer) <= REMEMBERED_ROW_BYTES_MAX else row
        rows.append(row)
    return rows


def encode_labelled(labelled: Labelled) -> bytes:
    """Encode a labelled prediction."""
    return _checked(_LABELLED, _LABEL.pack(labelled.label, labelled.weight, labelled.seq))


def decode_row(row: bytes) -> Waiting | Labelled:
    """Decode a row that `encode_waiting` or `encode_labelled` wrote. Raises `Corrupt`."""
    kind, check, content = row[:1], row[1:_HEAD_BYTES], row[_HEAD_BYTES:]
    if kind not in (_WAITS, _LABELLED):
        raise Corrupt("remembered prediction: neither waiting nor labelled", "remembered_corrupt")
    if check != _check(kind, content):
        raise Corrupt("remembered prediction: the digest does not match", "remembered_corrupt")
    if len(content) < _LENGTH.size or (kind == _LABELLED and len(content) != _LABEL.size):
        raise Corrupt(f"remembered prediction: {len(row)} bytes cannot hold one", "remembered_corrupt")
    if kind == _LABELLED:
        return Labelled(*_LABEL.unpack(content))
    (length,) = _LENGTH.unpack_from(content)
    payload, names = content[_LENGTH.size : _LENGTH.size + length], content[_LENGTH.size + length :]
    batch = decode_batch(payload)
    if batch.n != 1:
        raise Corrupt(f"remembered prediction: {batch.n} events, expected one", "remembered_corrupt")
    return Waiting(batch, Names.from_bytes(names) if names else NOTHING_NAMED)


def _checked(kind: bytes, content: bytes) -> bytes:
    return kind + _check(kind, content) + content


def _check(kind: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECK_BYTES, person=kind).digest()


def _names_of_rows(batch: Batch, names: Names) -> dict[int, Names]:
    """Return the names of each row's features, for the rows that have any."""
    if not len(names):
        return {}
    hashes = (names.fingerprint >> np.uint64(32)).astype(np.uint32)  # upper half of a fingerprint: the feature's hash
    order = np.argsort(hashes, kind="stable")
    low = np.searchsorted(hashes[order], batch.hash, "left")
    high = np.searchsorted(hashes[order], batch.hash, "right")
    row_of = np.repeat(np.arange(batch.n), np.diff(batch.indptr))
    listed = list(names)
    found: dict[int, list[tuple[int, bytes]]] = {}
    for entry in np.flatnonzero(high > low).tolist():
        pairs = found.setdefault(int(row_of[entry]), [])
        pairs += [listed[k] for k in order[low[entry] : high[entry]].tolist()]
    return {row: Names.of(pairs) for row, pairs in found.items()}
