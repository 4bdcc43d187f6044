"""Operating system priority of a thread."""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

LOWEST: Final = 19


def lower_priority() -> None:
    """Lower the priority of the calling thread, and of those that it starts, permanently. Linux only; otherwise no effect."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)
