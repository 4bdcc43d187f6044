"""The frame around the routes that must be fast: plain ASGI, no dependency machinery, the one error mapping."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from riata.base.clock import Clock
from riata.base.errors import RiataError
from riata.web.answers import Answer, send_answer
from riata.web.body import ClientGone
from riata.web.problems import answer_error
from riata.web.service import ServiceProtocol
from riata.web.settings import WebSettings

Handler = Callable[[Scope, Receive], Awaitable[Answer]]
GONE_KEY = "riata.gone"  # left in the scope where nobody was there to be answered


@dataclass(frozen=True, slots=True)
class Tools:
    """What hot handlers share. `pool` takes the bodies that would hold up the event loop."""

    service: ServiceProtocol
    settings: WebSettings
    pool: Executor
    clock: Clock


def template(scope: Scope) -> str:
    """Return the path template that a request matched, empty where it matched none."""
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
