"""Number of CPU cores available to this process."""

from __future__ import annotations

import os


def cores() -> int:
    """Return how many CPU cores this process may use."""
    of_process = getattr(os, "sched_getaffinity", None)
    return len(of_process(0)) if of_process is not None else os.cpu_count() or 1
