"""When the event of a row happened: the key `ts` of an example in JSON, an RFC 3339 time, kept to the millisecond.

The compiled reader checks the form of the text and notes that the row has one. The time is then read from the bytes of the
row, if it was accepted (`wire.row_times`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from riata.wire.batch import NO_TIME

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_LEAP: Final = ":60"


class _Timed(msgspec.Struct):
    """The only key of a row that is decoded; msgspec passes over the others."""

    ts: str | None = None


_TIMED: Final = msgspec.json.Decoder(_Timed)


def time_in(line: memoryview) -> int | None:
    """Return the time of an accepted row, unix ms, or NO_TIME; None if its `ts` names a day or an hour that does not exist."""
    said = _TIMED.decode(line).ts
    return NO_TIME if said is None else unix_ms(said)


def unix_ms(text: str) -> int | None:
    """Return the unix time of an RFC 3339 time, ms, rounded down; None if its day or hour does not exist. A leap second is the
    last one before it."""
    text = text.upper()
    if text[16:19] == _LEAP:
        text = f"{text[:16]}:59{text[19:]}"
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // _MS
    except (ValueError, OverflowError):
        return None
