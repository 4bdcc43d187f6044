"""Which rows of a request were refused by the learner although they are in the log, for replies that wait until they are applied.

A closed vocabulary refuses rows before the log after it is full (`run/state/vocabulary.py`). Rows that arrive while it fills
are logged, and the learner refuses those that it has no room for: each gets a skip event. The process that learns knows them
directly; any other process finds their skip events in the log.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from riata.base.arrays import I64
from riata.run.engine import Engine
from riata.run.outcome import Observed
from riata.run.state.parts import NO_CLASS, NO_ROOM
from riata.store import records
from riata.wire.parsed import RowError

CODES: Final = {NO_ROOM: "vocabulary_full", NO_CLASS: "unknown_class"}
OTHERWISE: Final = "not_finite"
LOOKS_MAX: Final = 20  # the skip events may not be in the log yet when the learnt state is published
LOOK_EVERY_S: Final = 0.05


async def applied(engine: Engine, model: str, observed: Observed, rows: I64, skipped: int) -> Observed:
    """Return the outcome for rows that are applied now: those that the learner refused count as rejected.

    rows    : i64[accepted], positions in the body of the rows that were logged, the last of them as event `observed.seq`
    skipped : events of the model that had been skipped before these were logged
    """
    first = observed.seq - len(rows) + 1
    reasons = await _left_out(engine, model, first, observed.seq, skipped) if len(rows) else {}
    if not reasons:
        return replace(observed, applied=True)
    left_out = [
        RowError(int(rows[seq - first]), CODES.get(reason, OTHERWISE), f"logged as event {seq}, but not learnt: {reason}")
        for seq, reason in reasons.items()
    ]
    return replace(
        observed,
        applied=True,
        accepted=observed.accepted - len(left_out),
        rejected=observed.rejected + len(left_out),
        errors=sorted([*observed.errors, *left_out], key=lambda error: error.index),
    )


async def _left_out(engine: Engine, model: str, first: int, last: int, skipped: int) -> dict[int, str]:
    served_model = engine.served_model(model)
    if engine.leads:
        return {seq: reason for seq, reason in served_model.left_out.items() if first <= seq <= last}
    found: dict[int, str] = {}
    for _ in range(LOOKS_MAX if engine.published(model).skipped > skipped else 0):
        before = len(found)
        for record in await engine.call(lambda s: s.read(model, last)):
            if record.kind == "skip":
                seq, reason = records.decode_skip(record.payload)
                if first <= seq <= last:
                    found[seq] = reason
        if found and len(found) == before:
            break
        await asyncio.sleep(LOOK_EVERY_S)
    return found
