from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from riata.base.clock import SystemClock, read_moment, rfc3339, said, unix_ms
from riata.base.errors import BadInput
from tests.doubles.manual_clock import ManualClock
from tests.refused import refused


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


# Moments as people write them.


BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)  # 13:00:30 in Berlin


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00+00:00"),
        ("2026-03-01T10:00:00.250+05:30", "2026-03-01T10:00:00.250+05:30"),
        ("2026-03-01 10:00", "2026-03-01T10:00:00+01:00"),
        ("12:30", "2026-03-01T12:30:00+01:00"),
        ("13:00:30", "2026-03-01T13:00:30+01:00"),
        ("13:01", "2026-02-28T13:01:00+01:00"),
        (" 9:05 ", "2026-03-01T09:05:00+01:00"),
        ("-2h", "2026-03-01T11:00:30+01:00"),
        ("-90m", "2026-03-01T11:30:30+01:00"),
        ("-1d", "2026-02-28T13:00:30+01:00"),
        ("-1500ms", "2026-03-01T13:00:28.500+01:00"),
    ],
)
def test_moments_are_read_and_said_back_with_their_zone(text: str, expected: str) -> None:
    assert said(read_moment(text, NOW, BERLIN)) == expected


@pytest.mark.parametrize(
    "text", ["", "now", "24:00", "14:60", "14", "2026-03-01", "+2h", "-2", "-2y", "-99999999999h", "1:2:3:4"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with refused(BadInput, "bad_moment", match="is not a moment: expected a time in RFC 3339"):
        read_moment(text, NOW, BERLIN)


def test_a_time_of_day_keeps_its_clock_over_a_change_of_the_zone() -> None:
    spring = datetime(2026, 3, 29, 8, 0, tzinfo=UTC)  # the clocks of Berlin went from 2:00 to 3:00 that night
    assert said(read_moment("1:30", spring, BERLIN)) == "2026-03-29T01:30:00+01:00"
    assert said(read_moment("9:30", spring, BERLIN)) == "2026-03-29T09:30:00+02:00"
    assert said(read_moment("11:30", spring, BERLIN)) == "2026-03-28T11:30:00+01:00"


def test_the_zone_of_the_machine_is_the_default() -> None:
    assert read_moment("-1h", NOW, None) == datetime(2026, 3, 1, 11, 0, 30, tzinfo=UTC)
    assert read_moment("2026-03-01T10:00", NOW, None).tzinfo is not None
    assert unix_ms(datetime(1970, 1, 1, 0, 0, 1, 999_900, tzinfo=UTC)) == 1999
