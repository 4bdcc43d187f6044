"""Routes of probes, version and metrics. None of them accesses the store."""

from __future__ import annotations

import asyncio
import platform
from dataclasses import fields
from functools import partial
from typing import Any, Final, Literal

import riata
from riata.base.errors import RiataError
from riata.run.health import Health, ModelHealth
from riata.run.service import Service
from riata.run.writer.published import Published
from riata.web.api.problems import Problem
from riata.web.api.route import Call, Route
from riata.web.api.schemas import TEXT, Count, Document, Object, answer
from riata.web.auth.keys import ADMIN, ANONYMOUS, ANY, OPEN, WATCH, sees_key, visible
from riata.web.metrics.meters import PROMETHEUS_TEXT
from riata.web.server.answers import Answer

API_VERSION: Final = 1
RETRY_HEADER: Final = ((b"retry-after", b"1"),)


class Behind(Document):
    """A model that has not learnt everything from before the start."""

    model: str
    applied: Count
    of: Count


class Alive(Document):
    """The process is alive."""

    alive: bool


class Ready(Document):
    """The process is ready.

    leads     : whether this process learns
    accepting : whether this process accepts events now; if not, `warnings` gives the reason
    damaged   : models that answer 503 model_damaged: what is damaged, and the command that repairs it
    replaying : models that have not learnt yet what was logged before the start: the last event learnt, and the last of these
    """

    ready: bool
    role: Literal["all", "web", "writer", "replica"]
    leads: bool
    accepting: bool
    models: Object
    replaying: list[Behind]
    damaged: dict[str, str]
    warnings: list[str]


class Started(Document):
    """Every model was looked at."""

    started: bool
    replayed: Count


class Version(Document):
    """The versions of what answers."""

    version: str
    api: Count
    python: str
    dedupe_events: Count


_OF_MODEL: Final = [each.name for each in fields(ModelHealth)]  # `asdict` copies each: 20 ms for a thousand models


async def livez(call: Call) -> Answer:
    """Liveness probe. 503 if only a restart can help. Never accesses the store."""
    health = call.parts.service.health()
    if health.alive and health.fatal is None:
        return call.answer({"alive": True})
    return not_now("not_alive", health.fatal or "; ".join(health.reasons) or "a thread has ended", health.reasons)


async def readyz(call: Call) -> Answer:
    """Readiness probe: whether events and predictions are accepted, and the state of each model. 503 until a model is served.

    Models that the key may not see are left out. If keys are required, a request without one gets no model.
    """
    service, scope = call.parts.service, call.request.scope
    health = service.health()
    reasons, warnings = told(call, health.reasons), told(call, health.warnings)
    if not health.ready:
        return not_now(health.code, "; ".join(reasons) or "not ready", reasons)
    seen = [(name, at) for name, at in health.models.items() if visible(scope, name)]
    models = {
        name: {**{each: getattr(at, each) for each in _OF_MODEL}, "has_learnt": has_learnt(service, name)} for name, at in seen
    }
    damaged = {name: what for name, what in health.damaged.items() if visible(scope, name)}
    found = {"models": models, "replaying": replaying(call, health), "damaged": damaged, "warnings": warnings}
    return call.answer({"ready": True, **standing(health), **found})


async def startupz(call: Call) -> Answer:
    """Startup probe: whether every model was looked at. 503 until then. `replayed`: events of the logs that were learnt since."""
    health = call.parts.service.health()
    done, total = health.replayed
    if health.started:
        return call.answer({"started": True, "replayed": done})
    detail = "; ".join(health.reasons) or f"{done} of {total} events have been replayed"
    return not_now("not_started", detail, health.reasons)


async def version(call: Call) -> Answer:
    """The versions of the release, the API and Python, and over how many events of a model event ids are known."""
    dedupe_events = call.parts.settings.dedupe_events
    return call.answer(Version(riata.__version__, API_VERSION, platform.python_version(), dedupe_events))


async def served(call: Call, health: Health) -> dict[str, Published]:
    """Return what is served of each model that the key may see. Another thread computes the figures that nobody has asked for
    yet: of many models that takes long."""
    found: dict[str, Published] = {}
    for name in health.models:
        if visible(call.request.scope, name):
            try:
                found[name] = call.parts.service.served(name)
            except RiataError:  # just dropped, or nothing is served yet
                continue
    await asyncio.to_thread(lambda: [one.figures for one in found.values()])
    return found


async def metrics(call: Call) -> Answer:
    """Metrics in the text format of Prometheus, with the models and keys that the key may see."""
    scope = call.request.scope
    await served(call, call.parts.service.health())
    return Answer(200, call.parts.meters.text(partial(visible, scope), partial(sees_key, scope)), PROMETHEUS_TEXT)


def told(call: Call, sentences: list[str]) -> list[str]:
    """Return sentences that may name models. If keys are required, a request without one gets none."""
    return [] if ANONYMOUS in call.request.scope else sentences


def replaying(call: Call, health: Health) -> list[Behind]:
    """Return the models that have not learnt everything from before the start, without those that the key may not see."""
    seen = [(name, at) for name, at in health.replaying.items() if visible(call.request.scope, name)]
    return [Behind(name, applied, of) for name, (applied, of) in seen]


def standing(health: Health) -> dict[str, Any]:
    """Return the role of this process, whether it is the leader, and whether it accepts events now."""
    sharing = health.sharing
    takes = sharing.role in ("all", "web") and sharing.accepting is None
    return {"role": sharing.role, "leads": sharing.leads, "accepting": takes}


def has_learnt(service: Service, model: str) -> bool:
    """Return whether a model has learnt any event."""
    return service.published(model).model.seq > 0


def not_now(code: str, detail: str, reasons: list[str]) -> Answer:
    """Return the 503 of a probe."""
    more: dict[str, Any] = {"reasons": reasons}
    return Problem(503, code, detail, retryable=True, more=more).answer(RETRY_HEADER)


TAG: Final = "operations"
_TEXT: Final = {200: {"text/plain": {"schema": TEXT}}}
_METRICS: Final = "Metrics for Prometheus, of the models that the key may see."
ROUTES: Final = (
    Route("GET", "/livez", OPEN, livez, "Whether the process is alive.", answer(Alive), (503,)),
    Route("GET", "/readyz", OPEN, readyz, "Whether events and predictions are accepted.", answer(Ready), (503,)),
    Route("GET", "/startupz", OPEN, startupz, "Whether recovery has ended.", answer(Started), (503,)),
    Route("GET", "/v2/health/live", OPEN, livez, "Same as /livez.", answer(Alive), (503,)),
    Route("GET", "/v2/health/ready", OPEN, readyz, "Same as /readyz.", answer(Ready), (503,)),
    Route("GET", "/version", ANY, version, "The version of the release.", answer(Version)),
    Route("GET", "/metrics", (ADMIN, WATCH), metrics, _METRICS, _TEXT),
)
