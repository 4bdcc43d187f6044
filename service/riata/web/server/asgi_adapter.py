"""Hot routes as ASGI applications: the same handlers as on the fast path, for requests that the stock protocol has read."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.types import Receive, Scope, Send

from riata.base.errors import RiataError
from riata.web.api.problems import answer_error
from riata.web.api.routes.table import DEFAULT_MODEL
from riata.web.auth.keys import KEY
from riata.web.server.answers import Answer, send_answer
from riata.web.server.body import ClientGone, header, read_body
from riata.web.server.request import Aside, Deferred, HotRoute, Request
from riata.web.settings import WebSettings

GONE_KEY: Final = "riata.gone"  # set in the scope if the client disconnected before it was answered
TRACE: Final = "riata.trace"  # in the scope: what is traced of the request, if requests are traced


class HotApp:
    """An ASGI application around one hot route. `path` is its template."""

    def __init__(self, route: HotRoute, settings: WebSettings) -> None:
        self.path = route.template
        self.route = route
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive)
        except RiataError as error:
            answer = answer_error(error)
        except ClientGone:
            scope[GONE_KEY] = True
            return
        if TRACE in scope:
            scope[TRACE].rows = answer.rows
        await send_answer(send, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        request = request_of(self.route, scope)
        self.route.check_head(request)
        if self.route.method == "POST":
            request.body = await read_body(scope, receive, self.settings.body_bytes_max, self.settings.body_deadline_s)
        replied: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def reply(answer: Answer) -> None:
            if not replied.done():  # cancelled when the server stops
                replied.set_result(answer)

        found = self.route.handle(request, reply)
        if isinstance(found, Aside):
            return await found.work()
        return await replied if isinstance(found, Deferred) else found


def request_of(route: HotRoute, scope: Scope) -> Request:
    """Read a request without its body from a scope. Raises `Malformed` if a header that matters was sent twice."""
    return Request(
        route,
        scope["path_params"].get("model", DEFAULT_MODEL),
        scope["query_string"],
        time.perf_counter(),
        header(scope, b"content-type"),
        header(scope, b"accept"),
        header(scope, b"idempotency-key"),
        key=scope.get(KEY),
    )


def template(scope: Scope) -> str:
    """Return the path template that a request matched, empty if it matched none."""
    at = scope.get("route") or scope.get("endpoint")
    return str(getattr(at, "path", ""))
