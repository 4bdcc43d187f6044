"""Predictions that wait for a label: the rows that label them, and what is kept of them in the store."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Final

import numpy as np

from riata.base.errors import BadInput, Corrupt
from riata.run.labels.pending_rows import Labelled, decode_row, encode_labelled, encode_waiting
from riata.wire.names import Names
from riata.wire.parse import parse_examples
from tests.fuzz.targets import records
from tests.fuzz.targets.bodies import CONTEXTS, check

TOKENS: Final = (
    b'{"prediction_id":"', b"0123456789abcdef" * 2, b'"label":1', b'"weight":2', b'"ts":"2026-11-20T11:14:00Z"', b"null",
    b'"features":{}', b'"event_id":"e"', b'"prediction_id":7', b"\\u0030", b"R", b"L",
)  # fmt: skip


def one_input(data: bytes) -> None:
    """First byte: lines of a body, or a kept row with its check as it comes (1) or made right (2)."""
    kind = data[0] % 3 if data else 0
    if kind == 0:
        context, labelled = CONTEXTS[len(data) % 4]
        with contextlib.suppress(BadInput):
            parsed = parse_examples(data[1:], "application/x-ndjson", context, labelled)
            check(parsed, labelled)
            if any(len(key) != 16 for key in parsed.joins.key) or not np.isfinite(parsed.joins.label).all():
                raise AssertionError("a label is for no prediction, or is none")
        return
    row = data[1:] if kind == 1 else signed(data[1:2], data[2:])
    with contextlib.suppress(Corrupt):
        found = decode_row(row)
        again = encode_labelled(found) if isinstance(found, Labelled) else encode_waiting(found.batch, found.names)[0]
        if decode_row(again) is None:
            raise AssertionError("a row does not come back")


def signed(kind: bytes, content: bytes) -> bytes:
    """A row of the first byte given, its check right."""
    kind = b"R" if kind and kind[0] % 2 else b"L"
    return kind + hashlib.blake2b(content, digest_size=8, person=kind).digest() + content


def starts() -> list[bytes]:
    """Labels of predictions among other rows, and both kinds of kept rows."""
    line = b'{"prediction_id":"' + b"0123456789abcdef" * 2 + b'","label":1,"weight":2}'
    batch = records.batch()
    rows = encode_waiting(batch, Names.of([(1 << 32, b"one"), (7 << 32, b"seven")]))
    labelled = encode_labelled(Labelled(1.0, 2.0, 17))
    kept = [b"\1" + row for row in (*rows, labelled)]
    return [
        b"\0" + line,
        b"\0" + line + b'\n{"features":{"a":1},"label":0}',
        *kept,
        b"\2\1" + rows[0][9:],
        b"\2\0" + labelled[9:],
    ]
