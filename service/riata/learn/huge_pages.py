"""The memory of weight tables: small pages while a model is small, large ones once it is not.

A table is random access into tens of megabytes, which is faster in pages of 2 MiB than of 4 KiB, and numpy asks the system for
those. But features fall all over a table: one with a hundred of them would have a hundred times 2 MiB, wholly in memory, where
400 KiB do. A thousand such models would not fit into any machine. So a table begins with small pages, and when so many of its
lines are used that a quarter of the small pages would be anyway, it goes over to large ones. A batch that alone reaches so many
is known by its hashes, before it is learnt: then nothing is cleared twice and copied. Pages in use before are moved a few with
each small batch, since each takes two tenths of a millisecond, and all with a large one. Elsewhere than on Linux the system
decides.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Final

import numpy as np

from riata.base.arrays import F64, U32, aligned

LARGE_BYTES: Final = 2 * 2**20
_MAPPED_BYTES_MIN: Final = 2 * LARGE_BYTES  # from here on numpy asks for large pages
_USED_SHARE: Final = 4  # of the small pages: one in so many, and large ones begin to pay
_MOVED_AT_ONCE: Final = 8
_FEATURES_PER_MOVE: Final = 256  # of a batch: one large page for so many, so that a batch of rows is not held up for long
COLLAPSE: Final = 25  # MADV_COLLAPSE of Linux 6.1, which `mmap` has no name for


def zero_table(lines: int, width: int) -> F64:
    """A zeroed table f64[lines, width] that starts on a cache line, so that no line of it lies across two where width is a
    power of two. Untouched pages cost nothing."""
    count = lines * width
    if sys.platform == "linux" and 8 * count >= _MAPPED_BYTES_MIN:
        area = mmap.mmap(-1, 8 * count + LARGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        flat, alignment = np.frombuffer(area, np.float64), LARGE_BYTES
    else:
        flat, alignment = np.zeros(count + 64 // 8, np.float64), 64
    return aligned(flat, count, alignment).reshape(lines, width)


class HugePages:
    """What the pages of one table of `zero_table` are to be."""

    def __init__(self, table: F64) -> None:
        self._table = table
        self._few = table.nbytes // mmap.PAGESIZE // _USED_SHARE
        self._counted = 0  # lines used when hashes were last counted
        self._moved: int | None = table.nbytes  # bytes that need no more care; None: pages are to be small
        if sys.platform == "linux" and table.nbytes >= _MAPPED_BYTES_MIN:
            self._moved = None if _advise(table, 0, table.nbytes, mmap.MADV_NOHUGEPAGE) else table.nbytes

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do: then `tend` does nothing."""
        return self._moved == self._table.nbytes

    def tend(self, used: int, coming: U32) -> None:
        """Called before each batch, with the hashes of its features, when `used` lines are used; goes on with what was begun."""
        if self._moved is None and (used > self._few or self._is_flood(used, coming)):
            self._enlarge(self._table.nbytes if used == 0 else 0)
        if self._moved is not None and self._moved < self._table.nbytes:
            self._move(len(coming))

    def expect(self, lines: int) -> None:
        """So many lines of a table that is empty are about to be written."""
        if self._moved is None and lines > self._few:
            self._enlarge(self._table.nbytes)

    def _is_flood(self, used: int, coming: U32) -> bool:
        """Whether these features alone reach so many pages. Counting takes two nanoseconds a feature, so it ends when there are
        enough, and a model that stays small is counted again only when twice as many of its lines are used."""
        if len(coming) <= self._few or 0 < used <= 2 * self._counted:
            return False
        self._counted = used
        pages = (self._table.nbytes // mmap.PAGESIZE).bit_length() - 1  # slots are the leading bits of hashes: so are pages
        reached = np.zeros(2**pages, np.bool_)
        for part in range(0, len(coming), 2 * self._few):  # even features need somewhat more than `few` to reach so many
            reached[coming[part : part + 2 * self._few] >> np.uint32(32 - pages)] = True
            if int(np.count_nonzero(reached)) > self._few:
                return True
        return False

    def _enlarge(self, moved: int) -> None:
        """Pages that are touched for the first time from now on are large."""
        _advise(self._table, 0, self._table.nbytes, mmap.MADV_HUGEPAGE)
        self._moved = moved

    def _move(self, features: int) -> None:
        """Make large the next of the pages that were touched before. Where the system cannot, it does so by itself in time;
        a part that nothing has touched yet is refused as well, and will begin large."""
        at = self._moved or 0
        length = min(max(_MOVED_AT_ONCE, features // _FEATURES_PER_MOVE) * LARGE_BYTES, self._table.nbytes - at)
        _advise(self._table, at, length, COLLAPSE)
        self._moved = at + length


def _advise(table: F64, at: int, length: int, advice: int) -> bool:
    """madvise(2), without the interpreter's lock, which `mmap` keeps; false where the system refuses."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return int(advise(table.ctypes.data + at, length, advice)) == 0
