"""The table of names against a set."""

from __future__ import annotations

import random

import numpy as np

from riata.wire.names import EVERY_NAME, NO_NAMES, PROBE_MAX, NamesSeen, enter, lacks
from tests.twins import names as twin


def test_table_equals_a_set() -> None:
    rng = random.Random(10)
    table, known = np.zeros(4096, np.uint64), set[int]()
    for _ in range(6000):
        fingerprint = rng.choice((rng.randrange(2**64), rng.randrange(1500)))
        if rng.random() < 0.25:
            assert enter(table, np.uint64(fingerprint)) == twin.enter(known, fingerprint)
        assert lacks(table, np.uint64(fingerprint)) == twin.lacks(known, fingerprint)


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
    assert [enter(table, np.uint64(f)) for f in hostile] == [1] * PROBE_MAX + [-1]
    assert not lacks(table, np.uint64(hostile[-1]))


def test_every_name_is_new_to_an_empty_table() -> None:
    assert all(lacks(EVERY_NAME, np.uint64(f)) for f in (0, 1, 2**64 - 1))
    assert len(NO_NAMES) == 0
