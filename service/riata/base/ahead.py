"""Memory that is wanted soon, touched by a thread beside this one.

The first touch of a page waits for the system, which has to find and clear it; in a virtual machine whose host takes back what is
free, 2.5 ms for 2 MB. A program that knows which memory it will want, and has something else to do first, need not wait.

The thread writes, as a program would that uses the memory. To ask the system for the pages instead (MADV_POPULATE_WRITE) keeps
every other thread from mapping memory until they are there, and imports map a lot of it: both together then take longer than
one after the other.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
import threading
from typing import Final

LARGE_BYTES: Final = 2 * 2**20  # a large page
_begun: Final[list[tuple[mmap.mmap, int, threading.Thread]]] = []  # an area, its size, and who touches it; one at most


def begin(size: int) -> None:
    """Have `size` bytes in large pages touched from now on, until `take` asks for them. Only Linux is asked for it."""
    if sys.platform != "linux":
        return
    area = zero_area(size)
    with contextlib.suppress(OSError):  # a system that has none
        area.madvise(mmap.MADV_HUGEPAGE)
    thread = threading.Thread(target=_touch, args=(area, size), name="riata-ahead", daemon=True)
    thread.start()
    _begun[:] = [(area, size, thread)]


def take(size: int) -> mmap.mmap | None:
    """The area that was begun if it has `size` bytes, all of them touched and zero; it is nobody else's then."""
    if not _begun or _begun[0][1] != size:
        return None
    area, _, thread = _begun.pop()
    thread.join()
    return area


def forget() -> None:
    """What was begun and not taken is not wanted any more."""
    _begun.clear()


def zero_area(size: int) -> mmap.mmap:
    """Memory of its own for `size` bytes from the first beginning of a large page on."""
    return mmap.mmap(-1, size + LARGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _touch(area: mmap.mmap, size: int) -> None:
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    ctypes.memset(start + -start % LARGE_BYTES, 0, size)  # without the interpreter's lock
