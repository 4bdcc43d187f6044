"""The outermost layer: every answer is counted, timed and marked as not to be stored; the log gets one line, no payload."""

from __future__ import annotations

import logging
import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riata.web.hot import GONE_KEY, Lane, template
from riata.web.meters import Meters

log = logging.getLogger("riata.access")
UNMATCHED: Final = "unmatched"
CLIENT_GONE: Final = 499  # nobody was answered; the number is the one proxies use in their logs
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
STANDING_HEADERS: Final = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class Shell:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, meters: Meters, lane: Lane) -> None:
        self.app = app
        self.lane = lane
        self.meters = meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *STANDING_HEADERS]
            await send(message)

        try:
            await (self.lane.find(scope) or self.app)(scope, receive, send_marked)
        finally:
            self._note(scope, CLIENT_GONE if GONE_KEY in scope else status or 500, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = template(scope) or UNMATCHED
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.meters.request(method, route, status, seconds)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("method=%s route=%s status=%d ms=%.3f", method, route, status, seconds * 1000)
