"""Clocks. Time is passed in: the protocol core and the kernels never read a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The clock that the outer packages read."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never decreases."""
        ...

    def unix_ms(self) -> int:
        """Milliseconds since 1970, UTC. May jump. Only for answers, records for people and label deadlines."""
        ...

    def thread_ms(self) -> int:
        """CPU time of the calling thread, in milliseconds: the cost of work, without the time spent waiting."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def thread_ms(self) -> int:
        return time.thread_time_ns() // 1_000_000


def rfc3339(unix_ms: int) -> str:
    """Write milliseconds since 1970 as RFC 3339 in UTC, with milliseconds."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
