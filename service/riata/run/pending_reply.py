"""Somebody who waits for the log, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from riata.base.errors import RiataError
from riata.run.engine_context import later
from riata.run.outcome import Observed, not_in_time

Told = Callable[[Observed | RiataError | None], None]


class PendingReply:
    """Told once, in the event loop: what any thread says first, or after `timeout_s` that there was no answer in time.

    Made in the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, told: Told, timeout_s: float) -> None:
        self._loop = loop
        self._told: Told | None = told
        self._timer = loop.call_later(timeout_s, self._land, not_in_time())

    def tell(self, answer: Observed | RiataError | None) -> None:
        """Say what became of it; None where whoever waits has to find out in another way. From any thread."""
        later(self._loop, self._land, answer)

    def _land(self, answer: Observed | RiataError | None) -> None:
        told, self._told = self._told, None
        self._timer.cancel()
        if told is not None:
            told(answer)
