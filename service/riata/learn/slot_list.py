"""Lists of the slots whose lines are not empty, for learners with a table."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U32
from riata.learn.slot_table import SlotTable
from riata.native.library import core

_ROOM_MIN: Final = 1024


class SlotList:
    """Slots that a kernel appends as it meets them, sorted when they are read.

    The kernel appends to `slot` and keeps the number of entries in counts[at]. It may list a slot twice. `slot` is another
    array after `make_room`, so it has to be passed to the kernel again.
    """

    def __init__(self, counts: I64, at: int) -> None:
        self.slot: U32 = np.empty(_ROOM_MIN, np.uint32)
        self._counts = counts
        self._at = at
        self._in_order = 0

    def __len__(self) -> int:
        """Number of entries; a slot that was listed twice counts twice."""
        return int(self._counts[self._at])

    def has_room(self, more: int) -> bool:
        """Whether `more` entries fit."""
        return len(self) + more <= len(self.slot)

    def make_room(self, more: int) -> None:
        """Change to a longer array if `more` entries would not fit."""
        if not self.has_room(more):
            longer = np.empty(max(2 * len(self.slot), len(self) + more), np.uint32)
            longer[: len(self)] = self.slot[: len(self)]
            self.slot = longer

    def rename(self, first: int, table: SlotTable) -> None:
        """Replace the entries from `first` on, which a kernel has appended, by slots: it knows the numbers of lines only."""
        if first < len(self) and not table.is_direct:
            self.slot[first : len(self)] = table.slots_of(self.slot[first : len(self)])

    def sorted(self) -> U32:
        """The entries, non-decreasing; a view. The head is still sorted from the last time, so only the tail has to be sorted."""
        used = self.slot[: len(self)]
        if self._in_order < len(used):
            tail = np.sort(used[self._in_order :])
            core.merge_tail(used, len(used), tail, len(tail))
            self._in_order = len(used)
        return used

    def keep(self, count: int) -> None:
        """Drop all except the first `count` entries, which are sorted."""
        self._counts[self._at] = self._in_order = count

    def hold(self, slot: U32) -> None:
        """Replace the entries by these slots; u32[m], strictly increasing."""
        self.keep(0)
        self.make_room(len(slot))
        self.slot[: len(slot)] = slot
        self.keep(len(slot))
