"""The health of an engine, as reported to probes and metrics. Nothing here accesses the store."""

from __future__ import annotations

from riata.base.errors import RiataError
from riata.run.accepting import lag_refusal, refusal_of_all
from riata.run.damage import log_sentence
from riata.run.engine import Engine
from riata.run.health import Health, ModelHealth, Sharing
from riata.run.served_model import ServedModel
from riata.run.warm_up import LOADING


def stale_for_s(engine: Engine, served_model: ServedModel) -> float:
    """For how long it is not known whether what is served is the newest, seconds.

    0.0 in the process that learns; with a shared store only while its lease is renewed in time.
    """
    if engine.leads:
        if engine.contender is None:
            return 0.0
        return 0.0 if engine.contender.held() else engine.contender.lead.unrenewed_ms() / 1000
    now_ms = engine.clock.monotonic_ms()
    if served_model.confirmed_ms is not None:
        known_ms = served_model.confirmed_ms
    else:  # loaded from a copy, or fetched a moment ago
        known_ms = served_model.published.published_mono_ms if served_model.published is not None else now_ms
    return max(0, now_ms - known_ms) / 1000


def health_of(engine: Engine) -> Health:
    """Return the health of the service."""
    reasons = []
    if engine.fatal is not None:
        reasons.append(engine.fatal)
    if not engine.writer_alive() and not engine.stopping:
        reasons.append("the writer's thread has ended")
    alive = not reasons
    reasons += _not_ready(engine)
    tally = engine.tally
    served_models = engine.served_models
    refused = refusal_of_all(engine)
    return Health(
        alive=alive,
        code=_code(engine),
        lost=engine.context.ledger.lost(),
        started=engine.started,
        ready=not reasons,
        reasons=reasons,
        fatal=engine.fatal,
        warnings=[*(engine.watch.warnings if engine.watch else ()), *_warnings(engine, refused)],
        models={name: at for name in sorted(served_models) if (at := _model(engine, served_models[name])) is not None},
        checkpoints={
            "ok": tally.checkpoints_ok,
            "failed": tally.checkpoints_failed,
            "last_ms": tally.checkpoint_last_ms,
            "corrupt": tally.generations_corrupt,
        },
        replayed=(tally.replayed, tally.to_replay),
        sharing=_sharing(engine, refused),
        damaged={name: damage.sentence() for name, damage in sorted(engine.context.catalogue.damaged.items())},
        log_damaged={name: damage.event for name, damage in sorted(tally.log_damaged.items()) if name in served_models},
        log_scrubbed_bytes=tally.log_scrubbed_bytes,
    )


def _not_ready(engine: Engine) -> list[str]:
    reasons = []
    if not engine.started:
        replaying = f"replaying the log: {engine.tally.replayed} of {engine.tally.to_replay} events"
        if engine.settings.shared:
            why = engine.following.unreachable() if engine.following else ""
            replaying = f"the store has not answered yet{': ' if why else ''}{why}"
        reasons.append(replaying if engine.tally.compiled else LOADING)
    elif engine.settings.shared:
        reasons += _not_serving(engine)
    if engine.stopping:
        reasons.append("stopping")
    return reasons


def _not_serving(engine: Engine) -> list[str]:
    """Return why a process that shares its store is not ready. One that serves stays ready without the store: it predicts."""
    if engine.settings.role == "writer":
        return _not_writing(engine)
    served = [served_model for served_model in engine.served_models.values() if served_model.published is not None]
    if not served:
        if engine.following is not None and engine.following.follower.strange:
            return [engine.following.follower.strange]
        return ["no model has been published yet by the process that learns"]
    bound = engine.settings.max_staleness_s
    least = min(stale_for_s(engine, served_model) for served_model in served)
    if least > bound:
        why = engine.following.unreachable() if engine.following else ""
        why = why or "no process publishes"
        return [f"the served models are {least:.0f} s behind the store, and max_staleness_s is {bound:.0f}; {why}"]
    return []


def _not_writing(engine: Engine) -> list[str]:
    contender = engine.contender
    if contender is None:
        return []
    if why := contender.unreachable():
        return [f"the store does not answer: {why}"]
    if engine.following is not None and engine.following.follower.strange:
        return [engine.following.follower.strange]
    if contender.leads:
        return [] if contender.held() else ["the lease cannot be renewed"]
    if contender.lead.owner is not None:
        return [f"replaying the log: {engine.tally.replayed} of {engine.tally.to_replay} events"]
    if another := contender.lead.another_version():
        return [f"standing by; {another}"]
    holder = contender.lead.holder
    return [f"standing by; {holder.host} owns the store" if holder else "standing by; no process owns the store yet"]


def _code(engine: Engine) -> str:
    """Return the stable code for why the service is not ready."""
    strange = engine.following.follower.strange_code if engine.following is not None and not engine.leads else ""
    return strange or "not_ready"


def _warnings(engine: Engine, refused: RiataError | None) -> list[str]:
    ledger = engine.context.ledger
    found = [f"model {name}: the store has lost {count} acknowledged events" for name, count in ledger.lost().items()]
    found += [problem for problem in (ledger.note.unread, ledger.note.problem) if problem]
    found += [damage.sentence() for _, damage in sorted(engine.context.catalogue.damaged.items())]
    found += [log_sentence(damage) for name, damage in sorted(engine.tally.log_damaged.items()) if name in engine.served_models]
    if refused is not None:
        found.append(f"events are refused: {refused.detail}")
    if engine.contender is not None and not engine.leads and (another := engine.contender.lead.another_version()):
        found.append(another)
    if engine.following is not None and not engine.leads:
        if engine.following.follower.strange:
            found.append(engine.following.follower.strange)
        if why := engine.following.unreachable():
            found.append(f"the served models are not updated: {why}")
        if engine.following.copies is not None and engine.following.copies.failed:
            found.append(f"local copies of the models cannot be written: {engine.following.copies.failed}")
        found += [
            f"model {served_model.name}: {served_model.another}"
            for served_model in engine.served_models.values()
            if served_model.another
        ]
    return found


def _model(engine: Engine, served_model: ServedModel) -> ModelHealth | None:
    published = served_model.published
    if published is None:
        return None
    age_s = (engine.clock.monotonic_ms() - published.published_mono_ms) / 1000
    lost = engine.context.ledger.lost().get(served_model.name, 0)
    at = (served_model.logged, published.applied, published.version, age_s, published.model.non_zeros)
    return ModelHealth(*at, stale_for_s(engine, served_model), lost, lag_refusal(engine, served_model) is None)


def _sharing(engine: Engine, refused: RiataError | None) -> Sharing:
    accepting = None if refused is None else (refused.code, refused.detail)
    if not engine.settings.shared:
        refusals = dict(engine.watch.counts) if engine.watch else {}
        return Sharing(leads=engine.leads, accepting=accepting, refusals=refusals)
    contender, following, watch, tally = engine.contender, engine.following, engine.watch, engine.tally
    owner = contender.lead.owner if contender else None
    counts = {"elections": tally.elections, "fenced": tally.fenced, "log_forks": tally.forks, "recovery_retries": tally.retries}
    if contender is not None:
        counts["editions_published"] = contender.editions
    if following is not None:
        seen = following.follower.counts
        damaged = seen.corrupt + (following.copies.corrupt if following.copies else 0)
        counts |= {"editions_followed": seen.editions, "editions_corrupt": damaged}
        counts |= {"rollbacks_seen": seen.rolled_back, "stores_exchanged": seen.strange}
    holder = following.holder.host if following and following.holder else ""
    return Sharing(
        role=engine.settings.role,
        leads=engine.leads,
        holder=engine.settings.host if engine.leads else holder,
        epoch=owner.epoch if owner else 0,
        renewed_s=contender.lead.unrenewed_ms() / 1000 if contender and owner else None,
        accepting=accepting,
        counts=counts,
        refusals=dict(watch.counts) if watch else {},
        recovery_s=_recovery_s(engine),
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
