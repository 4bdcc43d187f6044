"""Process memory: resident size, and returning free heap pages to the system (`malloc_trim`)."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_RESIDENT = 1  # field of /proc/self/statm: resident pages


def resident_bytes() -> int:
    """Resident memory of this process; 0 if the system does not report it."""
    try:
        fields = Path("/proc/self/statm").read_bytes().split()
    except OSError:
        return 0
    return int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")


def trim_heap() -> None:
    """Return the free pages of every malloc arena to the system. Does nothing without glibc.

    Takes about 0.1 s for a GiB. The interpreter's lock is released meanwhile, but a thread that allocates from an arena that is
    being trimmed waits.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
