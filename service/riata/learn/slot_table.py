"""Tables with a line of numbers for each slot: compact while few slots were met, addressed by the slot itself once many were.

With 2^22 slots a full table takes 128 MiB, and hashing spreads features over all of it: each takes a page of its own. So a table
begins with a few lines, which slots take in the order in which they are first met. A map with open addressing gives the line of
a slot; it is at most a quarter full. When the lines are used up, lines and map double. With more than one slot in
`_COMPACT_SHARE` in use, all slots get a line, in pages of 2 MiB: looking a slot up takes about as long as learning it.

Kernels of learners take a hash and a shift, and use line hash >> shift. For a compact table they get hashes that are made from
the numbers of the lines, in the same order, so no kernel knows the layout. Adjacent features that share a slot share a line.

The layout is not part of a learner's state. Feature names that were chosen to collide in the map make the table direct: that
costs memory and no time.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, I64, U8, U32, aligned
from riata.native.library import core, struct

HASH_BITS: Final = 32
_COMPACT_SHARE: Final = 64
_COMPACT_MIN: Final = 4096  # lines that a compact table may have at least
SMALL_BITS: Final = 13  # tables of up to this many bits are direct from the start
_LINES_MIN: Final = 256
_SPARSE: Final = 4  # entries of the map for each line
_CACHE_LINE_BYTES: Final = 64
_HUGE_BYTES: Final = 2 * 2**20
_MAPPED_BYTES_MIN: Final = 64 * 2**10  # from here on a mapping of its own, so that what a table outgrows returns to the system


def zero_table(lines: int, width: int) -> F64:
    """A zeroed table f64[lines, width] aligned to a cache line, so that no line of it crosses two if width is a power of two.
    A large one has pages of 2 MiB where the system has them, since address translation costs more than a step."""
    return _zeros(8 * lines * width).view(np.float64).reshape(lines, width)


def _zeros(count: int) -> U8:
    """Zeroed bytes. Those of a large array take memory when they are first touched."""
    if sys.platform != "linux" or count < _MAPPED_BYTES_MIN:
        return aligned(np.zeros(count + _CACHE_LINE_BYTES, np.uint8), count, _CACHE_LINE_BYTES)
    alignment = _HUGE_BYTES if count >= 2 * _HUGE_BYTES else _CACHE_LINE_BYTES
    area = mmap.mmap(-1, count + alignment, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if alignment == _HUGE_BYTES:
        area.madvise(mmap.MADV_HUGEPAGE)
    return aligned(np.frombuffer(area, np.uint8), count, alignment)


class SlotTable:
    """The lines f64[width] of the slots of a learner with 2^bits slots; zeros until they are written.

    line  : f64[lines + 1, width]  for kernels; another array after a call that adds slots. The last line belongs to no slot
    shift : of the hashes that `enter` returns: their lines are hash >> shift; may change with `line`
    """

    def __init__(self, bits: int, width: int) -> None:
        self._bits, self._width = bits, width
        self._compact_lines = max(2**bits // _COMPACT_SHARE, _COMPACT_MIN)
        self._slot_of: U32 = np.empty(0, np.uint32)
        self._places: I64 = np.empty(0, np.int64)
        self.is_direct = bits <= SMALL_BITS
        self._map = struct("riata_slot_map")
        self.shift = HASH_BITS - (bits if self.is_direct else self._compact_lines.bit_length() - 1)
        self.line = zero_table((2**bits if self.is_direct else 0) + 1, width)
        if not self.is_direct:
            self._grow(_LINES_MIN)

    @property
    def nbytes(self) -> int:
        """Bytes of the lines and of the map. All of them are in memory soon after a table has grown."""
        return self.line.nbytes + self._slot_of.nbytes + self._places.nbytes

    @property
    def growth(self) -> int:
        """Bytes that the next step of the table takes; 0 while an eighth of its lines is free, and of a direct table."""
        lines = len(self._slot_of)
        if self.is_direct or 8 * self._map.used < 7 * lines:
            return 0
        return 8 * self._width * 2**self._bits if 2 * lines > self._compact_lines else self.nbytes

    @property
    def slot_of(self) -> U32:
        """The slots of lines, for kernels; empty if the table is direct: a line is then that of the slot of its number."""
        return self._slot_of

    def enter(self, hashes: U32) -> U32:
        """Give a line to the slot of each hash that has none. Return hashes whose lines are hash >> shift, in the same order."""
        if self.is_direct:
            return hashes
        return self._look_up(np.ascontiguousarray(hashes, np.uint32), HASH_BITS - self._bits, self.shift)

    @property
    def map(self) -> Any:
        """The `riata_slot_map` of the present table."""
        return self._map

    def enter_all(self, several: Sequence[U32]) -> Sequence[U32]:
        """As `enter` of each, for one layout."""
        entered = [self.enter(hashes) for hashes in several]
        return several if self.is_direct else entered

    def lines_of(self, slots: U32) -> U32:
        """The numbers of the lines of slots; those without a line get one."""
        if self.is_direct:
            return slots
        lines = self._look_up(slots, 0, 0)
        return slots if self.is_direct else lines

    def pick(self, slots: U32, column: int) -> tuple[F64, F64]:
        """Copies of two adjacent columns of the lines of slots."""
        left, right = np.empty(len(slots)), np.empty(len(slots))
        core.pick_columns(self.line, self._width, self.lines_of(slots), len(slots), column, left, right)
        return left, right

    def slots_of(self, lines: U32) -> U32:
        """The slots of lines in use."""
        return lines if self.is_direct else self._slot_of[lines]

    def _look_up(self, hashes: U32, shift: int, up: int) -> U32:
        out, at = np.empty(len(hashes), np.uint32), 0
        while True:
            found = self._map
            at = core.enter_slots(found, hashes, len(hashes), at, shift, up, out)
            if at == len(hashes):
                return out
            if 2 * found.used > self._compact_lines or found.used < found.lines or not self._grow(2 * found.used):
                self._make_direct()
                return hashes

    def _grow(self, lines: int) -> bool:
        """Change to a compact table with room for this many lines; false if their slots collide in its map."""
        used = self._map.used
        known, places, slot_of = self._slot_of[:used], _zeros(8 * _SPARSE * lines).view(np.int64), np.empty(lines, np.uint32)
        new = struct("riata_slot_map", entry=places, slot_of=slot_of, entries=len(places), lines=lines, down=_down(places))
        # In the order of their lines, so they keep them.
        if core.enter_slots(new, known, used, 0, 0, 0, np.empty(used, np.uint32)) < used:
            return False
        longer = zero_table(lines + 1, self._width)
        longer[:used] = self.line[:used]
        self.line, self._slot_of, self._places, self._map = longer, slot_of, places, new
        return True

    def _make_direct(self) -> None:
        table, used = zero_table(2**self._bits + 1, self._width), self._map.used
        table[self._slot_of[:used]] = self.line[:used]
        self.line, self.shift, self.is_direct = table, HASH_BITS - self._bits, True
        self._slot_of, self._places = self._slot_of[:0].copy(), self._places[:0].copy()
        self._map = struct("riata_slot_map")


def _down(places: I64) -> int:
    """The field `down` of a map."""
    return HASH_BITS - (len(places).bit_length() - 1)


# Lists of the slots whose lines are not empty, for learners with a table.

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
