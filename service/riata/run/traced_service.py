"""The service of a process that traces requests: it also notes how long each request waits for the log and for the learner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from riata.base.errors import RiataError
from riata.base.request_trace import APPEND, LEARN, Stage, current_trace, stage, tracing
from riata.run.engine import Engine
from riata.run.outcome import Observed, PendingReply, RowsRefused, Told
from riata.run.service import Service
from riata.store.store import Append, Appended
from riata.wire.parsed import Parsed


class TimedReply:
    """Calls `told` as part of the request that is current now, and notes the time of the append first.

    begun, ended: of the append, in the seconds of `time.perf_counter`; None: not begun, and now.
    """

    def __init__(self, told: Told, begun: float | None) -> None:
        self._told = told
        self._trace = current_trace.get()
        self.begun = begun
        self.ended: float | None = None

    def __call__(self, answer: Observed | RiataError | None) -> None:
        is_append = answer is not None and not isinstance(answer, RowsRefused)
        if self._trace is not None and self.begun is not None and is_append:
            self._trace.stages.append(Stage(APPEND, self.begun, self.ended or time.perf_counter()))
        with tracing(self._trace):
            self._told(answer)


class TimedPendingReply(PendingReply):
    """A pending reply that notes in the store's thread when the append ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timed: TimedReply, timeout_s: float) -> None:
        super().__init__(loop, timed, timeout_s)
        self.timed = timed

    def tell(self, answer: Observed | RiataError | None) -> None:
        self.timed.ended = time.perf_counter()
        super().tell(answer)


class TracedService(Service):
    """`Service`, which notes stages of the current request (`base/request_trace.py`)."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._append = self._timed_append

    def observe_soon(self, model: str, body: bytes, content_type: str, key: str | None, told: Told) -> bool:
        """As `Service`. The append takes from here until the event loop hears of it."""
        return super().observe_soon(model, body, content_type, key, TimedReply(told, time.perf_counter()))

    def awaited(self, told: Told) -> PendingReply:
        """As `Service`."""
        timeout_s = self._engine.settings.observe_timeout_ms / 1000
        return TimedPendingReply(asyncio.get_running_loop(), TimedReply(told, None), timeout_s)

    def observe_read(self, model: str, read: Callable[[], Parsed], awaited: PendingReply) -> None:
        """As `Service`. The append takes from the end of parsing until the rows are durable."""

        def read_first() -> Parsed:
            parsed = read()
            if isinstance(awaited, TimedPendingReply):
                awaited.timed.begun = time.perf_counter()
            return parsed

        super().observe_read(model, read_first, awaited)

    async def remember(self, model: str, rows: list[bytes]) -> list[str]:
        """As `Service`."""
        with stage(APPEND):
            return await super().remember(model, rows)

    async def _timed_append(self, append: Append) -> Appended:
        with stage(APPEND):
            return await self._engine.append(append)

    async def _served(self, model: str, seq: int) -> bool:
        with stage(LEARN):
            return await super()._served(model, seq)
