"""The layout of a table changes no bit of a learner, and takes memory for what was met only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riata.learn import slot_table
from riata.learn.learner import Learner
from riata.learn.registry import build_learner
from riata.learn.slot_table import SlotList, SlotTable
from riata.native.library import core, struct
from riata.run.state.config import read_config
from tests.learn.contract import same
from tests.learn.streams import sparse_events, to_batch
from tests.twins import slot_table as twin

BITS = 14
LIMIT = 4096  # lines of a compact table of 2^14 slots
LEARNERS: dict[str, dict[str, Any]] = {
    "adaptive": {"kind": "truncated_gradient", "gravity": 1e-3},
    "constant": {"kind": "truncated_gradient", "gravity": 1e-3, "rate": "constant", "normalised": False},
    "ftrl": {"kind": "ftrl_proximal", "l1": 0.1},
    "hybrid": {"kind": "taylor_sketch", "mode": "hybrid", "k": 20, "warm_up": 40},
}


@pytest.mark.parametrize("spread", [1, 2**10])
def test_slots_get_lines_in_the_order_in_which_they_are_met(spread: int) -> None:
    hashes = (np.random.default_rng(1).integers(0, 600, 1000) * spread).astype(np.uint32)
    places, slot_of, out = np.zeros(1024, np.int64), np.empty(200, np.uint32), np.empty(1000, np.uint32)
    found = struct("riata_slot_map", entry=places, slot_of=slot_of, entries=1024, lines=200, down=32 - 10)
    known: dict[int, int] = {}
    expected, stopped = twin.enter(known, hashes.tolist(), 1, 3, 200)
    assert core.enter_slots(found, hashes, len(hashes), 0, 1, 3, out) == stopped
    assert found.used == 200
    assert out[:stopped].tolist() == expected
    assert slot_of.tolist() == list(known)
    slots, lines = np.array([*known, 2**31], np.uint32), np.empty(201, np.uint32)
    assert core.enter_slots(found, slots, 201, 0, 0, 0, lines) == 200  # no line is left for the last one
    assert lines[:200].tolist() == list(known.values())


@pytest.mark.parametrize("name", LEARNERS)
def test_a_table_that_grows_learns_the_same_bits_as_a_direct_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> Learner:
        return build_learner(read_config({"learner": LEARNERS[name]}).learner, BITS)

    grows, thawed = build(), build()
    monkeypatch.setattr(slot_table, "SMALL_BITS", BITS)
    direct = build()
    monkeypatch.undo()
    sizes = []
    for n, seed, features, longest in ((3, 1, 40, 5), (200, 2, 40, 8), (60, 3, 3000, 60), (40, 4, 20_000, 400), (50, 2, 40, 8)):
        batch = to_batch(sparse_events(n, seed, features, spread=0.5, longest=longest))
        thawed.thaw(grows.freeze())
        told = [learner.step_all([batch]) for learner in (grows, thawed, direct)]
        assert told[0].margin.tobytes() == told[1].margin.tobytes() == told[2].margin.tobytes()
        assert same(grows.freeze(), direct.freeze())
        assert same(thawed.freeze(), direct.freeze())
        assert grows.weights().beta.tobytes() == direct.weights().beta.tobytes()
        sizes.append(grows.memory()["table"])
    assert sizes[0] < sizes[2] < sizes[3] == sizes[4] == direct.memory()["table"]


def test_batches_given_together_have_one_layout_even_if_the_table_becomes_direct_between_them() -> None:
    table = SlotTable(BITS, 4)
    few, many = np.array([5, 6], np.uint32) << np.uint32(18), np.arange(LIMIT + 1, dtype=np.uint32) << np.uint32(18)
    assert [int(hashes[0] >> np.uint32(table.shift)) for hashes in table.enter_all([few])] == [0]
    together = table.enter_all([few, many])
    assert table.is_direct
    assert [hashes.tolist() for hashes in together] == [few.tolist(), many.tolist()]


def test_memory_is_that_of_the_slots_met_until_a_direct_table_is_worth_it() -> None:
    table = SlotTable(22, 4)
    at_first = table.nbytes
    table.lines_of(np.arange(0, 2**22, 2**22 // 30_000, dtype=np.uint32))
    assert at_first < 20_000
    assert table.nbytes < 30_000 * 2 * (32 + 4 + 32)
    table.lines_of(np.arange(2**16 + 1, dtype=np.uint32))
    assert table.is_direct
    assert table.nbytes == (2**22 + 1) * 32


def test_names_that_were_chosen_to_collide_make_the_table_direct() -> None:
    inverse = pow(0x9E3779B1, -1, 2**32)
    slots = np.arange(2**13, dtype=np.uint32) * np.uint32(inverse)  # whose first probe is 0
    slots = slots[slots < 2**26][:80]
    table = SlotTable(26, 2)
    assert table.lines_of(slots[:60]).tolist() == list(range(60))
    table.line[:60, 0] = np.arange(60)
    table.lines_of(slots)
    assert table.is_direct
    assert table.line[slots[:60], 0].tolist() == list(range(60))


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
