"""Traces of requests: the fast path and the ASGI application with a span for each request. Without traces neither is used."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riata.base.request_trace import RequestTrace, tracing
from riata.web.api.options import is_model_name
from riata.web.server.answers import Answer
from riata.web.server.fast_path import FastPath
from riata.web.server.heads import HeadReader
from riata.web.server.instrumented import METHODS, TRACE, UNMATCHED, known, status_of, template
from riata.web.server.request import Deferred, Reply, Request

if TYPE_CHECKING:
    from riata.web.spans import Spans


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

    def read(self, data: bytes, heads: HeadReader) -> tuple[Request, bytes] | None:  # noqa: ARG002
        """Leave every head to `heads`, which keeps its Traceparent."""
        return None

    def find(self, request: Request) -> bool:
        """As `FastPath`, with what is traced of the request."""
        found = super().find(request)
        if found:
            parent = request.values.get(b"traceparent")
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
