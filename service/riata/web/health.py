"""Routes of probes, version and metrics. None of them accesses the store."""

from __future__ import annotations

import platform
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

import riata
from riata.run.health import Health
from riata.web.answers import Answer, json_answer
from riata.web.gate import ANONYMOUS, visible
from riata.web.meters import PROMETHEUS_TEXT, Meters
from riata.web.problems import Problem
from riata.web.responses import respond
from riata.web.service import ServiceProtocol

API_VERSION: Final = 1
RETRY_HEADER: Final = ((b"retry-after", b"1"),)


def health_routes(service: ServiceProtocol, meters: Meters) -> APIRouter:
    """Build the routes of this module."""
    router = APIRouter(tags=["operations"])

    @router.get("/livez")
    @router.get("/v2/health/live", name="v2_live")
    async def livez() -> Response:
        """Liveness probe. 503 if only a restart can help. Never accesses the store."""
        health = service.health()
        if health.alive and health.fatal is None:
            return respond(json_answer({"alive": True}))
        return respond(not_now("not_alive", health.fatal or "; ".join(health.reasons) or "a thread has ended", health.reasons))

    @router.get("/readyz")
    @router.get("/v2/health/ready", name="v2_ready")
    async def readyz(request: Request) -> Response:
        """Readiness probe: whether events and predictions are accepted, and the state of each model. 503 during log replay.

        Models that the key may not see are left out. If keys are required, a request without one gets no model.
        """
        health = service.health()
        reasons, warnings = told(request, health.reasons), told(request, health.warnings)
        if not health.ready:
            return respond(not_now(health.code, "; ".join(reasons) or "not ready", reasons))
        seen = [(name, at) for name, at in health.models.items() if visible(request.scope, name)]
        models = {name: {**asdict(at), "has_learnt": has_learnt(service, name)} for name, at in seen}
        damaged = {name: what for name, what in health.damaged.items() if visible(request.scope, name)}
        document = {"ready": True, **standing(health), "models": models, "damaged": damaged, "warnings": warnings}
        return respond(json_answer(document))

    @router.get("/startupz")
    async def startupz() -> Response:
        """Startup probe: whether recovery has ended. 503 until then, with the numbers of replayed and of all events."""
        health = service.health()
        done, total = health.replayed
        if health.started:
            return respond(json_answer({"started": True, "replayed": done}))
        detail = "; ".join(health.reasons) or f"{done} of {total} events have been replayed"
        return respond(not_now("not_started", detail, health.reasons))

    @router.get("/version")
    async def version() -> Response:
        """The versions of the release, the API and Python."""
        return respond(json_answer({"version": riata.__version__, "api": API_VERSION, "python": platform.python_version()}))

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        """Metrics in the text format of Prometheus, with the models that the key may see."""
        return respond(Answer(200, meters.text(partial(visible, request.scope)), PROMETHEUS_TEXT))

    return router


def told(request: Request, sentences: list[str]) -> list[str]:
    """Return sentences that may name models. If keys are required, a request without one gets none."""
    return [] if ANONYMOUS in request.scope else sentences


def standing(health: Health) -> dict[str, Any]:
    """Return the role of this process, whether it is the leader, and whether it accepts events now."""
    sharing = health.sharing
    takes = sharing.role in ("all", "web") and sharing.accepting is None
    return {"role": sharing.role, "leads": sharing.leads, "accepting": takes}


def has_learnt(service: ServiceProtocol, model: str) -> bool:
    """Return whether a model has learnt any event."""
    return service.published(model).model.seq > 0


def not_now(code: str, detail: str, reasons: list[str]) -> Answer:
    """Return the 503 of a probe."""
    more: dict[str, Any] = {"reasons": reasons}
    return Problem(503, code, detail, retryable=True, more=more).answer(RETRY_HEADER)
