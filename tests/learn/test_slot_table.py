"""Which line a slot has changes no bit of a learner, and a table takes memory for what was met only."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.learn.learner import Learner
from riata.learn.registry import build_learner
from riata.learn.slot_table import SlotList, SlotTable
from riata.learn.taylor_sketch import TaylorSketch
from riata.native.library import core, struct
from riata.run.state.config import read_config
from tests.learn.contract import same
from tests.learn.streams import sparse_events, to_batch
from tests.twins import slot_table as twin
from tests.twins.truncated_step import Event

BITS = 14
LEARNERS: dict[str, dict[str, Any]] = {
    "default": {"kind": "truncated_gradient", "gravity": 1e-3, "shapes": "off"},
    "adaptive": {"kind": "truncated_gradient", "gravity": 1e-3, "mixed": False, "shapes": "off"},
    "constant": {"kind": "truncated_gradient", "gravity": 1e-3, "rate": "constant", "normalised": False},
    "ftrl": {"kind": "ftrl_proximal", "l1": 0.1, "standardised": False},
    "hybrid": {"kind": "taylor_sketch", "mode": "hybrid", "k": 20, "warm_up": 40, "standardised": False},
}


@pytest.mark.parametrize("spread", [1, 2**10])
def test_slots_get_lines_in_the_order_in_which_they_are_met(spread: int) -> None:
    hashes = (np.random.default_rng(1).integers(0, 600, 1000) * spread).astype(np.uint32)
    places, slot_of, out = np.zeros(1024, np.int64), np.empty(200, np.uint32), np.empty(1000, np.uint32)
    found = struct("riata_slot_map", entry=places, slot_of=slot_of, entries=1024, most=200, nowhere=1024, down=32 - 10)
    known: dict[int, int] = {}
    expected, stopped = twin.enter(known, hashes.tolist(), 1, 3, 200)
    assert core.enter_slots(found, hashes, len(hashes), 0, 1, 3, out) == stopped
    assert found.used == 200
    assert out[:stopped].tolist() == expected
    assert slot_of.tolist() == list(known)
    slots, lines = np.array([*known, 2**31], np.uint32), np.empty(201, np.uint32)
    assert core.enter_slots(found, slots, 201, 0, 0, 0, lines) == 200  # no line is left for the last one
    assert lines[:200].tolist() == list(known.values())


def test_an_index_gives_the_lines_that_a_map_gives() -> None:
    hashes = np.random.default_rng(2).integers(0, 2**32, 5000, dtype=np.uint32) >> np.uint32(20) << np.uint32(20)
    known: dict[int, int] = {}
    expected, _ = twin.enter(known, hashes.tolist(), 32 - BITS, 32 - BITS, 2**BITS)
    maps, index = SlotTable(BITS, 4), SlotTable(BITS, 4)
    index.lines_of(hashes[:9] >> np.uint32(32 - BITS))
    index._make_index()
    for table in (maps, index):
        assert table.enter(hashes).tolist() == expected
        assert table.slots_of(np.arange(len(known), dtype=np.uint32)).tolist() == list(known)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_table_that_grows_learns_the_same_bits_as_one_with_an_index(name: str) -> None:
    def build() -> Learner:
        return build_learner(read_config({"learner": LEARNERS[name]}).learner, BITS)

    grows, thawed, index = build(), build(), build()
    inside: Any = index
    (inside._state.table if isinstance(inside, TaylorSketch) else inside._slots)._make_index()
    sizes = []
    for n, seed, features, longest in ((3, 1, 40, 5), (200, 2, 40, 8), (60, 3, 3000, 60), (40, 4, 20_000, 400), (50, 2, 40, 8)):
        batch = to_batch(sparse_events(n, seed, features, spread=0.5, longest=longest))
        thawed.thaw(grows.freeze())
        told = [learner.step_all([batch]) for learner in (grows, thawed, index)]
        assert told[0].margin.tobytes() == told[1].margin.tobytes() == told[2].margin.tobytes()
        assert same(grows.freeze(), index.freeze())
        assert same(thawed.freeze(), index.freeze())
        assert grows.weights().beta.tobytes() == index.weights().beta.tobytes()
        sizes.append(grows.memory()["table"])
    assert sizes[0] < sizes[2] < sizes[3] == sizes[4]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_map_that_grows_alone_is_the_one_that_is_used(name: str) -> None:
    """Lists have space for 1024 slots at first and the map for 256."""

    def build() -> Learner:
        return build_learner(read_config({"learner": LEARNERS[name]}).learner, BITS)

    grows, index = build(), build()
    inside: Any = index
    (inside._state.table if isinstance(inside, TaylorSketch) else inside._slots)._make_index()
    for start in range(0, 900, 10):
        rows = [Event([(slot << 18, 1.0) for slot in range(start, start + 10)], float(start // 10 % 2))] * 2
        for learner in (grows, index):
            learner.step(to_batch(rows))
    assert same(grows.freeze(), index.freeze())


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="/proc does not tell how much memory a process has")
@pytest.mark.parametrize("slots", [1000, 300_000, 2_000_000])
def test_memory_is_that_of_the_slots_met(slots: int) -> None:
    before, table = resident(), SlotTable(22, 8)
    at_first = table.nbytes
    lines = table.lines_of((np.arange(slots, dtype=np.uint32) * np.uint32(0x9E3779B1)) >> np.uint32(10))
    table.line[lines, 0] = 1.0
    assert at_first < 20_000
    assert table.nbytes <= slots * (64 + 4 + 32) + 2**21 + 2**14
    assert resident() - before < 1.1 * table.nbytes + slots * 4 + 2**21  # and the lines that were returned


def test_growth_is_told_before_it_happens_and_no_line_is_moved() -> None:
    table, told = SlotTable(22, 4), 0
    line = table.line
    for start in range(0, 2**16, 16):
        expected, before = table.growth, table.nbytes
        table.lines_of(np.arange(start, start + 16, dtype=np.uint32))
        if table.nbytes - before > 2 * mmap.PAGESIZE and table.nbytes < 2**20:
            assert expected >= table.nbytes - before - 2 * mmap.PAGESIZE > 0
            told += 1
    assert told > 3
    assert table.line is line


def test_names_that_were_chosen_to_collide_get_an_index() -> None:
    inverse = pow(0x9E3779B1, -1, 2**32)
    slots = np.arange(2**13, dtype=np.uint32) * np.uint32(inverse)  # whose first probe is 0
    slots = slots[slots < 2**26][:80]
    table = SlotTable(26, 2)
    assert table.lines_of(slots[:60]).tolist() == list(range(60))
    table.line[:60, 0] = np.arange(60)
    assert table.lines_of(slots).tolist() == list(range(80))
    assert table.map.entries == 0
    assert table.line[:60, 0].tolist() == list(range(60))


# Slot list.


def _append(slots: SlotList, counts: np.ndarray[tuple[int], np.dtype[np.int64]], at: int, more: list[int]) -> None:
    """The same as a kernel."""
    slots.make_room(len(more))
    slots.slot[counts[at] : counts[at] + len(more)] = more
    counts[at] += len(more)


def test_the_list_is_always_in_order_and_complete() -> None:
    rng = np.random.default_rng(3)
    counts = np.zeros(3, np.int64)
    slots = SlotList(counts, 1)
    expected: list[int] = []
    for length in (0, 5, 1000, 0, 3000, 1, 40):
        more = rng.integers(0, 500, length).tolist()
        _append(slots, counts, 1, more)
        expected = sorted([*expected, *more])
        assert len(slots) == len(expected) == counts[1]
        assert slots.sorted().tolist() == expected
    assert counts.tolist() == [0, len(expected), 0]


def test_list_cut_short_takes_new_slots_in() -> None:
    counts = np.zeros(1, np.int64)
    slots = SlotList(counts, 0)
    slots.hold(np.array([2, 5, 9], np.uint32))
    slots.keep(2)
    _append(slots, counts, 0, [7, 1])
    assert slots.sorted().tolist() == [1, 2, 5, 7]
    slots.hold(np.arange(5000, dtype=np.uint32))
    assert slots.sorted().tolist() == list(range(5000))


def test_room_is_made_only_if_it_is_needed() -> None:
    counts = np.zeros(1, np.int64)
    slots = SlotList(counts, 0)
    first = slots.slot
    assert slots.has_room(len(first))
    slots.make_room(len(first))
    assert slots.slot is first
    assert not slots.has_room(len(first) + 1)
    slots.make_room(len(first) + 1)
    assert slots.has_room(len(first) + 1)
