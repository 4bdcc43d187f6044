"""The events that put another state in place of a model's: promotions, and restores (`put_back`).

Promotion: a learner that was made elsewhere, from the events of a model's log, takes the place of the one that learns it.

    events   1 ...... A │ A + 1 ........ C │ C + 1 ... R - 1 │ R
             candidate  │ learnt here      │ learnt again    │ the restore event that carries the candidate as of event C
             has learnt │ before the event │ at the event    │

The event carries a state of event C: configuration and metrics of a checkpoint of that event, and the candidate in place of its
learner. Others append meanwhile, so the event comes at R > C. Whoever applies it learns the events between again
(`ModelState.apply`), so that after R the model has learnt every event of its log exactly once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from riata.base.errors import Busy, Conflict, Corrupt, LogGap, RiataError
from riata.base.request_trace import current_actor, with_actor
from riata.run.candidates.judging import Verdict
from riata.run.changing import append_and_serve, append_together
from riata.run.engine import Engine
from riata.run.log.log_reading import PACED_BYTES, Call, read_log, runs
from riata.run.state.config import Change, stored_document
from riata.run.state.model_state import LEARNER, Frozen, ModelState
from riata.run.writer.published import Published
from riata.store import layout, records
from riata.store.control_events import forgotten_by
from riata.store.store import Append, Generation, Store
from riata.wire.names import NOTHING_NAMED, Names

log = logging.getLogger("riata.run")

BEHIND_MAX: Final = 50_000  # events that may have to be learnt again: the writer takes a tenth of a second for them, or a few
TRIES: Final = 3  # checkpoints that a promotion waits for if the log grows faster than it is learnt
TAKEN_OFF = "taken_off"  # key of the source of a `restore` event: the challengers that it took off


async def promote(
    engine: Engine,
    model: str,
    candidate: ModelState,
    verdict: Verdict,
    source: Mapping[str, str],
    *,
    force: bool = False,
) -> dict[str, Any]:
    """Have `model` go on with the learner of `candidate`. Returns, when that is served and saved, the event, and `through`: the
    event after which the log was learnt again at it.

    candidate : a state of the model's log; it learns the events that came after it. Its metrics are not used, and of its settings
                those of the learner
    verdict   : of the gate; anything but PROMOTE is refused unless `force`, which the event records
    source    : where the candidate comes from, for people: the work or the model that made it

    Raises `Conflict`: `not_promoted` for the verdict, `refit_outdated` if the model was configured, restored or promoted since
    the candidate's event, or its log was trimmed; `Busy` (code `candidate_behind`) if the log grows too fast.
    """
    engine.require_role("change")
    if verdict["decision"] != "PROMOTE" and not force:
        raise Conflict(f"{verdict['decision']}: {verdict['why']}; promote it by force if you know better", "not_promoted")
    async with engine.served_model(model).changing:
        document = with_actor({**source, "of": candidate.applied, "forced": force, "verdict": verdict})
        base = await _base(engine, model, candidate)
        content = await engine.call(lambda s: s.open_generation(model, base.gen))
        loop = asyncio.get_running_loop()
        payload = await loop.run_in_executor(None, _payload, engine.context.log_thread.call, candidate, content, document)
        if (seq := await log_promotion(engine, model, payload)) is None:
            raise outdated(model, "it was changed while the candidate was being promoted")
        await save_if_leading(engine, model)
        return {"promoted": True, "seq": seq, "through": base.applied, "forced": force}


async def log_promotion(engine: Engine, model: str, payload: bytes) -> int | None:
    """Log the event that carries a state of the log. Returns it when it is served; None if it is void, because the model was
    changed after the event of that state."""
    seq = await append_and_serve(engine, Append(model, "restore", engine.clock.unix_ms(), payload=payload))
    return seq if seq in engine.published(model).changes else None


async def _base(engine: Engine, model: str, candidate: ModelState) -> Generation:
    """Return a generation that the candidate may take the place of: not before the candidate, and close to the end of the log."""
    for _ in range(TRIES):
        published = await engine.wait_for(model, candidate.applied, engine.settings.observe_timeout_ms)
        if published.model.origin.lineage != candidate.lineage:
            raise outdated(model, "it was dropped and created again")
        if published.changes and published.changes[-1] > candidate.applied:
            raise outdated(model, f"event {published.changes[-1]} changed it")
        if engine.leads:
            await engine.save(model)
        generations = await engine.call(lambda s: s.generations(model))
        end = await engine.logged_now(model)
        for generation in generations[:1]:
            if generation.applied >= candidate.applied and end - generation.applied <= BEHIND_MAX:
                return generation
    raise Busy(
        f"no snapshot of model {model} is within {BEHIND_MAX} events of the end of its log; try again when fewer events "
        "arrive, or in the process that learns",
        "candidate_behind",
    )


def _payload(call: Call, candidate: ModelState, content: bytes, document: dict[str, Any]) -> bytes:
    """Return the payload of the promotion at the checkpoint `content`, after the candidate has learnt up to its event."""
    header, arrays = layout.decode_checkpoint(content)
    catch_up(call, candidate, int(header["applied"]))
    settings = stored_document(candidate.config)
    if candidate.chain.hex() != header["chain"] or _but_the_learner(settings) != _but_the_learner(header["config"]):
        raise outdated(candidate.name, "it has another configuration or history now")
    learner = {LEARNER + name: array for name, array in candidate.learner.freeze().items()}
    kept = {name: array for name, array in arrays.items() if not name.startswith(LEARNER)}
    carried = Frozen({**header, "config": settings}, {**kept, **learner}).encode()
    return records.encode_restore(document, carried, records.Through(candidate.applied, candidate.chain))


def _but_the_learner(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "learner"}


def catch_up(call: Call, candidate: ModelState, to: int) -> None:
    """Have a candidate learn the events of its log up to event `to`, at which a record ends.

    Raises `Conflict` (code `refit_outdated`) if an event on the way sets the configuration or the state, or the log was trimmed.
    """
    model = candidate.name
    skips: set[int] = set()
    found = []
    try:
        for record in read_log(call, model, candidate.applied, PACED_BYTES):
            if record.kind == "skip":
                skips.add(records.decode_skip(record.payload)[0])
            if record.last <= to:
                found.append(record)
    except LogGap as error:
        raise outdated(model, error.detail) from error
    for run in runs(found):
        if run[0].kind in ("config", "restore"):
            raise outdated(model, f"event {run[0].first} changes it")
        candidate.apply_all(run, skips=frozenset(skips))
    if candidate.applied != to:
        raise Corrupt(f"model {model}: no record of its log ends at event {to}")


def outdated(model: str, why: str) -> Conflict:
    """The error for a candidate that was made for what the model no longer is."""
    return Conflict(f"the candidate for model {model} is outdated: {why}; make another one", "refit_outdated")


# Restores. A restore is one event of the log, which carries the state (`adr/0013`). Challengers have learnt events that the model
# no longer includes, so their losses can no longer be compared event by event: in the same transaction, events take them off the
# lists of the models that they follow.


async def put_back(
    engine: Engine, model: str, content: bytes, source: dict[str, Any], names: Names = NOTHING_NAMED
) -> tuple[int, list[str]]:
    """Log that the state in a checkpoint is put in place. Returns the event, and which challengers it takes off, when it is
    served, and saved if this process learns.

    content : of a checkpoint that `ModelState.thaw` accepts
    source  : where it comes from, for people
    The caller holds `changing` of the model. Raises as `append_and_serve`.
    """
    served_model = engine.served_model(model)
    published = await engine.latest(model)
    taken_off = others_of(published)
    source = with_actor(source | ({TAKEN_OFF: taken_off} if taken_off else {}))
    append = Append(model, "restore", engine.clock.unix_ms(), payload=records.encode_restore(source, content), names=names)
    engine.require_accepting(served_model)
    async with AsyncExitStack() as held:
        fewer = await _fewer(engine, published, held) if taken_off else []
        logged = await append_together(engine, lambda _store: [*fewer, append]) if fewer else [await engine.append(append)]
    await engine.wait_for(model, logged[-1].seq, engine.settings.observe_timeout_ms)
    await save_if_leading(engine, model)
    return logged[-1].seq, taken_off


def others_of(published: Published) -> list[str]:
    """Return the challengers that a restore of this model takes off: those that follow it, or itself."""
    pairs = published.pairs
    return list(pairs.challengers) or ([published.model.origin.name] if pairs.follows else [])


async def _fewer(engine: Engine, published: Published, held: AsyncExitStack) -> list[Append]:
    """Return the event by which a model has no challengers, or the one that it follows has one less; none if it is detached
    already. held : takes `changing` of the model that it follows"""
    follows, leader, kept = published.pairs.follows, published, tuple[str, ...]()
    if follows and follows in engine.served_models:
        await held.enter_async_context(engine.served_model(follows).changing)
        leader = await engine.latest(follows)
        kept = tuple(name for name in leader.pairs.challengers if name != published.model.origin.name)
    return [challenged(engine, leader, kept)] if leader.pairs.challengers else []


def challenged(engine: Engine, leader: Published, challengers: tuple[str, ...]) -> Append:
    """Return the event by which a model has these challengers."""
    change = Change(leader.config, actor=current_actor.get(), challengers=challengers)
    name, now_ms = leader.model.origin.name, engine.clock.unix_ms()
    return Append(name, "config", now_ms, payload=change.payload(), followers=challengers)


async def save_if_leading(engine: Engine, model: str) -> None:
    """Save a checkpoint, so that the next start need not learn what led to the present state. Without it the start takes longer:
    a store that has no room for it is reported in the log of the service only."""
    if not engine.leads:
        return
    try:
        await engine.save(model)
    except RiataError as error:
        log.warning("model %s: the state could not be saved: %s; a start learns it again from the log", model, error.detail)


async def require_unforgotten(engine: Engine, model: str, generation: Generation) -> None:
    """Raise `Conflict` (code `not_reachable`) if rows that a generation includes were forgotten since.

    Forgetting deletes such generations, but may have been killed before. The caller holds `changing` of the model."""
    for seq in [seq for seq in engine.published(model).changes if seq > generation.applied]:
        found = await engine.call(partial(_forgotten_at, model=model, seq=seq))
        if found and found <= generation.applied:
            raise Conflict(
                f"snapshot {generation.gen} includes rows that event {seq} forgot; go back to event "
                f"{generation.applied} instead: then it is learnt again without them",
                "not_reachable",
            )


def _forgotten_at(store: Store, model: str, seq: int) -> int:
    """Return the first event that the event `seq` forgets; 0 if it forgets none, or is no longer in the log."""
    if seq < store.head(model).first_seq:
        return 0
    record = store.read(model, seq - 1, 1)[0]
    rows = forgotten_by(record)
    return int(rows[0]) if record.first == seq and len(rows) else 0
