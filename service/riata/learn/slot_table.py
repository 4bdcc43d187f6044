"""Tables with a line of numbers for each slot that was met.

Hashing spreads features over all 2^bits slots. A table with a line for each slot would take a page of memory for each feature,
256 MiB with 2^22 slots. So slots get lines in the order in which they are first met, and a map gives the line of a slot. Address
space is reserved for all slots at once; it takes memory as lines are used, so no line is ever moved or copied.

The map grows by one segment at a time (`riata_slot_map`), so no batch pays for a doubling. Once it is as large as an array of all
slots, or if names were chosen to collide in it, it becomes that array, by one segment at a time too.

Kernels of learners take a hash and a shift, and use line hash >> shift. They get hashes that are made from the numbers of the
lines, in the same order. Adjacent features that share a slot share a line. The lines of slots are not part of a learner's state.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, I64, U8, U32, aligned
from riata.native.library import address, core, struct

HASH_BITS: Final = 32
_SEGMENT_BYTES: Final = 8 * 2**11  # of the map
_SEGMENT_SLOT_BITS: Final = 12  # a segment has space for an array of so many slots
_CACHE_LINE_BYTES: Final = 64
_PAGE_BYTES: Final = 4096
_HUGE_BYTES: Final = 2 * 2**20
_MAPPED_BYTES_MIN: Final = 64 * 2**10  # from here on a mapping of its own, which returns to the system when it is freed
_NORESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0)


def zero_table(lines: int, width: int) -> F64:
    """A zeroed table f64[lines, width] aligned to a cache line, so that no line of it crosses two if width is a power of two.

    Memory is taken where it is first written, and beyond the first 2 MiB in pages of 2 MiB where the system has them, since
    address translation costs more than a step.
    """
    return _zeros(8 * lines * width).view(np.float64).reshape(lines, width)


def _zeros(count: int) -> U8:
    """Zeroed bytes. Those of a large array take memory when they are first touched."""
    if sys.platform != "linux" or count < _MAPPED_BYTES_MIN:
        return aligned(np.zeros(count + _CACHE_LINE_BYTES, np.uint8), count, _CACHE_LINE_BYTES)
    alignment = _HUGE_BYTES if count >= 2 * _HUGE_BYTES else _CACHE_LINE_BYTES
    area = mmap.mmap(-1, count + alignment, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    found = aligned(np.frombuffer(area, np.uint8), count, alignment)
    if alignment == _HUGE_BYTES:
        begins = address(found) - address(np.frombuffer(area, np.uint8))
        area.madvise(mmap.MADV_NOHUGEPAGE, begins, _HUGE_BYTES)
        area.madvise(mmap.MADV_HUGEPAGE, begins + _HUGE_BYTES, (count - 1) // _HUGE_BYTES * _HUGE_BYTES - _HUGE_BYTES)
    return found


def _touched(count: int) -> int:
    """Bytes of memory that the first `count` bytes of `_zeros` take."""
    page = _PAGE_BYTES if count <= _HUGE_BYTES else _HUGE_BYTES
    return -(-count // page) * page


class SlotTable:
    """The lines f64[width] of the slots of a learner with 2^bits slots; zeros until they are written.

    line    : f64[2^bits + 1, width]  for kernels; the last line belongs to no slot
    slot_of : u32[2^bits]             the slots of the lines in use
    shift   : of the hashes that `enter` returns: their lines are hash >> shift
    """

    def __init__(self, bits: int, width: int) -> None:
        self._bits, self._width = bits, width
        self.shift = HASH_BITS - bits
        self.line: F64 = zero_table(2**bits + 1, width)
        self.slot_of: U32 = _zeros(4 * 2**bits).view(np.uint32)
        segments = 2 ** max(0, bits - _SEGMENT_SLOT_BITS)
        self._map = struct(
            "riata_slot_map",
            entry=_zeros(_SEGMENT_BYTES * segments).view(np.int64),
            slot_of=self.slot_of,
            last=segments - 1,
            shift=segments.bit_length() - 1,
            nowhere=2**bits,
        )

    @property
    def used(self) -> int:
        """Lines in use."""
        return int(self._map.used)

    @property
    def nbytes(self) -> int:
        """Bytes of the lines in use, of their slots, and of the map, in whole pages."""
        segments = min(int(self._map.low + 1 + self._map.split), int(self._map.last) + 1)
        return _touched(self.used * 8 * self._width) + _touched(4 * self.used) + segments * _SEGMENT_BYTES

    @property
    def map(self) -> Any:
        """The `riata_slot_map`."""
        return self._map

    def enter(self, hashes: U32) -> U32:
        """Give a line to the slot of each hash that has none. Return hashes whose lines are hash >> shift, in the same order."""
        return self._look_up(np.ascontiguousarray(hashes, np.uint32), self.shift, self.shift)

    def lines_of(self, slots: U32) -> U32:
        """The numbers of the lines of slots; those without a line get one."""
        return self._look_up(np.ascontiguousarray(slots, np.uint32), 0, 0)

    def pick(self, slots: U32, column: int) -> tuple[F64, F64]:
        """Copies of two adjacent columns of the lines of slots."""
        left, right = np.empty(len(slots)), np.empty(len(slots))
        core.pick_columns(self.line, self._width, self.lines_of(slots), len(slots), column, left, right)
        return left, right

    def slots_of(self, lines: U32) -> U32:
        """The slots of lines in use."""
        out = np.empty(len(lines), np.uint32)
        core.slots_of(self._map, np.ascontiguousarray(lines, np.uint32), len(lines), out)
        return out

    def _look_up(self, hashes: U32, shift: int, up: int) -> U32:
        out = np.empty(len(hashes), np.uint32)
        core.enter_slots(self._map, hashes, len(hashes), shift, up, out)
        return out


# Lists of the slots whose lines are not empty, for learners with a table.

_ROOM_MIN: Final = 1024


class SlotList:
    """Slots that a kernel appends as it meets them, sorted when they are read.

    The kernel appends to `slot` and keeps the number of entries in counts[at]. It may list a slot twice. `slot` takes memory as
    it is filled. Once 2^bits entries do not suffice, `make_room` makes another array, which has to be passed to the kernel.
    """

    def __init__(self, counts: I64, at: int, bits: int) -> None:
        self.slot: U32 = _zeros(4 * max(_ROOM_MIN, 2**bits)).view(np.uint32)
        self._counts = counts
        self._at = at
        self._in_order = 0
        self._longest = 0

    def __len__(self) -> int:
        """Number of entries; a slot that was listed twice counts twice."""
        return int(self._counts[self._at])

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        self._longest = max(self._longest, len(self))
        return _touched(4 * self._longest)

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
        if first < len(self):
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
        self._longest = max(self._longest, len(self))
        self._counts[self._at] = self._in_order = count

    def hold(self, slot: U32) -> None:
        """Replace the entries by these slots; u32[m], strictly increasing."""
        self.keep(0)
        self.make_room(len(slot))
        self.slot[: len(slot)] = slot
        self.keep(len(slot))
