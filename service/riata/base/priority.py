"""Operating system priority of a thread or a process."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Final

LOWEST: Final = 19


def lower_priority() -> None:
    """Lower the priority of the calling thread, and of those that it starts, permanently. Linux only; otherwise no effect."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)


def lower_priority_of(pid: int) -> None:
    """Lower the priority of a process permanently. Linux only; otherwise, or if the process has ended, no effect."""
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, pid, LOWEST)
