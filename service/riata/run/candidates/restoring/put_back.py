"""The event that puts another state in place of a model's. With it challengers are taken off, and a checkpoint is saved.

A restore is one event of the log, which carries the state (`adr/0013`). Challengers have learnt events that the model no longer
includes, so their losses can no longer be compared event by event: in the same transaction, events take them off the lists of the
models that they follow.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from riata.base.actor import current_actor, with_actor
from riata.base.errors import Conflict, RiataError
from riata.run.engine import Engine
from riata.run.state.config import Change
from riata.run.writer.published import Published
from riata.store import records
from riata.store.control_events import forgotten_by
from riata.store.store import Append, Appended, Generation, Store
from riata.wire.names import NOTHING_NAMED, Names

log = logging.getLogger("riata.run")

TAKEN_OFF = "taken_off"  # key of the source of a `restore` event: the challengers that it took off


@dataclass(frozen=True, slots=True)
class PutBack:
    """What a restore did. seq: its event; taken_off: challengers that are no longer compared"""

    seq: int
    taken_off: tuple[str, ...] = field(default_factory=tuple)


async def put_back(engine: Engine, model: str, content: bytes, source: dict[str, Any], names: Names = NOTHING_NAMED) -> PutBack:
    """Log that the state in a checkpoint is put in place. Returns when it is served, and saved if this process learns.

    content : of a checkpoint that `ModelState.thaw` accepts
    source  : where it comes from, for people
    The caller holds `changing` of the model. Raises as `append_and_serve`.
    """
    served_model = engine.served_model(model)
    published = await engine.wait_for(model, served_model.changed, engine.settings.observe_timeout_ms)
    taken_off = others_of(published)
    source = with_actor(source | ({TAKEN_OFF: list(taken_off)} if taken_off else {}))
    append = Append(model, "restore", engine.clock.unix_ms(), payload=records.encode_restore(source, content), names=names)
    engine.require_accepting(served_model)
    if taken_off:
        seq = await _with_others(engine, published, append)
    else:
        seq = (await engine.append(append)).seq
    await engine.wait_for(model, seq, engine.settings.observe_timeout_ms)
    await save_if_leading(engine, model)
    return PutBack(seq, taken_off)


def others_of(published: Published) -> tuple[str, ...]:
    """Return the challengers that a restore of this model takes off: those that follow it, or itself."""
    pairs = published.pairs
    return pairs.challengers or ((published.model.origin.name,) if pairs.follows else ())


async def _with_others(engine: Engine, published: Published, append: Append) -> int:
    """Append a restore, and before it, in one transaction, the event by which the model or its leader has fewer challengers."""
    model, follows = append.model, published.pairs.follows
    async with AsyncExitStack() as held:
        leader, kept, theirs = model, tuple[str, ...](), published
        if follows and follows in engine.served_models:
            leader = follows
            await held.enter_async_context(engine.served_model(leader).changing)
            theirs = await engine.wait_for(leader, engine.served_model(leader).changed, engine.settings.observe_timeout_ms)
            kept = tuple(name for name in theirs.pairs.challengers if name != model)
        if not theirs.pairs.challengers:  # it is detached already
            return (await engine.append(append)).seq
        change = Change(theirs.config, actor=current_actor.get(), challengers=kept).payload()
        group = [Append(leader, "config", append.accepted_ms, payload=change, followers=kept), append]
        answers: list[Appended | RiataError] = await engine.call(lambda store: engine.context.log_thread.append_now(store, group))
        for answer in answers:
            if isinstance(answer, RiataError):
                raise engine.why_not_logged(answer)
        last = answers[-1]
        assert isinstance(last, Appended)
        return last.seq


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
