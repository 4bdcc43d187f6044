"""When events were accepted, by the log: the wall time of the points of a learning curve.

The time of a record is for people and no part of a state, so it is read from the log, once for each point. Events that are no
longer in the log have no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from riata.base.errors import Corrupt
from riata.run.engine import Engine
from riata.store.store import Store


class EventTimes:
    """The times of the events that were asked for. A model keeps those that were asked for last."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, dict[tuple[bytes, int], int | None]] = {}  # by model, then by lineage and event

    async def of(self, model: str, events: Sequence[int]) -> list[int | None]:
        """Return when each event was accepted, unix ms; None if it is not in the log. Raises as `Engine.published`.

        Each event is read on its own, so that appends wait for one record at most.
        """
        lineage, known = self._engine.published(model).model.origin.lineage, self._known.get(model, {})
        times: dict[tuple[bytes, int], int | None] = {}
        for seq in events:
            at = (lineage, seq)
            times[at] = known[at] if at in known else await self._engine.call(partial(time_of, model=model, seq=seq))
        self._known[model] = {**known, **times} if len(known) < 4 * len(times) else times
        return [times[lineage, seq] for seq in events]


def time_of(store: Store, model: str, seq: int) -> int | None:
    """Return when event `seq` was accepted, unix ms; None if it is not in the log, or its record is damaged."""
    try:
        records = store.read(model, seq - 1, 1)
    except Corrupt:  # trimmed (`LogGap`), or damaged, which scrubbing reports
        return None
    return records[0].accepted_ms if records and records[0].first <= seq <= records[0].last else None
