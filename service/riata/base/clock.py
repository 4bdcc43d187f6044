"""Time is passed in. The protocol core and the kernels never ask what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the outer rooms use to tell the time."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""
        ...

    def unix_ms(self) -> int:
        """Milliseconds since 1970, UTC; may jump: for answers, records for people and the waiting for labels alone."""
        ...

    def thread_ms(self) -> int:
        """Milliseconds that this thread has had of a processor: what work costs, however long others kept it waiting."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def thread_ms(self) -> int:
        return time.thread_time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved, for tests."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def unix_ms(self) -> int:
        return self.now_ms

    def thread_ms(self) -> int:
        return self.now_ms


def rfc3339(unix_ms: int) -> str:
    """Write milliseconds since 1970 as RFC 3339 in UTC, with milliseconds."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
