"""The hot routes: plain ASGI applications without FastAPI's dependency injection, with the common error mapping."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from riata.base.clock import Clock
from riata.base.errors import RiataError
from riata.web.answers import Answer, send_answer
from riata.web.body import ClientGone
from riata.web.problems import answer_error
from riata.web.routes.table import MODELS
from riata.web.service import ServiceProtocol
from riata.web.settings import WebSettings

Handler = Callable[[Scope, Receive], Awaitable[Answer]]
GONE_KEY: Final = "riata.gone"  # set in the scope if the client disconnected before it was answered


@dataclass(frozen=True, slots=True)
class Tools:
    """What hot handlers share. Bodies that would block the event loop are parsed in `pool`."""

    service: ServiceProtocol
    settings: WebSettings
    pool: Executor
    clock: Clock


def template(scope: Scope) -> str:
    """Return the path template that a request matched, empty if it matched none."""
    at = scope.get("route") or scope.get("endpoint")
    return str(getattr(at, "path", ""))


class HotRoute:
    """An ASGI application around one handler."""

    def __init__(self, path: str, handler: Handler) -> None:
        self.path = path
        self.handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self.handler(scope, receive)
        except RiataError as error:
            answer = answer_error(error)
        except ClientGone:
            scope[GONE_KEY] = True
            return
        await send_answer(send, answer)


class Lane:
    """Dispatch to the hot routes by dict lookup, instead of matching every route in turn.

    Requests that it does not find (other methods, other paths) go through the router, where the same routes are mounted too.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        pairs = [(route, method) for route in routes for method in route.methods or ()]
        self._short = {(route.path, method): route.app for route, method in pairs if not route.path.startswith(MODELS)}
        self._long = {
            (route.path.removeprefix(f"{MODELS}{{model}}/"), method): route.app
            for route, method in pairs
            if route.path.startswith(MODELS)
        }

    def find(self, scope: Scope) -> ASGIApp | None:
        """Return the application for a request and set its path parameters in the scope; None if the route is not hot."""
        path: str = scope["path"]
        if path.startswith(MODELS):
            model, _, verb = path.removeprefix(MODELS).partition("/")
            app = self._long.get((verb, scope["method"])) if model else None
            scope["path_params"] = {"model": model}
        else:
            app = self._short.get((path, scope["method"]))
            scope["path_params"] = {}
        if app is not None:
            scope["endpoint"] = app
        return app
