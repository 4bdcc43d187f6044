"""Reads the times of the accepted rows of a body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from riata.wire.batch import NO_TIME
from riata.wire.codes import BAD_TS
from riata.wire.parsed import Reading, accepted
from riata.wire.rows import ROW_START, ROW_STOP, TIME_AT


def read_times(reading: Reading, left: Sequence[int], time_of: Callable[[memoryview], int | None]) -> None:
    """Read the times of the accepted rows that have one. A row whose time does not exist is refused.

    left    : the rows that were left to the reference reader, which does not say whether they have one
    time_of : as `Functions.time`
    """
    place = reading.sink.place[: reading.rows]
    timed = place[:, TIME_AT] > place[:, ROW_START]
    if left:
        timed[left] = True
    if not timed.any():
        return
    rows, text = accepted(reading), memoryview(cast(Any, reading.data))
    rows = rows[timed[rows]]
    starts, stops = (place[rows, at].tolist() for at in (ROW_START, ROW_STOP))
    for number, start, stop in zip(rows.tolist(), starts, stops, strict=True):
        time = time_of(text[start:stop])
        if time is None:
            reading.sink.code[number], reading.fields[number] = BAD_TS, "ts"
        elif time != NO_TIME:
            reading.times[number] = time
