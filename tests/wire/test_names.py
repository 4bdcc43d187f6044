"""The table of names against a set."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from riata.base.arrays import U64
from riata.base.errors import Corrupt
from riata.native.declarations import STRUCTS
from riata.native.library import address, core, struct
from riata.wire.encoder import EncoderConfig
from riata.wire.names import EVERY_NAME, NO_NAMES, NOTHING_NAMED, Names, NamesSeen, names_found
from riata.wire.parse import Context, make_rules
from riata.wire.parsed import new_names
from riata.wire.read_body import FORMATS, read_body
from riata.wire.rows import EQUALS, FOUND, KEY, PART, SHADOWED, make_sink
from tests.twins import names as twin
from tests.twins import new_names as new_names_twin

PROBE_MAX = 64


def lacks(table: U64, fingerprint: int) -> bool:
    return bool(core.lacks(address(table), len(table), fingerprint))


def enter_all(table: U64, fingerprints: list[int], room: int) -> tuple[int, int, list[int]]:
    fresh, dropped = np.empty(len(fingerprints), np.uint8), np.zeros(1, np.int64)
    kept = core.enter(table, len(table), np.array(fingerprints, np.uint64), len(fingerprints), room, fresh, dropped)
    return kept, int(dropped[0]), fresh.tolist()


def test_table_equals_a_set() -> None:
    rng = random.Random(10)
    table, known = np.zeros(4096, np.uint64), set[int]()
    for _ in range(6000):
        fingerprint = rng.choice((rng.randrange(2**64), rng.randrange(1500)))
        if rng.random() < 0.25:
            assert enter_all(table, [fingerprint], 1)[0] == twin.enter(known, fingerprint)
        assert lacks(table, fingerprint) == twin.lacks(known, fingerprint)


def test_a_name_is_seen_only_after_it_was_added() -> None:
    names = NamesSeen(10)
    assert 5 not in names
    assert names.add([5, 5, 0]) == 2
    assert 5 in names
    assert 0 in names
    assert len(names) == 2


def test_names_beyond_the_capacity_are_dropped_and_counted() -> None:
    names = NamesSeen(3)
    assert names.add(range(100, 105)) == 3
    assert names.full
    assert names.dropped == 2
    assert len(names.table()) == 0
    assert names.add([100]) == 0
    assert names.dropped == 2


def test_no_capacity_keeps_nothing() -> None:
    names = NamesSeen(0)
    assert names.add([1]) == 0
    assert names.dropped == 1
    assert len(names.table()) == 0


def test_colliding_names_cost_a_bounded_probe_and_are_called_known() -> None:
    table = np.zeros(1 << 12, np.uint64)
    hostile = [k << 12 | 7 for k in range(1, PROBE_MAX + 2)]
    assert enter_all(table, hostile, len(hostile)) == (PROBE_MAX, 1, [1] * PROBE_MAX + [0])
    assert not lacks(table, hostile[-1])


def test_every_name_is_new_to_an_empty_table() -> None:
    assert all(lacks(EVERY_NAME, f) for f in (0, 1, 2**64 - 1))
    assert len(NO_NAMES) == 0


def test_many_entered_at_once_equal_a_set() -> None:
    rng = random.Random(11)
    table, known = np.zeros(4096, np.uint64), set[int]()
    for room in (0, 1, 100, 1000):
        fingerprints = [rng.choice((0, rng.randrange(2**64), rng.randrange(500))) for _ in range(600)]
        kept, dropped, fresh = enter_all(table, fingerprints, room)
        assert (fresh, dropped) == twin.enter_all(known, fingerprints, room)
        assert kept == sum(fresh) <= room


PAIRS = [(2**64 - 1, b"abc"), (0, b""), (7, "größe=µ".encode())]


def test_names_are_a_sequence_of_pairs() -> None:
    names = Names.of(PAIRS)
    assert list(names) == PAIRS
    assert len(names) == 3
    assert names[-1] == PAIRS[-1]
    assert names[1:] == PAIRS[1:]
    assert names == PAIRS
    assert names != PAIRS[1:]
    assert PAIRS[0] in names
    assert not NOTHING_NAMED
    assert Names.of(names) is names
    assert Names.of([]) == NOTHING_NAMED


def test_names_are_cut_into_names() -> None:
    names = Names.of(PAIRS)
    assert [list(part) for part in names.cut([0, 2, 2, 3])] == [[], PAIRS[:2], [], PAIRS[2:]]
    assert [list(part) for part in names.parts(2)] == [PAIRS[:2], PAIRS[2:]]
    assert [list(part) for part in names.parts(3)] == [PAIRS]
    assert Names.joined(names.cut([1, 3])).content == names.content


def test_names_come_back_from_their_bytes() -> None:
    for pairs in (PAIRS, [], PAIRS[:1]):
        assert Names.from_bytes(Names.of(pairs).content) == pairs
    assert Names.of([(258, b"ab")]).content == bytes.fromhex("01000000 0201000000000000 02000000") + b"ab"


def test_damaged_bytes_of_names_are_refused() -> None:
    good = Names.of(PAIRS).content
    for bad in (b"", good[:3], good[:20], good[:-1], good + b"x", b"\xff" * 40):
        with pytest.raises(Corrupt):
            Names.from_bytes(bad)


def test_chosen_names_are_taken_in_order() -> None:
    names = Names.of(PAIRS)
    assert names.take(np.array([1, 0, 1], np.uint8)) == [PAIRS[0], PAIRS[2]]
    assert names.take(np.array([0, 0, 0], np.uint8)) == []
    assert names.take(np.array([1, 1, 1], np.uint8)) is names


def test_a_set_grows_with_its_names_and_forgets_none() -> None:
    names = NamesSeen(5000)
    before = len(names.table())
    fingerprints = np.random.default_rng(3).integers(1, 2**63, 6000).astype(np.uint64)
    fresh = np.concatenate([names.mark(part) for part in np.array_split(fingerprints, 7)])
    assert (int(fresh[:5000].sum()), int(fresh[5000:].sum())) == (5000, 0)
    assert (len(names), names.dropped) == (5000, 1000)
    assert len(NamesSeen(5000).table()) == before < 10_000
    assert all(int(fingerprint) in names for fingerprint in fingerprints[:5000])
    assert int(fingerprints[5000]) not in names


# New names of a request against dictionaries and byte strings.


SLOW = [b"", "größe=µ".encode(), b"x" * 300]


def test_first_appearances_equal_the_twin() -> None:
    rng = random.Random(41)
    for n in (1, 2, 3, 50, 400):
        fingerprints = [rng.choice((0, rng.randrange(n), rng.randrange(2**64))) for _ in range(n)]
        kinds = [rng.choice((0, EQUALS, PART, EQUALS | PART)) for _ in range(n)]
        first, table = np.empty(n, np.int64), np.zeros(1 << (4 * n).bit_length(), np.uint32)
        given = np.array(fingerprints, np.uint64), np.array(kinds, np.uint8)
        count = core.first_found(*given, n, None, table, len(table), first)
        assert first[:count].tolist() == new_names_twin.first_found(fingerprints, kinds)


def test_first_appearances_in_several_models_equal_the_twin_for_each() -> None:
    rng = random.Random(43)
    for n in (1, 3, 50, 400):
        known = [NamesSeen(1000), NamesSeen(1000), NamesSeen(0)]  # the last wants no names
        fingerprints = [rng.choice((rng.randrange(n), rng.randrange(2**64))) for _ in range(n)]
        kinds = [rng.choice((0, EQUALS, PART)) for _ in range(n)]
        row = [rng.randrange(7) for _ in range(n)]
        owner = [0, 0, 1, 1, 1, 2, 2]
        for seen in known:
            seen.mark(np.array(rng.sample(fingerprints, n // 3), np.uint64))
        expected = [
            at
            for model, seen in enumerate(known[:2])
            for at in new_names_twin.first_found(
                fingerprints,
                [kind if owner[row[at]] == model else PART for at, kind in enumerate(kinds)],
            )
            if fingerprints[at] not in seen
        ]
        of_each = np.array([(table.ctypes.data, len(table)) for table in [seen.table() for seen in known]])
        owners = struct("riata_owners", row=np.array(row), owner=np.array(owner), seen=of_each)
        first, places = np.empty(n, np.int64), np.zeros(1 << (4 * n).bit_length(), np.uint32)
        given = np.array(fingerprints, np.uint64), np.array(kinds, np.uint8)
        count = core.first_found(*given, n, owners, places, len(places), first)
        assert first[:count].tolist() == sorted(expected)


def test_fingerprints_made_to_collide_cost_a_bounded_probe_and_some_are_left_out() -> None:
    n = 3000
    hostile = np.arange(n, dtype=np.uint64) << np.uint64(32)
    table = np.zeros(1 << 14, np.uint32)
    count = core.first_found(hostile, np.zeros(n, np.uint8), n, None, table, len(table), np.empty(n, np.int64))
    assert count == 64


def test_names_are_written_as_the_twin_writes_them() -> None:
    rng = random.Random(42)
    data = bytes(rng.randrange(97, 123) for _ in range(4000))
    kinds, spans = [], []
    for _ in range(300):
        at = sorted(rng.randrange(4000) for _ in range(4))
        spans.append((-1, rng.randrange(len(SLOW)), 0, 0) if rng.random() < 0.2 else (at[0], at[1], at[2], at[3]))
        kinds.append(rng.randrange(4) | rng.choice((0, KEY, KEY | SHADOWED)))
    names = [new_names_twin.shown(data, kind, span, SLOW) for kind, span in zip(kinds, spans, strict=True)]
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
        sink.found_fingerprint[k], sink.found_kind[k], sink.found_span[k], sink.found_row[k] = fingerprint, kind, span, 0
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


def test_the_structure_of_shown_names_has_the_fields_that_are_written_as_numbers() -> None:
    assert [name for name, _ in STRUCTS["riata_shown"]] == ["data", "kind", "span", "slow", "slow_end"]
