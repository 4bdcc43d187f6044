from __future__ import annotations

from riata.base.clock import SystemClock, rfc3339
from tests.doubles.manual_clock import ManualClock


def test_a_manual_clock_moves_only_when_moved() -> None:
    clock = ManualClock(5)
    assert (clock.monotonic_ms(), clock.unix_ms()) == (5, 5)
    clock.now_ms += 7
    assert clock.monotonic_ms() == 12


def test_the_system_clock_does_not_go_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(1000)]
    assert readings == sorted(readings)
    assert clock.unix_ms() > 1_600_000_000_000  # some moment after 2020: the unit is milliseconds


def test_a_time_is_written_in_utc_with_milliseconds() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_795_000_000_123) == "2026-11-18T11:06:40.123Z"
