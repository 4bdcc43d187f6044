"""Memory of the C library's allocator: how much the process has, and how to return what is free to the system."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_RESIDENT = 1  # field of /proc/self/statm: resident pages


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not say."""
    try:
        fields = Path("/proc/self/statm").read_bytes().split()
    except OSError:
        return 0
    return int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")


def trim_heap() -> None:
    """Return the free pages of every arena to the system; elsewhere than on glibc nothing happens.

    Takes about 0.1 s for a GiB. The interpreter's lock is released meanwhile, but who allocates from an arena that is being
    trimmed waits for it.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
