"""Traces of requests: the fast path and the ASGI application with a span for each request, and the service, which also notes how
long each waits for the log and for the learner. Without traces none is used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riata.base.errors import RiataError
from riata.base.request_trace import APPEND, LEARN, RequestTrace, Stage, current_trace, stage, tracing
from riata.run.engine import Engine
from riata.run.outcome import Observed, PendingReply, RowsRefused, Told
from riata.run.service import Service
from riata.store.store import Append, Appended
from riata.web.api.options import is_model_name
from riata.web.server.answers import Answer
from riata.web.server.fast_path import FastPath
from riata.web.server.instrumented import METHODS, TRACE, UNMATCHED, known, status_of, template
from riata.web.server.request import Deferred, Reply, Request, headers_of
from riata.wire.parsed import Parsed

if TYPE_CHECKING:
    from riata.web.spans import Spans


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


def trace_requests(app: FastAPI, spans: Spans) -> None:
    """Have an application of `create_app` trace its requests. Called before it serves any."""
    app.add_middleware(TracedRequests, spans=spans)
    if app.state.fast_path is not None:
        app.state.fast_path = TracedFastPath(app.state.fast_path, spans)


class TracedFastPath(FastPath):
    """The fast path of `fast`, with a span for each request that it answers."""

    def __init__(self, fast: FastPath, spans: Spans) -> None:
        super().__init__(fast.router, fast.meters, fast.service, fast.gate, fast.bodies, fast.awake)
        self.spans = spans

    def find(self, request: Request) -> bool:
        """As `FastPath`, with what is traced of the request."""
        found = super().find(request)
        if found:
            parent = dict(headers_of(request.lines)).get(b"traceparent")
            request.trace = RequestTrace(request.started, None if parent is None else parent.decode("latin-1"), request.model)
        return found

    def handle(self, request: Request, reply: Reply) -> Answer | Deferred:
        """As `FastPath`."""
        with tracing(request.trace):
            return super().handle(request, reply)

    def note(self, request: Request, answer: Answer) -> None:
        """As `FastPath`, and add the span."""
        super().note(request, answer)
        if request.trace is not None:
            request.trace.rows = answer.rows
            self.spans.add(request.trace, request.route.method, request.route.template, answer.status)


class TracedRequests:
    """ASGI middleware around all others: a span for each request that is not answered on the fast path."""

    def __init__(self, app: ASGIApp, spans: Spans) -> None:
        self.app = app
        self.spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        parent = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"), None)
        trace = scope[TRACE] = RequestTrace(time.perf_counter(), parent)
        status = 0

        async def send_seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with tracing(trace):
                await self.app(scope, receive, send_seen)
        finally:
            model = scope.get("path_params", {}).get("model", "")
            trace.model = model if is_model_name(model) else None  # not any text that a client sends
            route = template(scope) or known(scope["path"])
            method = scope["method"] if scope["method"] in METHODS else "other"
            self.spans.add(trace, method, "" if route == UNMATCHED else route, status_of(scope, status))
