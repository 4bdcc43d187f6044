"""Operating system priority of a thread or a process."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Final

LOWEST: Final = 19
BESIDE: Final = 5  # of threads that work in the background beside others: the system runs a thread of the lowest priority so
# seldom that the interpreter's lock, if it holds it, is held for a tenth of a second or more


def lower_priority(niceness: int = LOWEST) -> None:
    """Lower the priority of the calling thread, and of the threads and processes that it starts, permanently.

    niceness : as of nice(1). No effect if it is below that of the thread, or not on Linux
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))


def lower_priority_of(pid: int, niceness: int = LOWEST) -> None:
    """Lower the priority of a process, or of a thread by its native id, permanently.

    Linux only; otherwise, if the process has ended, or if its priority is lower already, no effect."""
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, pid, max(niceness, os.getpriority(os.PRIO_PROCESS, pid)))
