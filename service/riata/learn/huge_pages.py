"""The memory of weight tables: small pages while a model is small, huge pages once it is not.

A table is random access into tens of megabytes, which is faster in pages of 2 MiB than of 4 KiB, and numpy requests those from
the system. However, features are spread over the whole table. A table with a hundred features would have a hundred times
2 MiB resident, when 400 KiB are enough. A thousand such models would not fit into any machine. So a table begins with small
pages. It changes to huge pages when so many of its lines are used that a quarter of the small pages would be resident anyway.
A single batch that reaches that many is detected by its hashes before it is learnt: then nothing is cleared twice and copied.
Pages already in use are moved a few with each small batch, since each takes two tenths of a millisecond, and all with a
large one. On systems other than Linux the system decides.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Final

import numpy as np

from riata.base.arrays import F64, U32, aligned

LARGE_BYTES: Final = 2 * 2**20
_MAPPED_BYTES_MIN: Final = 2 * LARGE_BYTES  # from this size on numpy requests huge pages
_USED_SHARE: Final = 4  # when one in this many small pages is used, huge pages are worth their memory
_MOVED_AT_ONCE: Final = 8
_FEATURES_PER_MOVE: Final = 256  # of a batch: one huge page is moved for this many, so that no batch waits for long
COLLAPSE: Final = 25  # MADV_COLLAPSE of Linux 6.1; `mmap` has no constant for it


def zero_table(lines: int, width: int) -> F64:
    """A zeroed table f64[lines, width] aligned to a cache line, so that no line of it crosses two if width is a power of two.
    Untouched pages use no memory."""
    count = lines * width
    if sys.platform == "linux" and 8 * count >= _MAPPED_BYTES_MIN:
        area = mmap.mmap(-1, 8 * count + LARGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        flat, alignment = np.frombuffer(area, np.float64), LARGE_BYTES
    else:
        flat, alignment = np.zeros(count + 64 // 8, np.float64), 64
    return aligned(flat, count, alignment).reshape(lines, width)


class HugePages:
    """The page size policy of one table of `zero_table`."""

    def __init__(self, table: F64) -> None:
        self._table = table
        self._few = table.nbytes // mmap.PAGESIZE // _USED_SHARE
        self._counted = 0  # lines used when hashes were last counted
        self._moved: int | None = table.nbytes  # bytes that are done; None: pages are to be small
        if sys.platform == "linux" and table.nbytes >= _MAPPED_BYTES_MIN:
            self._moved = None if _advise(table, 0, table.nbytes, mmap.MADV_NOHUGEPAGE) else table.nbytes

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do, so that `tend` has no effect."""
        return self._moved == self._table.nbytes

    def tend(self, used: int, coming: U32) -> None:
        """Called before each batch, with the used lines and the hashes of its features; continues the move to huge pages."""
        if self._moved is None and (used > self._few or self._is_flood(used, coming)):
            self._enlarge(self._table.nbytes if used == 0 else 0)
        if self._moved is not None and self._moved < self._table.nbytes:
            self._move(len(coming))

    def expect(self, lines: int) -> None:
        """Prepare for writing this many lines of an empty table."""
        if self._moved is None and lines > self._few:
            self._enlarge(self._table.nbytes)

    def _is_flood(self, used: int, coming: U32) -> bool:
        """Whether these features alone reach enough pages. Counting takes two nanoseconds per feature, so it stops when there are
        enough. A model that stays small is counted again only when twice as many of its lines are used."""
        if len(coming) <= self._few or 0 < used <= 2 * self._counted:
            return False
        self._counted = used
        pages = (self._table.nbytes // mmap.PAGESIZE).bit_length() - 1  # slots are the top bits of hashes, and so are pages
        reached = np.zeros(2**pages, np.bool_)
        for part in range(0, len(coming), 2 * self._few):  # evenly spread features need slightly more than `few` to reach enough
            reached[coming[part : part + 2 * self._few] >> np.uint32(32 - pages)] = True
            if int(np.count_nonzero(reached)) > self._few:
                return True
        return False

    def _enlarge(self, moved: int) -> None:
        """Make pages that are touched for the first time from now on huge."""
        _advise(self._table, 0, self._table.nbytes, mmap.MADV_HUGEPAGE)
        self._moved = moved

    def _move(self, features: int) -> None:
        """Make the next of the pages that were touched before huge. If the system cannot, it does so itself over time. A part
        that is still untouched is refused as well, and will be huge from the start."""
        at = self._moved or 0
        length = min(max(_MOVED_AT_ONCE, features // _FEATURES_PER_MOVE) * LARGE_BYTES, self._table.nbytes - at)
        _advise(self._table, at, length, COLLAPSE)
        self._moved = at + length


def _advise(table: F64, at: int, length: int, advice: int) -> bool:
    """madvise(2), without the interpreter's lock, which `mmap` holds; false if the system refuses."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return int(advise(table.ctypes.data + at, length, advice)) == 0
