"""When the event of a row happened: the key `ts` of an example in JSON, an RFC 3339 time, kept to the millisecond."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_TIME: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)


def unix_ms(text: str) -> int | None:
    """Return the unix time of an RFC 3339 time, ms, rounded down; None for another text, or a day, hour or offset that does not
    exist. A leap second is the last second before it. The native reader has its own (`unix_ms` of `service/native/json.c`)."""
    if (found := _TIME.fullmatch(text)) is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction, sign, hours, minutes = found.groups()[6:]
    if sign is not None and (int(hours) > 23 or int(minutes) > 59):
        return None
    try:
        at = datetime(year, month, day, hour, minute, 59 if second == 60 else second, tzinfo=UTC)
    except ValueError:
        return None
    offset = timedelta() if sign is None else timedelta(hours=int(hours), minutes=int(minutes)) * int(f"{sign}1")
    return (at - _EPOCH - offset) // _MS + int((fraction or "")[:3].ljust(3, "0"))
