"""The outermost ASGI middleware: counts, times and logs every request (never its payload), and sets the standing headers."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riata.base.errors import RiataError
from riata.run.service import Service
from riata.web.api.problems import answer_error
from riata.web.api.routes.table import DEFAULT_MODEL, TEMPLATES, place
from riata.web.auth.gate import ADMITTED, Gate
from riata.web.auth.keys import KEY
from riata.web.metrics.meters import Meters
from riata.web.server.answers import STANDING_HEADERS, Answer, send_answer
from riata.web.server.body import BODIES, Bodies, ClientGone, header, read_body
from riata.web.server.request import Aside, Deferred, HotRoute, Request, Router
from riata.web.settings import WebSettings

UNMATCHED: Final = "unmatched"
CLIENT_GONE: Final = 499  # the client disconnected; proxies use this number in their logs
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


class HotApps:
    """Dispatch to the hot routes by dict lookup. All other requests, and other methods, are matched by FastAPI's router."""

    def __init__(self, router: Router, apps: dict[tuple[str, str], HotApp]) -> None:
        self._router = router
        self._apps = apps

    def find(self, scope: Scope) -> HotApp | None:
        """Return the application for a request and set its path parameters in the scope; None if the route is not hot."""
        method = scope["method"]
        found = self._router.find(method == "POST", scope["path"]) if method in ("GET", "HEAD", "POST") else None
        if found is None:
            return None
        route, model = found
        app = self._apps[route.key]
        scope["path_params"] = {"model": model}
        scope["endpoint"] = app
        return app


class Instrumented:
    """ASGI middleware around the whole application. `gate`, if there is one, is checked before a request is handled."""

    def __init__(self, app: ASGIApp, meters: Meters, hot: HotApps, service: Service, gate: Gate | None, bodies: Bodies) -> None:
        self.app = app
        self.hot = hot
        self.meters = meters
        self.service = service
        self.gate = gate
        self.bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0
        scope[BODIES] = self.bodies

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                given = {name for name, _ in headers}  # files of the console may be kept by caches
                message["headers"] = headers + [pair for pair in STANDING_HEADERS if pair[0] not in given]
            await send(message)

        try:
            app = self.hot.find(scope) or self.app
            refusal = None if self.gate is None or ADMITTED in scope else self.gate.check(scope, self.service)
            if refusal is None:
                await app(scope, receive, send_marked)
            else:
                await send_answer(send_marked, refusal)
        finally:
            self.bodies.give_back(scope)
            self._note(scope, status_of(scope, status), time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = template(scope) or known(scope["path"])
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.meters.answered(method, route, status, seconds)


def status_of(scope: Scope, sent: int) -> int:
    """Return the status that is recorded of a request; `sent` is that of the answer, 0 if there was none."""
    return CLIENT_GONE if GONE_KEY in scope else sent or 500


def known(path: str) -> str:
    """Return the template of a path that was refused before it was matched; `UNMATCHED` if no route has it."""
    found, _ = place(path)
    return found if found in TEMPLATES else UNMATCHED


# Hot routes as ASGI applications: the same handlers as on the fast path.


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
        replied: asyncio.Future[Answer | Aside] = asyncio.get_running_loop().create_future()

        def reply(answer: Answer | Aside) -> None:
            if not replied.done():  # cancelled when the server stops
                replied.set_result(answer)

        found = self.route.handle(request, reply)
        if isinstance(found, Deferred):
            found = await replied
        return await found.work() if isinstance(found, Aside) else found


def request_of(route: HotRoute, scope: Scope) -> Request:
    """Read a request without its body from a scope. Raises `Malformed` if a header that matters was sent twice."""
    for name in (b"content-type", b"accept", b"idempotency-key"):
        header(scope, name)
    values, started = dict(scope["headers"]), time.perf_counter()
    request = Request(scope["method"], scope["raw_path"], scope["query_string"], b"", values, started, key=scope.get(KEY))
    request.route, request.model = route, scope["path_params"].get("model", DEFAULT_MODEL)
    return request


def template(scope: Scope) -> str:
    """Return the path template that a request matched, empty if it matched none."""
    at = scope.get("route") or scope.get("endpoint")
    return str(getattr(at, "path", ""))
