"""Helpers for the tests of the line formats: a body through the native reader, row by row, compared with its slow twin."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from riata.base.limits import VALUE_ABS_MAX
from riata.wire.codes import BAD_LABEL, DUPLICATE_INDEX, HANDOVER, OK, OUT_OF_RANGE
from riata.wire.encoder import EncoderConfig
from riata.wire.names import EVERY_NAME, NO_NAMES
from riata.wire.parse import Context, Labels, make_rules
from riata.wire.rows import (
    BEGIN,
    CLASS_START,
    CLASS_STOP,
    CLASSES,
    END,
    FOUND,
    ROWS,
    BatchBuilder,
    RecordScratch,
    Refusal,
    Rules,
    SlowRow,
    make_row,
    make_sink,
    row_capacity,
)
from riata.wire.scan import ClassLabel
from riata.wire.workspace import FRONT, Text, room_of
from tests.twins.transpose import summed

Reader = Callable[[Text, RecordScratch, BatchBuilder, Rules], int]
Slow = Callable[[bytes, Rules], list[SlowRow | Refusal]]


class Out(NamedTuple):
    """One row of the native reader."""

    code: int
    label: float
    weight: float
    name: bytes  # of its class; empty if the label is a number
    features: dict[int, float]


def rules_of(labels: Labels = "0/1", labelled: bool = True, names: bool = False, key: int = 0) -> Rules:
    """Rules of a model without text fields."""
    return make_rules(Context(EncoderConfig(hash_key=key), labels), labelled, EVERY_NAME if names else NO_NAMES)


def run(read: Reader, body: bytes, rules: Rules, rows_max: int = 10_000) -> tuple[int, BatchBuilder, list[Out]]:
    """Call `read` on a body as `wire.read_body` does."""
    data = np.zeros(FRONT + room_of(len(body)), np.uint8)[FRONT:]
    given = np.frombuffer(body, np.uint8)
    text = Text(given.ctypes.data, len(body), data)
    sink = make_sink(len(body), min(body.count(b"\n") + 2, rows_max), 1)
    status = read(text, make_row(row_capacity(len(body), 1)), sink, rules)
    rows = []
    for i in range(int(sink.count[ROWS])):
        span = slice(int(sink.place[i, BEGIN]), int(sink.place[i, END]))
        features = dict(zip(sink.hash[span].tolist(), sink.value[span].tolist(), strict=True))
        name = data[int(sink.place[i, CLASS_START]) : int(sink.place[i, CLASS_STOP])].tobytes()
        rows.append(Out(int(sink.code[i]), float(sink.label[i]), float(sink.weight[i]), name, features))
    return status, sink, rows


def compare(read: Reader, slow: Slow, body: bytes, rules: Rules) -> tuple[int, int, int]:
    """Compare the native reader with its twin, row by row, to the last bit; returns how many were accepted, refused, handed
    over.
    """
    status, sink, rows = run(read, body, rules)
    assert status == OK
    assert sink.count[FOUND] == 0
    expected = slow(body, rules)
    assert len(rows) == len(expected)
    accepted = refused = left = 0
    for out, twin in zip(rows, expected, strict=True):
        wanted = summed(twin)
        if out.code == HANDOVER or (rules.labels == CLASSES and out.code == BAD_LABEL):
            left += 1
        elif isinstance(wanted, int) or isinstance(twin, Refusal):
            # An index that comes twice and a sum out of range may be met in either order.
            assert out.code == wanted or (out.code == OUT_OF_RANGE and wanted == DUPLICATE_INDEX)
            refused += 1
        elif not all(abs(value) <= VALUE_ABS_MAX for value in wanted.values()):
            assert out.code == OUT_OF_RANGE
            refused += 1
        else:
            assert out.code == OK
            assert out.features == wanted  # no value is zero or not a number, so == is equality of bits
            assert list(out.features) == list(wanted)
            assert repr(out.label) == repr(twin.label)
            assert out.name.decode() == (twin.label.name if isinstance(twin.label, ClassLabel) else "")
            assert out.weight == twin.weight
            accepted += 1
    return accepted, refused, left


def mutate(rng: random.Random, line: bytes, letters: bytes) -> bytes:
    """Change, delete, double or insert a few bytes."""
    changed = bytearray(line)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(3)
        if kind == 0:
            changed[at:at] = bytes([rng.choice(letters)])
        elif kind == 1:
            del changed[at : at + rng.randrange(1, 3)]
        else:
            changed[at : at + 1] = bytes([rng.choice(letters)])
    return bytes(changed).replace(b"\n", b"")
