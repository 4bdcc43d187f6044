"""Clocks. Time is passed in: the protocol core and the kernels never read a clock."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol

from riata.base.errors import BadInput


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


# Moments as people write them: `2026-03-01T14:00:00+01:00`, `14:00`, `-2h`.

SYNTAX: Final = "a time in RFC 3339 such as 2026-03-01T14:00:00+01:00, a time of day such as 14:00, or a span back such as -2h"
_DAY: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_BACK: Final = re.compile(r"-(\d{1,9})(ms|s|m|min|h|d)")
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


def read_moment(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """Return the moment that `text` means, with its zone.

    now  : the present moment, with a zone
    zone : of a time of day and of a time without one; None: that of the machine
    A time of day is the last one that is not later than `now`. Raises `BadInput` (code `bad_moment`).
    """
    text = text.strip()
    local = now.astimezone(zone)
    try:
        if back := _BACK.fullmatch(text):
            return local - timedelta(**{_UNITS[back[2]]: int(back[1])})
        if day := _DAY.fullmatch(text):
            hour, minute, second = int(day[1]), int(day[2]), int(day[3] or 0)
            found = _in(local.replace(hour=hour, minute=minute, second=second, microsecond=0, tzinfo=None), zone)
            return found if found <= now else _in(found.replace(tzinfo=None) - timedelta(days=1), zone)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        moment = None
    if moment is None or not any(mark in text for mark in "Tt "):  # a date alone does not say when
        raise BadInput(f"{text[:64]!r} is not a moment: expected {SYNTAX}", "bad_moment")
    return moment if moment.tzinfo is not None else _in(moment, zone)


def unix_ms(moment: datetime) -> int:
    """Return a moment as milliseconds since 1970, UTC, rounded down."""
    return int(moment.timestamp() * 1000 // 1)


def said(moment: datetime) -> str:
    """Return a moment in RFC 3339 with its zone, to be said back."""
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


def _in(naive: datetime, zone: tzinfo | None) -> datetime:
    return naive.astimezone() if zone is None else naive.replace(tzinfo=zone)
