from __future__ import annotations

import numpy as np

from riata.learn.slot_table import SlotTable
from riata.native.library import core
from tests.twins import slots as twin


def test_merge_tail_puts_a_list_in_order_whose_head_was() -> None:
    rng = np.random.default_rng(12)
    for length, tail in ((0, 0), (1, 0), (1, 1), (5, 2), (5, 5), (300, 40), (300, 299), (900, 3)):
        slot = rng.integers(0, 200, length, dtype=np.uint32)
        slot[: length - tail].sort()
        end = np.sort(slot[length - tail :])
        expected = twin.merge_tail(slot.tolist(), end.tolist())
        core.merge_tail(slot, len(slot), end, len(end))
        assert slot.tolist() == expected


def test_slots_of_lines_are_those_that_entered_them() -> None:
    rng = np.random.default_rng(5)
    for n in (0, 1, 7, 500):
        table, slots = SlotTable(10, 4), rng.integers(0, 2**10, n, dtype=np.uint32)
        lines = table.lines_of(slots)
        assert table.slots_of(lines).tolist() == slots.tolist() == [int(table.slot_of[line]) for line in lines.tolist()]


def test_pick_copies_two_neighbouring_columns() -> None:
    line = np.arange(64.0).reshape(16, 4)
    slot = np.array([0, 3, 4, 15], np.uint32)
    left, right = np.empty(4), np.empty(4)
    for column in (0, 2):
        core.pick_columns(line, 4, slot, 4, column, left, right)
        assert (left.tolist(), right.tolist()) == twin.pick(line.tolist(), slot.tolist(), column)


def test_prune_keeps_each_slot_above_the_floor_once() -> None:
    line = np.zeros((16, 2))
    line[:, 1] = np.linspace(-1.0, 1.0, 16)
    line[3, 1] = -0.0
    listed = [0, 0, 3, 3, 7, 8, 8, 8, 15]
    for floor in (-1.0, 0.0, float(abs(line[8, 1])), 0.9, 2.0):
        slot = np.array(listed, np.uint32)
        kept = core.prune_slots(line, 2, 1, floor, slot, len(slot))
        assert slot[:kept].tolist() == twin.prune(line.tolist(), 1, floor, listed)
    assert twin.prune(line.tolist(), 1, 0.9, listed) == [0, 15]
    assert core.prune_slots(line, 2, 0, 0.0, np.zeros(0, np.uint32), 0) == 0
