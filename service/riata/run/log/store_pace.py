"""The pace of a thread that reads the log and writes files while events are acknowledged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from riata.base.errors import Unavailable

GIVE_WAY_S: Final = 0.01
GIVE_WAY_MOST: Final = 100  # pauses at most: a store that is never idle is read nevertheless


class StorePace:
    """Called after so many bytes were read or written: waits until the store's thread has no other work, and then as long as
    the rate asks.

    directory     : that is written to
    reserve_bytes : of free space that is left for checkpoints
    waiting       : how many requests and calls wait for the store's thread
    rest          : waits for so many seconds; may raise to give up
    """

    def __init__(
        self, directory: Path, reserve_bytes: int, bytes_per_s: int, waiting: Callable[[], int], rest: Callable[[float], None]
    ) -> None:
        self._directory, self._reserve_bytes, self._bytes_per_s = directory, reserve_bytes, bytes_per_s
        self._waiting, self._rest = waiting, rest

    def __call__(self, size: int) -> None:
        """Wait. Raises `Unavailable` (code `disk_reserve`) if only the space for checkpoints is left."""
        free = os.statvfs(self._directory)
        if free.f_bavail * free.f_frsize < self._reserve_bytes:
            raise Unavailable(f"{self._directory}: the free space is reserved for snapshots", "disk_reserve")
        for _ in range(GIVE_WAY_MOST):
            if not self._waiting():
                break
            self._rest(GIVE_WAY_S)
        self._rest(size / self._bytes_per_s)
