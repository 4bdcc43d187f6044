"""Probes and metrics on a port of their own, with a separate listener, thread and event loop.

The probes answer even if all connections of the service are taken or its event loop is busy. No key is required here, and no
model can be changed: the port is for the operators' network. Against DNS rebinding by web pages, a name in the Host header must
be an allowed one. Addresses are always allowed: an orchestrator probes a pod by its address, which is not known beforehand,
and a page that rebinds a name sends that name.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from riata.base.errors import RiataError
from riata.base.hosts import read_hosts
from riata.web.api.problems import Problem, answer_error
from riata.web.api.route import Parts, add_routes, respond
from riata.web.api.routes.health import ROUTES, not_now
from riata.web.server.answers import send_answer
from riata.web.server.bounds import Bounds, ListenerState
from riata.web.server.server import build_server, listen, run

CONNECTIONS_MAX: Final = 64
STOP_S: Final = 2
READY: Final = frozenset({"/readyz", "/v2/health/ready"})


@dataclass(frozen=True, slots=True)
class Stopping:
    """ASGI middleware: once `told` is set the readiness probes report 503."""

    app: ASGIApp
    told: threading.Event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.told.is_set() and scope.get("path") in READY:
            await send_answer(send, not_now("not_ready", "stopping", ["stopping"]))
        else:
            await self.app(scope, receive, send)


def health_app(parts: Parts, told: threading.Event) -> FastAPI:
    """Build the application, with the routes of `riata.web.api.routes.health` only."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    add_routes(app, ROUTES, parts)
    app.add_exception_handler(RiataError, _on_riata_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_middleware(Stopping, told=told)
    return app


@contextmanager
def health_listener(app: ASGIApp, host: str, port: int, allowed_hosts: str, bounds: Bounds) -> Iterator[int]:
    """Serve on `host` and `port` (0 takes a free one) for the duration of the block; yields the port.

    `allowed_hosts` is the setting of that name. `bounds` are those of the main listener; this one takes at most CONNECTIONS_MAX
    connections. Raises `Unavailable` (cannot_listen).
    """
    listener = listen(host, port, "--health-host and --health-port")
    hosts = read_hosts(allowed_hosts, host, any_address=True)
    front = ListenerState(replace(bounds, connections_max=CONNECTIONS_MAX), reserved=0, hosts=hosts)
    server = build_server(app, host, port, STOP_S, front)
    thread = threading.Thread(target=run, args=(server, [listener]), name="riata-health")
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


async def _on_riata_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RiataError):
        raise error
    return respond(answer_error(error))


async def _on_http_exception(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return respond(Problem(error.status_code, "no_such_route", "only probes and metrics are served here").answer())
