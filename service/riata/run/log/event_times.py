"""When events of a log were accepted, and when they happened according to their `ts`, for the points of a learning curve.

Times are for people and no part of a state, so they are read from the log, once for each point, and a replay does not repeat
them. Events that are no longer in the log have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from riata.base.errors import Corrupt
from riata.run.engine import Engine
from riata.store.payload import TIME_VERSION, decode_batch
from riata.store.store import Record, Store
from riata.wire.batch import NO_TIME


class EventTime(NamedTuple):
    """The times of an event, unix ms.

    accepted_ms : when it was accepted; None if it is not in the log
    ts_ms       : the newest time that a row of its request has, up to this event; None if none has one
    """

    accepted_ms: int | None
    ts_ms: int | None


UNKNOWN: Final = EventTime(None, None)


class EventTimes:
    """The times of the events that were asked for. A model keeps those that were asked for last."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, dict[tuple[bytes, int], EventTime]] = {}  # by model, then by lineage and event

    async def of(self, model: str, events: Sequence[int]) -> list[EventTime]:
        """Return the times of each event. Raises as `Engine.published`.

        Each event is read on its own, so that appends wait for one record at most.
        """
        lineage, known = self._engine.published(model).model.origin.lineage, self._known.get(model, {})
        times: dict[tuple[bytes, int], EventTime] = {}
        for seq in events:
            at = (lineage, seq)
            times[at] = known[at] if at in known else await self._read(model, seq)
        self._known[model] = {**known, **times} if len(known) < 4 * len(times) else times
        return [times[lineage, seq] for seq in events]

    async def _read(self, model: str, seq: int) -> EventTime:
        record = await self._engine.call(partial(record_of, model=model, seq=seq))
        if record is None:
            return UNKNOWN
        if record.kind != "observe" or record.payload[0] != TIME_VERSION:  # the common case
            return EventTime(record.accepted_ms, None)
        newest = await asyncio.get_running_loop().run_in_executor(None, newest_time, record, seq)
        return EventTime(record.accepted_ms, newest)


def record_of(store: Store, model: str, seq: int) -> Record | None:
    """Return the record with event `seq`; None if it is not in the log, or damaged."""
    try:
        records = store.read(model, seq - 1, 1)
    except Corrupt:  # trimmed (`LogGap`), or damaged, which scrubbing reports
        return None
    return records[0] if records and records[0].first <= seq <= records[0].last else None


def newest_time(record: Record, seq: int) -> int | None:
    """Return the newest time of the rows of a record up to event `seq`, unix ms; None if none has one."""
    try:
        times = decode_batch(record.payload).time
    except Corrupt:
        return None
    known = [] if times is None else times[: seq - record.first + 1].tolist()
    return max((time for time in known if time != NO_TIME), default=None)
