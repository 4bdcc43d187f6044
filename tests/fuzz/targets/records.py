"""Payloads of the log: every kind, from whatever bytes."""

from __future__ import annotations

import contextlib
from typing import Final

import numpy as np

from riata.base.errors import Corrupt
from riata.run.state.config import Change, ModelConfig, change_from_payload
from riata.store import records
from riata.store.payload import decode_batch, encode_batch
from riata.wire.batch import Batch

TOKENS: Final = (
    b"\x01",
    b'\x01{"learner":{"kind":"',
    b'"ftrl_proximal"',
    b"1e999",
    b"-0.0",
    b"1.0",
    b"NaN",
    b"\\ud800",
    b'"a":1,"a":2',
)


def one_input(data: bytes) -> None:
    """The first byte picks the kind; what is read is written back to equal bytes."""
    kind, payload = (data[0] % 5 if data else 0), data[1:]
    with contextlib.suppress(Corrupt):
        if kind == 0:
            again = encode_batch(decode_batch(payload))
        elif kind == 1:
            again = records.encode_document(records.decode_document(payload))
        elif kind == 2:
            again = records.encode_skip(*records.decode_skip(payload))
        elif kind == 3:
            again = records.encode_restore(*records.decode_restore(payload))
        else:
            config = change_from_payload(payload).config  # defaults are filled in, so the bytes may differ: once, not twice
            again = payload if change_from_payload(Change(config).payload()).config == config else b""
        if again != payload:
            raise AssertionError("a payload was read that was never written")


def batch() -> Batch:
    """Two events that need every part of the layout."""
    return Batch(
        indptr=np.array([0, 2, 3], np.int64), hash=np.array([1, 4_000_000_000, 7], np.uint32), value=np.array([0.1, -2.0, 3.0]),
        label=np.array([2.5, -0.0]), weight=np.array([1.0, 0.5]),
        event_id=np.stack([np.arange(16), np.zeros(16)]).astype(np.uint8), has_id=np.array([True, False]),
    )  # fmt: skip


def starts() -> list[bytes]:
    """One payload of each kind, and a plain batch."""
    rows = batch()
    plain = Batch(rows.indptr, rows.hash, np.ones(3), np.ones(2), np.ones(2), np.zeros((2, 16), np.uint8), np.zeros(2, np.bool_))
    return [
        b"\0" + encode_batch(rows),
        b"\0" + encode_batch(plain),
        b"\1" + records.encode_document({"a": {"b": [1, 2.5, None, "é"]}}),
        b"\2" + records.encode_skip(17, "why"),
        b"\3" + records.encode_restore({"generation": 3}, b"content"),
        b"\4" + Change(ModelConfig()).payload(),
    ]
