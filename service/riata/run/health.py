"""Liveness, startup and readiness of the service, with reasons, as reported to probes and metrics.

Nothing here accesses the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from riata.base.errors import RiataError
from riata.run.engine import Engine
from riata.run.engine_shared import READING, SharedEngine
from riata.run.served_model import ServedModel
from riata.run.state.damage import log_sentence
from riata.run.writer.writer import TurnOf

LONG_S = 5.0  # a step that lasts longer is told of


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """The positions and freshness of one model."""

    seq_logged: int
    seq_applied: int
    version: int
    age_s: float  # since what is served was published
    non_zeros: int
    stale_s: float = 0.0  # since what is served was last known to be the newest; 0.0 if this process learns
    lost: int = 0  # acknowledged events that the store was found to have lost
    accepting: bool = True  # false if its events are refused: it lags too far behind its log, or there is no memory
    busy_s: float = 0.0  # for how long the learner has been busy with one step of it; 0.0 if no step is under way
    waiting_s: float = 0.0  # for how long its events have waited to be learnt, the step under way included


@dataclass(frozen=True, slots=True)
class Sharing:
    """The state of a process among those that share its store. With an embedded store it leads, and there are no others.

    leads          : it owns the store and learns
    holder         : which process owns the store, as far as known; empty for none
    epoch          : of its own lease, 0 for none
    renewed_s      : since its lease was last renewed; None for none
    accepting      : why no events are accepted, as (code, sentence); None: they are
    counts         : number of occurrences since the start, by name
    processes      : name, role, age_s of the note, leads, code of a refusal, and lag in events by model
    recovery_s     : how long a start would take to reach the present state, with what is saved now; None if unknown
    """

    role: str = "all"
    leads: bool = True
    holder: str = ""
    epoch: int = 0
    renewed_s: float | None = None
    accepting: tuple[str, str] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)  # how often the store began to refuse events, by code
    recovery_s: float | None = None
    processes: list[dict[str, Any]] = field(default_factory=list)  # all that share the store, as each last said of itself


@dataclass(frozen=True)
class Health:
    """The service at one moment.

    alive: threads run and no fatal error happened; started: every log was replayed, or the store has answered once; ready:
    predictions are answered and events are accepted, unless `sharing.accepting` gives a reason.
    """

    alive: bool
    started: bool
    ready: bool
    reasons: list[str]
    fatal: str | None
    warnings: list[str]
    look_at_models: Callable[[], dict[str, ModelHealth]]  # see `models`
    code: str = "not_ready"  # why it is not ready, as a stable slug
    lost: dict[str, int] = field(default_factory=dict)  # as in `ModelHealth`, also of models that are not served
    checkpoints: dict[str, int] = field(default_factory=dict)  # ok, failed, last_ms, and generations found corrupt
    replayed: tuple[int, int] = (0, 0)  # events replayed at start so far, of how many
    sharing: Sharing = field(default_factory=Sharing)
    damaged: dict[str, str] = field(default_factory=dict)  # models that are not served, with a description of the damage
    log_damaged: dict[str, int] = field(default_factory=dict)  # served models, with the first damaged event of their old log
    log_scrubbed_bytes: int = 0  # payloads of the log that were verified against their digests since the start
    replaying: dict[str, tuple[int, int]] = field(default_factory=dict)  # models that are behind: event, of last event
    memory: tuple[int, int] = (0, 0)  # bytes of all models, and the most they may take, 0 for no bound

    @cached_property
    def models(self) -> dict[str, ModelHealth]:
        """The served models, looked at when they are first asked for: most probes do not ask, and there may be a thousand."""
        return self.look_at_models()


def stale_for_s(engine: Engine, served_model: ServedModel) -> float:
    """For how long it is not known whether what is served is the newest, seconds.

    0.0 in the process that learns; with a shared store only while its lease is renewed in time.
    """
    if engine.leads:
        return engine.unrenewed_s()
    now_ms = engine.clock.monotonic_ms()
    if served_model.confirmed_ms is not None:
        known_ms = served_model.confirmed_ms
    else:  # loaded from a copy, or fetched a moment ago
        known_ms = served_model.published.published_mono_ms if served_model.published is not None else now_ms
    return max(0, now_ms - known_ms) / 1000


def refusal_of_all(engine: Engine) -> RiataError | None:
    """Return why no events are accepted: for any model, or because every served model refuses them; None if they are."""
    refused = engine.refusal()
    if refused is not None:
        return refused
    refused = None
    for served_model in engine.served_models.values():
        if served_model.published is not None:
            refused = _refusal_of(engine, served_model)
            if refused is None:
                return None
    return refused


def _refusal_of(engine: Engine, served_model: ServedModel) -> RiataError | None:
    """Return why a model accepts no events; None if it does, or if that concerns all models."""
    return engine.lag_refusal(served_model) or engine.memory.refusal_to_learn(served_model)


def health_of(engine: Engine) -> Health:
    """Return the health of the service."""
    reasons = []
    if engine.fatal is not None:
        reasons.append(engine.fatal)
    if engine.learning is not None and not engine.learning.writer.alive() and not engine.stopping:
        reasons.append("the writer's thread has ended")
    alive = not reasons
    reasons += _not_ready(engine)
    tally = engine.tally
    served_models = engine.served_models
    refused = refusal_of_all(engine)
    shared = engine if isinstance(engine, SharedEngine) else None
    turns = [] if engine.learning is None else engine.learning.writer.turns()
    lost = engine.context.ledger.lost()

    def models() -> dict[str, ModelHealth]:
        turn_of = {turn.model: turn for turn in turns}
        each = [(name, _model(engine, one, turn_of.get(name), lost.get(name, 0))) for name, one in sorted(served_models.items())]
        return {name: at for name, at in each if at is not None}

    return Health(
        alive=alive,
        code="not_ready" if shared is None else _code(shared),
        lost=lost,
        started=engine.started,
        ready=not reasons,
        reasons=reasons,
        fatal=engine.fatal,
        warnings=[
            *engine.watch.warnings,
            *_warnings(engine, refused, turns),
            *([] if shared is None else _warnings_shared(shared)),
        ],
        look_at_models=models,
        checkpoints={
            "ok": tally.checkpoints_ok,
            "failed": tally.checkpoints_failed,
            "last_ms": tally.checkpoint_last_ms,
            "corrupt": tally.generations_corrupt,
        },
        replayed=(tally.replayed, tally.to_replay),
        sharing=_sharing(engine, refused) if shared is None else _sharing_shared(shared, refused),
        damaged={name: damage.sentence() for name, damage in sorted(engine.context.catalogue.damaged.items())},
        log_damaged={name: damage.event for name, damage in sorted(tally.log_damaged.items()) if name in served_models},
        log_scrubbed_bytes=tally.log_scrubbed_bytes,
        replaying=_replaying(engine),
        memory=(engine.memory.taken(), engine.memory.bytes_max),
    )


def _replaying(engine: Engine) -> dict[str, tuple[int, int]]:
    """Return the models whose served state lacks events from before the start, with the event that is learnt, and the last."""
    positions = {} if engine.learning is None else engine.learning.writer.positions()
    found = {name: (coming.reached(), coming.of) for name, coming in engine.context.catalogue.coming.items()}
    for name, served_model in engine.served_models.items():
        if served_model.replay_to and name in positions:
            found[name] = (positions[name].applied, served_model.replay_to)
    return dict(sorted(found.items()))


def _not_ready(engine: Engine) -> list[str]:
    reasons = []
    if not engine.started:
        reasons.append(engine.waits_for())
    elif isinstance(engine, SharedEngine):
        reasons += _not_serving(engine)
    elif (coming := engine.context.catalogue.coming) and not any(one.published for one in engine.served_models.values()):
        reasons += [one.waits_for() for one in coming.values()]
    if engine.stopping:
        reasons.append("stopping")
    return reasons


def _not_serving(engine: SharedEngine) -> list[str]:
    """Return why a process that shares its store is not ready. One that serves stays ready without the store: it predicts."""
    if engine.settings.role == "writer":
        return _not_writing(engine)
    served = [served_model for served_model in engine.served_models.values() if served_model.published is not None]
    if not served:
        if engine.strange is not None:
            return [engine.strange.detail]
        coming = [one.waits_for() for one in engine.context.catalogue.coming.values()]
        return coming or ["no model has been published yet by the process that learns"]
    bound = engine.settings.max_staleness_s
    least = min(stale_for_s(engine, served_model) for served_model in served)
    if least > bound:
        why = engine.following.unreachable()
        why = why or "no process publishes"
        return [f"the served models are {least:.0f} s behind the store, and max_staleness_s is {bound:.0f}; {why}"]
    return []


def _not_writing(engine: SharedEngine) -> list[str]:
    contender = engine.contender
    if contender is None:
        return []
    if why := contender.unreachable():
        return [f"the store does not answer: {why}"]
    if engine.strange is not None:
        return [engine.strange.detail]
    if contender.leads:
        return [] if contender.held() else ["the lease cannot be renewed"]
    if contender.lead.owner is not None:
        return [READING]
    if another := contender.lead.another_version():
        return [f"standing by; {another}"]
    holder = contender.lead.holder
    return [f"standing by; {holder.host} owns the store" if holder else "standing by; no process owns the store yet"]


def _code(engine: SharedEngine) -> str:
    """Return the stable code for why the service is not ready."""
    return "not_ready" if engine.leads or engine.strange is None else engine.strange.code


def _warnings(engine: Engine, refused: RiataError | None, turns: list[TurnOf]) -> list[str]:
    ledger = engine.context.ledger
    found = [f"model {name}: the store has lost {count} acknowledged events" for name, count in ledger.lost().items()]
    found += [problem for problem in (ledger.note.unread, ledger.note.problem) if problem]
    found += [damage.sentence() for _, damage in sorted(engine.context.catalogue.damaged.items())]
    found += [log_sentence(damage) for name, damage in sorted(engine.tally.log_damaged.items()) if name in engine.served_models]
    if engine.context.archive is not None and engine.context.archive.problem:
        found.append(engine.context.archive.problem)
    if (warning := engine.memory.warning()) is not None:
        found.append(warning)
    if refused is not None:
        found.append(f"events are refused: {refused.detail}")
    return found + [
        f"model {one.model}: the learner has been busy with one step for {one.busy_s:.0f} s; other models are learnt beside it"
        for one in turns
        if one.busy_s >= LONG_S
    ]


def _warnings_shared(engine: SharedEngine) -> list[str]:
    """Warnings of a process that shares its store and does not lead."""
    if engine.leads:
        return []
    found = [another] if engine.contender is not None and (another := engine.contender.lead.another_version()) else []
    if engine.strange is not None:
        found.append(engine.strange.detail)
    if why := engine.following.unreachable():
        found.append(f"the served models are not updated: {why}")
    if engine.following.copies is not None and engine.following.copies.failed:
        found.append(f"local copies of the models cannot be written: {engine.following.copies.failed}")
    return found + [f"model {served.name}: {served.another}" for served in engine.served_models.values() if served.another]


def _model(engine: Engine, served_model: ServedModel, turn: TurnOf | None, lost: int) -> ModelHealth | None:
    published = served_model.published
    if published is None:
        return None
    age_s = (engine.clock.monotonic_ms() - published.published_mono_ms) / 1000
    times = (0.0, 0.0) if turn is None else (turn.busy_s, turn.waiting_s)
    at = (served_model.logged, published.applied, published.version, age_s, published.model.weights.non_zeros)
    return ModelHealth(*at, stale_for_s(engine, served_model), lost, _refusal_of(engine, served_model) is None, *times)


def _slug(refused: RiataError | None) -> tuple[str, str] | None:
    return None if refused is None else (refused.code, refused.detail)


def _sharing(engine: Engine, refused: RiataError | None) -> Sharing:
    return Sharing(leads=engine.leads, accepting=_slug(refused), refusals=dict(engine.watch.counts))


def _sharing_shared(engine: SharedEngine, refused: RiataError | None) -> Sharing:
    contender, following, tally = engine.contender, engine.following, engine.tally
    owner = contender.lead.owner if contender else None
    counts = {"elections": tally.elections, "fenced": tally.fenced, "log_forks": tally.forks, "recovery_retries": tally.retries}
    if contender is not None:
        counts["editions_published"] = contender.editions
    seen = following.follower.counts
    damaged = seen.corrupt + (following.copies.corrupt if following.copies else 0)
    counts |= {"editions_followed": seen.editions, "editions_corrupt": damaged}
    counts |= {"rollbacks_seen": seen.rolled_back, "stores_exchanged": seen.strange}
    holder = following.holder.host if following.holder else ""
    return Sharing(
        role=engine.settings.role,
        leads=engine.leads,
        holder=engine.settings.host if engine.leads else holder,
        epoch=owner.epoch if owner else 0,
        renewed_s=contender.lead.unrenewed_ms() / 1000 if contender and owner else None,
        accepting=_slug(refused),
        counts=counts,
        refusals=dict(engine.watch.counts),
        recovery_s=_recovery_s(engine),
        processes=engine.processes,
    )


def _recovery_s(engine: Engine) -> float | None:
    """The lease's term, plus the last recovery's time without the log, plus the unsaved events at its replay rate; seconds."""
    if engine.learning is None or engine.tally.load_s == 0.0:
        return None
    behind = sum(
        max(0, served_model.logged - engine.tally.saved_at.get(name, 0)) for name, served_model in engine.served_models.items()
    )
    replay_s = behind / engine.tally.replay_rate if engine.tally.replay_rate > 0 else 0.0
    return engine.settings.lease_ttl_ms / 1000 + engine.tally.load_s + replay_s
