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
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
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
            longer = _checked(_WAITS, _LENGTH.pack(len(payload)) + payload + named[i].content)
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


# How late something comes: a histogram of seconds, of labels since their predictions and of rows since their events.


BOUNDS_S: Final = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)


@dataclass(slots=True)
class Delays:
    """Counts by delay. counts : of the delays up to each of BOUNDS_S, but above the one before; then of longer ones"""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one. A clock that was set back gives no negative delay."""
        seconds = max(seconds, 0.0)
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds += seconds

    def add_all(self, seconds: F64) -> None:
        """Count f64[n] delays."""
        late = np.maximum(seconds, 0.0)
        for at, count in enumerate(np.bincount(np.searchsorted(BOUNDS_S, late), minlength=len(self.counts)).tolist()):
            self.counts[at] += count
        self.seconds += float(late.sum())

    def document(self) -> dict[str, Any]:
        """Return the histogram as JSON; the mean is None if nothing was counted."""
        total = sum(self.counts)
        return {"bounds_s": list(BOUNDS_S), "counts": list(self.counts), "mean_s": self.seconds / total if total else None}
