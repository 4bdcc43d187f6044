"""The points of a learning curve with their times, as answers show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from riata.base.clock import rfc3339
from riata.run.log.event_times import EventTime
from riata.web.api.schemas import FIGURE, array

CURVE: Final = array(
    {
        "type": "object",
        "properties": {"time": {"type": ["string", "null"]}, "ts": {"type": ["string", "null"]}},
        "additionalProperties": FIGURE,
    },
    description="with since: points of the learning curve; those learnt in another log have the seq of their import. "
    "With times: when the event of the point was accepted, and the newest `ts` of the rows of its request up to it. Both "
    "are read from the log, and null for events that it no longer has",
)


def dated(points: Sequence[Mapping[str, Any]], times: Sequence[EventTime]) -> list[dict[str, Any]]:
    """Return the points with the times of their events; None where unknown."""
    return [
        {**point, "time": _text(time.accepted_ms), "ts": _text(time.ts_ms)} for point, time in zip(points, times, strict=True)
    ]


def _text(time_ms: int | None) -> str | None:
    return None if time_ms is None else rfc3339(time_ms)
