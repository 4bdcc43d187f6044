"""Whether events are accepted now. Requests, readiness and metrics call the same functions, so they always agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from riata.base.errors import Busy, RiataError, Unavailable

if TYPE_CHECKING:
    from riata.run.engine import Engine
    from riata.run.served_model import ServedModel


def store_refusal(engine: Engine) -> RiataError | None:
    """Return why nothing may be logged now, for any model; None if appends are possible."""
    if engine.stopping:
        return Busy("the service is stopping", "stopping", retry_after_s=5)
    if engine.fatal is not None:
        return Unavailable(f"learning has stopped: {engine.fatal}", "writer_stopped")
    if engine.watch is not None and engine.watch.refusal is not None:
        return engine.watch.refusal.error()
    if engine.following is not None and engine.following.follower.strange:
        return Unavailable(engine.following.follower.strange, engine.following.follower.strange_code)
    return None


def refusal(engine: Engine) -> RiataError | None:
    """Return why no model accepts events now; None if events are accepted."""
    refused = store_refusal(engine)
    if refused is not None:
        return refused
    if not engine.started:
        return engine.not_started()
    most = engine.settings.inbox_requests_max
    if engine.context.log_thread.waiting() >= most:
        return Busy(f"{most} requests already wait for the log, the limit set by inbox_requests_max", "queue_full")
    return None


def lag_refusal(engine: Engine, served_model: ServedModel) -> RiataError | None:
    """Return why `served_model` accepts no events because of its lag; None if it accepts. Raises `Busy` before it is served."""
    lag = served_model.logged - (served_model.published or engine.published(served_model.name)).applied
    most = engine.settings.lag_events_max
    if lag > most:
        return Busy(f"{lag} events are logged but not learnt yet; the setting lag_events_max is {most}", "lag", retry_after_s=2)
    return None


def refusal_of_all(engine: Engine) -> RiataError | None:
    """Return why no events are accepted: `refusal`, or that every served model lags behind its log; None if they are."""
    refused = refusal(engine)
    if refused is not None:
        return refused
    served = [served_model for served_model in engine.served_models.values() if served_model.published is not None]
    lags = [lag_refusal(engine, served_model) for served_model in served]
    return lags[0] if lags and all(lags) else None
