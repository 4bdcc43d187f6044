"""The ASGI application: hot routes as plain ASGI, all others through FastAPI, and one middleware (`Instrumented`) around both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

import riata
from riata.base.clock import Clock
from riata.base.errors import RiataError
from riata.run.admin import Admin
from riata.run.service import Service
from riata.web.api.observe import Observe
from riata.web.api.openapi import built
from riata.web.api.predict import Predict
from riata.web.api.problems import Problem, answer_error, internal
from riata.web.api.route import Hot, Parts, add_routes, respond
from riata.web.api.routes import console, docs
from riata.web.api.routes.table import ROUTES
from riata.web.auth.gate import Gate
from riata.web.auth.quotas import Quotas
from riata.web.metrics.collectors import RefitCollector, RememberedCollector
from riata.web.metrics.meters import Meters
from riata.web.server.body import Bodies, ClientGone, IdleMemory, RenewedPool
from riata.web.server.fast_path import BusyPoll, FastPath
from riata.web.server.instrumented import GONE_KEY, HotApp, HotApps, Instrumented, template
from riata.web.server.request import Handle, Handled, HotRoute, Reply, Router
from riata.web.server.request import Request as HotRequest
from riata.web.settings import INLINE_BYTES_MAX, Tools, WebSettings

log = logging.getLogger("riata.web")
OnStartFailed = Callable[[BaseException], None]
CODE_OF_STATUS: Final = {404: "no_such_route", 405: "method_not_allowed"}


def create_app(
    service: Service,
    admin: Admin,
    settings: WebSettings,
    clock: Clock,
    on_start_failed: OnStartFailed | None = None,
    gate: Gate | None = None,
) -> FastAPI:
    """Build the application. Its lifespan starts and stops `service`.

    The service starts in the background, so that the probes answer while a long log is replayed. If it fails,
    `on_start_failed` is called, once. `gate` requires keys and limits rates; without one every request is allowed.
    The application returned has `state.parts`, what the handlers use; `state.meters`, its metrics; `state.bodies`, the
    accounting of bodies; and `state.fast_path`, its fast path, or None if the settings disable it. `state.on_started` may be
    set to what is called once all models are served.
    """
    meters = Meters(service, clock.unix_ms)
    meters.registry.register(RememberedCollector(service))
    meters.registry.register(RefitCollector(service))
    pool, bodies = RenewedPool(settings.parse_threads, "riata-parse"), Bodies(settings.bodies_bytes_max)
    quotas = None if gate is None or gate.file is None else gate.quotas
    watches = [IdleMemory(bodies, pool).watch, *([] if gate is None else [gate.watch])]
    tools = Tools(service, settings, pool, clock)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        starting = asyncio.create_task(service.start())
        starting.add_done_callback(lambda task: _started(task, on_start_failed, app.state.on_started))
        watching = [asyncio.create_task(watch()) for watch in watches]
        try:
            yield
        finally:
            for task in watching:
                task.cancel()
            await asyncio.wait(watching)
            await _settled(starting, service)
            await service.stop()
            pool.shutdown(wait=True, cancel_futures=True)

    app = FastAPI(
        title="Riata",
        version=riata.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    hot = hot_routes(Observe(tools, meters, quotas), Predict(tools), settings, quotas)
    router, apps = Router(hot), {route.key: HotApp(route, settings) for route in hot}
    app.router.routes.extend(
        StarletteRoute(route.template, apps[route.key], methods=[route.method], include_in_schema=False) for route in hot
    )
    parts = Parts(service, admin, settings, meters, built, lambda: None if gate is None else gate.ring, quotas)
    left_out = [*([] if settings.docs else docs.ROUTES), *([] if settings.console else console.ROUTES)]
    add_routes(app, [route for route in ROUTES if route not in left_out], parts)
    app.add_exception_handler(RiataError, _on_riata_error)
    app.add_exception_handler(ClientGone, _on_client_gone)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(Exception, _on_fault)
    acting = gate if gate and gate.acts else None
    app.add_middleware(Instrumented, meters=meters, hot=HotApps(router, apps), service=service, gate=acting, bodies=bodies)
    app.state.parts, app.state.on_started = parts, lambda: None
    app.state.meters = meters
    app.state.bodies = bodies
    awake = BusyPoll(settings.busy_poll_us)
    app.state.fast_path = FastPath(router, meters, service, acting, bodies, awake) if settings.fast_path else None
    return app


def hot_routes(observe: Observe, predict: Predict, settings: WebSettings, quotas: Quotas | None = None) -> list[HotRoute]:
    """Build the routes that bypass FastAPI. `quotas` counts the bytes of their bodies."""
    inline_bytes_max, found = min(INLINE_BYTES_MAX, settings.body_bytes_max), []
    for route in ROUTES:
        at = (route.method, route.path)
        if route.handler is Hot.OBSERVE:
            found.append(
                HotRoute(*at, metered(observe.handle, quotas), observe.check_head, settings.body_bytes_max, route.options)
            )
        elif route.handler is Hot.PREDICT:
            found.append(HotRoute(*at, metered(predict.handle, quotas), predict.check_head, inline_bytes_max, route.options))
    return found


def metered(handle: Handle, quotas: Quotas | None) -> Handle:
    """Return a handler that counts the bytes of bodies first; `handle` itself if there are no keys."""
    if quotas is None:
        return handle

    def counting(request: HotRequest, reply: Reply) -> Handled:
        if request.body:
            quotas.add(request.key, size=len(request.body))
        return handle(request, reply)

    return counting


def allowed_methods(path: str) -> bytes:
    """Return the methods of a path template, for `Allow`. A route knows only its own, and several routes may share a path."""
    found = {route.method for route in ROUTES if route.path == path} or {"GET"}
    hot = any(route.path == path and route.method == "GET" and isinstance(route.handler, Hot) for route in ROUTES)
    return ", ".join(sorted(found | ({"HEAD"} if hot else set()))).encode()


def _started(task: asyncio.Task[None], on_start_failed: OnStartFailed | None, on_started: Callable[[], None]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if error is None:
        on_started()
    else:
        log.critical("the service could not start: %s", error)
        if on_start_failed is not None:
            on_start_failed(error)


async def _settled(starting: asyncio.Task[None], service: Service) -> None:
    """Abort a start that is still running and wait until it has ended, so that a half-started service is never stopped."""
    if not starting.done():
        service.give_up_start()
    await asyncio.wait([starting])


async def _on_riata_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RiataError):
        raise error
    answer = answer_error(error)
    if answer.status == 500:
        log.error("%s: %s", type(error).__name__, error)
    return respond(answer)


async def _on_client_gone(request: Request, _error: Exception) -> Response:
    request.scope[GONE_KEY] = True
    return respond(Problem(400, "incomplete_body", "the connection ended before the body was complete").answer())


async def _on_http_exception(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = CODE_OF_STATUS.get(error.status_code, "http_error")
    if error.status_code == 405:
        allowed = allowed_methods(template(request.scope))
        detail = f"{request.method} is not supported by this route; supported: {allowed.decode()}"
        return respond(Problem(405, code, detail).answer([(b"allow", allowed)]))
    detail = "no such route; /openapi.json lists them" if error.status_code == 404 else str(error.detail)
    return respond(Problem(error.status_code, code, detail).answer())


async def _on_fault(_request: Request, _error: Exception) -> Response:
    return respond(internal().answer())
