"""A reply that waits for the log, with a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from riata.base.errors import RiataError
from riata.run.engine_context import later
from riata.run.outcome import Observed, not_in_time

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
