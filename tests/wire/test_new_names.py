"""New names of a request against dictionaries and byte strings."""

from __future__ import annotations

import json
import random

import numpy as np

from riata.native.library import core, struct
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen, names_found
from riata.wire.parse import Context, make_rules
from riata.wire.parsed import new_names
from riata.wire.read_body import FORMATS, read_body
from riata.wire.rows import EQUALS, FOUND, KEY, PART, SHADOWED, make_sink
from tests.twins import new_names as twin

SLOW = [b"", "größe=µ".encode(), b"x" * 300]


def test_first_appearances_equal_the_twin() -> None:
    rng = random.Random(41)
    for n in (1, 2, 3, 50, 400):
        fingerprints = [rng.choice((0, rng.randrange(n), rng.randrange(2**64))) for _ in range(n)]
        kinds = [rng.choice((0, EQUALS, PART, EQUALS | PART)) for _ in range(n)]
        first, table = np.empty(n, np.int64), np.zeros(1 << (4 * n).bit_length(), np.uint32)
        given = np.array(fingerprints, np.uint64), np.array(kinds, np.uint8)
        count = core.first_found(*given, n, table, len(table), first)
        assert first[:count].tolist() == twin.first_found(fingerprints, kinds)


def test_fingerprints_made_to_collide_cost_a_bounded_probe_and_some_are_left_out() -> None:
    n = 3000
    hostile = np.arange(n, dtype=np.uint64) << np.uint64(32)
    table = np.zeros(1 << 14, np.uint32)
    count = core.first_found(hostile, np.zeros(n, np.uint8), n, table, len(table), np.empty(n, np.int64))
    assert count == 64


def test_names_are_written_as_the_twin_writes_them() -> None:
    rng = random.Random(42)
    data = bytes(rng.randrange(97, 123) for _ in range(4000))
    kinds, spans = [], []
    for _ in range(300):
        at = sorted(rng.randrange(4000) for _ in range(4))
        spans.append((-1, rng.randrange(len(SLOW)), 0, 0) if rng.random() < 0.2 else (at[0], at[1], at[2], at[3]))
        kinds.append(rng.randrange(4) | rng.choice((0, KEY, KEY | SHADOWED)))
    names = [twin.shown(data, kind, span, SLOW) for kind, span in zip(kinds, spans, strict=True)]
    names_at = struct(
        "riata_shown",
        data=np.frombuffer(data, np.uint8),
        kind=np.array(kinds, np.uint8),
        span=np.array(spans, np.int64),
        slow=np.frombuffer(b"".join(SLOW), np.uint8),
        slow_end=np.cumsum([0, *map(len, SLOW)]),
    )
    lengths, text = np.empty(300, np.uint32), np.empty(sum(map(len, names)), np.uint8)
    for into in (None, text):
        assert core.show_names(names_at, np.arange(300), 300, lengths, into) == len(text)
        assert lengths.tolist() == [*map(len, names)]
    assert text.tobytes() == b"".join(names)


def test_each_name_is_listed_once_in_the_order_of_appearance() -> None:
    data, sink = np.array(bytearray(b"ageuser"), np.uint8), make_sink(100, 1, 1)
    found = [(7, 0, (0, 0, 0, 3)), (9, 1, (3, 7, 0, 3)), (7, 0, (0, 0, 0, 3)), (2**64 - 1, 0, (-1, 1, 0, 0))]
    for k, (fingerprint, kind, span) in enumerate(found):
        sink.found_fingerprint[k], sink.found_kind[k], sink.found_span[k] = fingerprint, kind, span
    sink.count[FOUND] = len(found)
    assert names_found(data, sink, SLOW) == [(7, b"age"), (9, b"user=age"), (2**64 - 1, SLOW[1])]
    sink.count[FOUND] = 0
    assert names_found(data, sink, SLOW) == []


def test_a_body_that_repeats_its_names_lists_few_of_them_again_and_the_next_body_all() -> None:
    rng = random.Random(4)
    rows = [[int(20_000 ** rng.random()) for _ in range(100)] + [20_000 + i] for i in range(2000)]
    lines = [json.dumps({"features": {f"n{name}": 1.0 for name in row}, "label": 1}) for row in rows]
    names = list(dict.fromkeys(f"n{name}".encode() for row in rows for name in dict.fromkeys(row)))
    rules = make_rules(Context(EncoderConfig()), True, NamesSeen().table())
    for _ in range(2):
        reading = read_body("\n".join(lines).encode(), FORMATS["application/x-ndjson"], rules)
        assert [name for _, name in new_names(reading)] == names
        assert len(names) <= reading.sink.count[FOUND] < sum(map(len, rows)) // 2
