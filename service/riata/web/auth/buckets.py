"""Token-bucket rate limits: requests a second for each key, and for all requests together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

BURST_S: Final = 2.0  # an idle caller may send this many seconds' worth at once


@dataclass(slots=True)
class Bucket:
    """One bucket that fills at `per_s` tokens a second, up to BURST_S seconds' worth and at least 1."""

    per_s: float
    tokens: float = -1.0
    at_ms: int = 0

    def take(self, now_ms: int) -> float:
        """Take one token and return 0, or return the seconds until one is available."""
        tokens = self.tokens
        if now_ms != self.at_ms or tokens < 0.0:
            burst = max(1.0, self.per_s * BURST_S)
            tokens = burst if tokens < 0.0 else min(burst, tokens + max(0, now_ms - self.at_ms) * self.per_s / 1000)
            self.at_ms = now_ms
        if tokens < 1.0:
            self.tokens = tokens
            return (1.0 - tokens) / self.per_s
        self.tokens = tokens - 1.0
        return 0.0


@dataclass(slots=True)
class Buckets:
    """A bucket for each key that was used, and one for all requests. Only keys of the file get one, so their number is bounded.

    per_key, together : requests a second; 0 for no limit
    """

    per_key: float
    together: float
    _of: dict[str, Bucket] = field(default_factory=dict)
    _all: Bucket | None = None

    def take(self, key: str | None, per_s: float | None, now_ms: int) -> float:
        """Take a token for a request of `key`, which may have a limit `per_s` of its own. Returns the seconds to wait, or 0."""
        wait_s = 0.0
        bound = self.per_key if per_s is None else per_s
        if key is not None and bound > 0.0:
            bucket = self._of.get(key)
            if bucket is None or bucket.per_s != bound:
                bucket = self._of[key] = Bucket(bound)
            wait_s = bucket.take(now_ms)
        if wait_s == 0.0 and self.together > 0.0:
            self._all = self._all or Bucket(self.together)
            wait_s = self._all.take(now_ms)
        return wait_s

    def forget(self, known: set[str]) -> None:
        """Drop the buckets of keys that are no longer in the file."""
        self._of = {key: bucket for key, bucket in self._of.items() if key in known}
