"""A clock for tests."""

from __future__ import annotations


class ManualClock:
    """A clock that changes only when `now_ms` is set."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def unix_ms(self) -> int:
        return self.now_ms

    def thread_ms(self) -> int:
        return self.now_ms
