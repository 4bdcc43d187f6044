"""The result of a request to observe, as the web package gets it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from riata.base.errors import BadInput, RiataError, Unavailable
from riata.run.engine_context import later
from riata.store.store import Appended
from riata.wire.given import OtherLabels
from riata.wire.parsed import Parsed, RowError


@dataclass(slots=True)  # not frozen: one is created for each request, and freezing would cost as much as its row
class Observed:
    """Counts of rows, the log position of the last one accepted, and every row error in row order. Not changed after creation."""

    accepted: int
    duplicate: int
    rejected: int
    seq: int
    errors: list[RowError]
    durability: str  # the guarantee of the acknowledgement: "fsync" survives power loss, "memory" guarantees nothing
    applied: bool  # the served model includes these rows
    duplicate_rows: tuple[int, ...] = ()  # their positions in the body


class RowsRefused(BadInput):
    """No row of the request was accepted; `observed` has the counts and the reasons."""

    code = "nothing_accepted"

    def __init__(self, detail: str, code: str, observed: Observed) -> None:
        super().__init__(detail, code)
        self.observed = observed


def refused_whole(error: OtherLabels) -> Observed:
    """Return the counts of a request that was refused whole."""
    errors = [RowError(index, error.code, error.detail) for index in range(error.rows)]
    return Observed(0, 0, error.rows, 0, errors, "", False)


def not_in_time() -> Unavailable:
    """The error for events that the log has not acknowledged in time: it is not known yet whether they will be logged."""
    detail = "the log did not answer in time; send the same event ids again to learn their outcome"
    return Unavailable(detail, "log_timeout", outcome="unknown")


def row_errors(parsed: Parsed, appended: Appended) -> list[RowError]:
    """Return the row errors of the parser and of the log, in row order."""
    if not parsed.errors and not appended.reused.any():
        return []
    reused = [
        RowError(int(parsed.row[i]), "id_reused", "event_id: already used with other content; nothing was changed")
        for i in appended.reused.nonzero()[0]
    ]
    return sorted([*parsed.errors, *reused], key=lambda error: error.index)


# A reply that waits for the log, with a timeout.


Told = Callable[[Observed | RiataError | None], None]


class PendingReply:
    """Calls `told` once, in the event loop: with the first answer from any thread, or after `timeout_s` with a timeout error.

    Created in the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, told: Told, timeout_s: float) -> None:
        self._loop = loop
        self._told: Told | None = told
        self._timer = loop.call_later(timeout_s, self._land, not_in_time())

    def tell(self, answer: Observed | RiataError | None) -> None:
        """Deliver the answer; None if the caller has to use another way. Any thread may call it."""
        later(self._loop, self._land, answer)

    def _land(self, answer: Observed | RiataError | None) -> None:
        told, self._told = self._told, None
        self._timer.cancel()
        if told is not None:
            told(answer)
