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
from riata.run.state.config import read_config
from tests.learn.contract import same
from tests.learn.streams import sparse_events, to_batch
from tests.twins import slot_table as twin
from tests.twins.truncated_step import Event

BITS = 14
LEARNERS: dict[str, dict[str, Any]] = {
    "default": {"far_values": "off", "kind": "truncated_gradient", "gravity": 1e-3, "shapes": "off"},
    "adaptive": {"far_values": "off", "kind": "truncated_gradient", "gravity": 1e-3, "mixed": False, "shapes": "off"},
    "constant": {"far_values": "off", "kind": "truncated_gradient", "gravity": 1e-3, "rate": "constant", "normalised": False},
    "ftrl": {"far_values": "off", "kind": "ftrl_proximal", "l1": 0.1, "standardised": False},
    "hybrid": {"far_values": "off", "kind": "taylor_sketch", "mode": "hybrid", "k": 20, "warm_up": 40, "standardised": False},
}


@pytest.mark.parametrize("bits", [1, 11, 12, BITS, 18])
@pytest.mark.parametrize("n", [1, 300, 3000, 60_000])
def test_slots_get_lines_in_the_order_in_which_they_are_met(bits: int, n: int) -> None:
    """A map of 2^14 slots splits its first segment at 513 lines, and has an array for each from 4097 on."""
    hashes = np.random.default_rng(bits).integers(0, 2**32, n, dtype=np.uint32)
    table, known = SlotTable(bits, 1), dict[int, int]()
    for start in range(0, n, 1000):
        some = hashes[start : start + 1000]
        assert table.enter(some).tolist() == twin.enter(known, some.tolist(), table.shift, table.shift)
    assert table.used == len(known)
    assert table.slots_of(np.arange(len(known), dtype=np.uint32)).tolist() == list(known)
    assert table.lines_of(np.array(list(known), np.uint32)).tolist() == list(known.values())


def use_all_lines(learner: Any) -> None:
    """Give lines to all slots of a learner, so that its map has an entry for each."""
    table = learner._state.table if isinstance(learner, TaylorSketch) else learner._slots
    table.lines_of(np.arange(2**BITS, dtype=np.uint32))


@pytest.mark.parametrize("name", LEARNERS)
def test_a_table_that_grows_learns_the_same_bits_as_one_that_is_full(name: str) -> None:
    def build() -> Learner:
        return build_learner(read_config({"learner": LEARNERS[name]}).learner, BITS)

    grows, thawed, full = build(), build(), build()
    use_all_lines(full)
    sizes = []
    for n, seed, features, longest in ((3, 1, 40, 5), (200, 2, 40, 8), (60, 3, 3000, 60), (40, 4, 20_000, 400), (50, 2, 40, 8)):
        batch = to_batch(sparse_events(n, seed, features, spread=0.5, longest=longest))
        thawed.thaw(grows.freeze())
        told = [learner.step_all([batch]) for learner in (grows, thawed, full)]
        assert told[0].margin.tobytes() == told[1].margin.tobytes() == told[2].margin.tobytes()
        assert same(grows.freeze(), full.freeze())
        assert same(thawed.freeze(), full.freeze())
        assert grows.weights().beta.tobytes() == full.weights().beta.tobytes()
        sizes.append(grows.memory()["table"])
    assert sizes[0] < sizes[2] < sizes[3] == sizes[4]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_map_that_grows_alone_is_the_one_that_is_used(name: str) -> None:
    """The first segment is split at 513 lines."""

    def build() -> Learner:
        return build_learner(read_config({"learner": LEARNERS[name]}).learner, BITS)

    grows, full = build(), build()
    use_all_lines(full)
    for start in range(0, 900, 10):
        rows = [Event([(slot << 18, 1.0) for slot in range(start, start + 10)], float(start // 10 % 2))] * 2
        for learner in (grows, full):
            learner.step(to_batch(rows))
    assert same(grows.freeze(), full.freeze())


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


def test_no_line_is_moved_and_no_batch_takes_much_memory() -> None:
    table, most = SlotTable(22, 4), 0
    line = table.line
    for start in range(0, 2**21, 1000):
        before = table.nbytes
        table.lines_of((np.arange(start, start + 1000, dtype=np.uint32) * np.uint32(0x9E3779B1)) >> np.uint32(10))
        most = max(most, table.nbytes - before)
    assert most <= 2 * 2**21 + 3 * 2**14  # a huge page of each array, and segments
    assert table.line is line


@pytest.mark.parametrize("same", [0, 1, 12])
def test_names_that_were_chosen_to_collide_get_an_array(same: int) -> None:
    """Slots whose search begins at one place, and whose `same` low bits are equal, so that they stay in one segment."""
    slots = np.arange(2**26, dtype=np.uint32)
    slots = slots[((slots * np.uint32(0x9E3779B1)) >> np.uint32(21) == 0) & (slots % 2**same == 0)][:2000]
    table, step = SlotTable(26, 2), 5
    expected = list(range(len(slots)))
    for start in range(0, len(slots), step):
        some = slots[start : start + step]
        assert table.lines_of(some).tolist() == expected[start : start + step]
    assert table.lines_of(slots).tolist() == expected
    assert table.nbytes <= 4 * 2**26 + 3 * 2**21


def test_a_segment_that_is_full_is_searched_to_its_end() -> None:
    """Slots of one segment, each of which begins at its own place; the sketch looks for slots that may have no line."""
    slots = np.arange(2**22, dtype=np.uint32)
    slots = slots[slots % 4 == 0]
    _, first = np.unique((slots * np.uint32(0x9E3779B1)) >> np.uint32(21), return_index=True)
    table = SlotTable(22, 1)
    assert table.lines_of(slots[first]).tolist() == list(range(2048))
    assert table.lines_of(slots[first]).tolist() == list(range(2048))
    assert table.lines_of(np.array([3], np.uint32)).tolist() == [2048]


# Slot list.


def _append(slots: SlotList, counts: np.ndarray[tuple[int], np.dtype[np.int64]], at: int, more: list[int]) -> None:
    """The same as a kernel."""
    slots.make_room(len(more))
    slots.slot[counts[at] : counts[at] + len(more)] = more
    counts[at] += len(more)


def test_the_list_is_always_in_order_and_complete() -> None:
    rng = np.random.default_rng(3)
    counts = np.zeros(3, np.int64)
    slots = SlotList(counts, 1, 9)
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
    slots = SlotList(counts, 0, 9)
    slots.hold(np.array([2, 5, 9], np.uint32))
    slots.keep(2)
    _append(slots, counts, 0, [7, 1])
    assert slots.sorted().tolist() == [1, 2, 5, 7]
    slots.hold(np.arange(5000, dtype=np.uint32))
    assert slots.sorted().tolist() == list(range(5000))


def test_room_is_made_only_if_it_is_needed() -> None:
    counts = np.zeros(1, np.int64)
    slots = SlotList(counts, 0, 9)
    first = slots.slot
    assert slots.has_room(len(first))
    slots.make_room(len(first))
    assert slots.slot is first
    assert not slots.has_room(len(first) + 1)
    slots.make_room(len(first) + 1)
    assert slots.has_room(len(first) + 1)
