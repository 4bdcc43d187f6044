from __future__ import annotations

import numpy as np

from riata.learn.slot_table import SlotList


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
