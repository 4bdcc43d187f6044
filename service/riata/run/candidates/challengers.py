"""Models that follow another: each learns a copy of every event of its leader under settings of its own, and can take its place.

    PUT follow ─► b is created ─► event of b: it follows a ─► event of a: b is a challenger ─► rows of a: one record of a, and a
                                  (and the names of a)        in one transaction from here on      copy in the log of b

The log thread makes the copies (`LogThread.followers`). Which models follow is in the state of the leader, and the log thread
is told at a start. So a copy is in the log of the follower if and only if its record is in that of the leader.

A challenger first learns what the log of its leader still has, under settings of its own:

    events of the leader    oldest ............. C │ C + 1 ....... E - 1 │ E
                            learnt beside the      │ copied, a few       │ names the challenger; each append
                            service, at low        │                     │ of rows makes a copy from here on
                            priority               │                     │

The log of the challenger gets a `restore` event with the state after event C, the rows C + 1 .. E - 1, and the event that says
whom it follows. These and event E are one transaction, made between two appends: no event is left out or learnt twice, and a
process that is killed has logged all of it or nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from riata.base.document import write_document
from riata.base.errors import BadInput, Busy, Conflict, LogGap
from riata.base.process import BESIDE
from riata.base.request_trace import current_actor
from riata.run.candidates.backtest import IN_FORCE, Contestant, compare, turns
from riata.run.candidates.judging import verdict_on
from riata.run.candidates.pairs import BACKFILL, OWN, Pairs, comparison
from riata.run.candidates.promotion import BEHIND_MAX, challenged, outdated, promote
from riata.run.changing import Creations, append_and_serve, append_together, saved_content, take_up
from riata.run.engine import Engine
from riata.run.engine_context import aside
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.jobs.jobs import Job
from riata.run.log.effective_log import chain_at, read_effective_log
from riata.run.log.log_reading import PACED_BYTES, Call, read_log
from riata.run.state.config import Change, ModelConfig, change_from_payload, read_config, require_one_margin
from riata.run.state.config_changes import changed, check_change, require_bounded
from riata.run.state.model_state import ModelState
from riata.run.writer.published import Published
from riata.store import records
from riata.store.control_events import Counted
from riata.store.payload import decode_batch
from riata.store.records import next_chain
from riata.store.store import Append, Record, Store, names_in_log
from riata.wire.batch import Batch

TAIL_ROWS: Final = 2000  # rows that are left to be copied
ROUNDS: Final = 8  # over what came meanwhile


@dataclass(frozen=True, slots=True)
class Past:
    """What a challenger has learnt: a checkpoint of the state, as of an event of the leader's log.

    theirs, ours : the settings of the leader, which held all the time, and of the challenger
    source       : how many events were learnt, and how the losses compare with those under the settings of the leader
    """

    content: bytes
    leader: str
    through: records.Through
    theirs: ModelConfig
    ours: ModelConfig
    source: dict[str, Any]


def learn_past(call: Call, leader: str, theirs: ModelConfig, ours: ModelConfig, advance: Callable[[float], None]) -> Past | None:
    """Learn the log of `leader` under the settings `ours`; None if no event of it counts.

    advance : called with the share of the work that is done; what it raises ends the work
    Raises `Busy` (code `changed_meanwhile`) if the leader was changed or its log trimmed, `candidate_behind` if the log grows
    faster than it is learnt, and what reading a log raises.
    """
    both = [Contestant(IN_FORCE, theirs), Contestant(BACKFILL, ours)]
    try:
        log = read_effective_log(call, leader, bytes_max=PACED_BYTES)
        if log.window().events == 0:
            return None
        after, last, counted = log.first - 1, log.last, log.counted()
        chain = chain_at(call, leader, last) or b""
        rows = 0
        for _ in range(ROUNDS):
            for turn in turns(call, leader, after, last, counted, PACED_BYTES):
                for contestant in both:
                    contestant.take(turn)
                compare(both)
                advance(turn.last / last)
            after, rows, through = last, 0, records.Through(last, chain)
            for record in checked(read_log(call, leader, after, PACED_BYTES), through, theirs):
                last, chain, rows = record.last, record.chain, rows + record.count
            if rows <= TAIL_ROWS:
                break
            counted = Counted(np.array([[after + 1, last]]), np.zeros(0, np.int64))
        if rows > BEHIND_MAX:
            raise Busy(f"model {leader}: its log grows faster than it is learnt; try when fewer events come", "candidate_behind")
    except LogGap as error:
        raise log_changed(leader, error.detail) from error
    other = both[1]
    told = {"events": other.state.progressive.examples, "compared": other.difference.events, "measure": other.measure}
    source = {BACKFILL: leader, "through": through.seq, **told, **other.compared()}
    return Past(other.state.freeze().encode(), leader, through, theirs, ours, source)


def at_the_seam(store: Store, past: Past, model: str, now_ms: int) -> list[Append]:
    """Return what the log of the challenger gets: the state, and the rows of its leader that came after it. Raises `Busy` (code
    `changed_meanwhile`). In the thread of the store."""
    tail: list[Append] = []
    after = past.through
    try:
        while found := store.read(past.leader, after.seq, PACED_BYTES):
            for record in checked(found, after, past.theirs):
                if record.kind == "observe":
                    tail.append(Append(model, "observe", record.accepted_ms, _without_ids(decode_batch(record.payload))))
                after = records.Through(record.last, record.chain)
    except LogGap as error:
        raise log_changed(past.leader, error.detail) from error
    if after.chain != store.head(past.leader).chain:
        raise log_changed(past.leader, "it has another log now")
    return [Append(model, "restore", now_ms, payload=records.encode_restore(past.source, past.content)), *tail]


def checked(found: Iterable[Record], after: records.Through, theirs: ModelConfig) -> Iterator[Record]:
    """Yield the records after an event of a log. Raises `Busy` if one of them says anything of the events before it."""
    chain = after.chain
    for record in found:
        if record.chain != records.next_chain(chain, record.digest):
            raise log_changed(record.model, "it has another log now")
        chain = record.chain
        same = record.kind == "config" and change_from_payload(record.payload).config == theirs
        if not (record.kind == "observe" or same):
            raise log_changed(record.model, f"event {record.first} is of kind {record.kind}")
        yield record


def log_changed(leader: str, why: str) -> Busy:
    """The error for a leader that is no longer what it was when the learning began."""
    return Busy(f"model {leader} was changed while its log was learnt: {why}; try again", "changed_meanwhile")


def _without_ids(batch: Batch) -> Batch:
    """A follower remembers no ids: whatever its leader has accepted is accepted."""
    return replace(batch, has_id=np.zeros(batch.n, np.bool_), event_id=np.zeros((batch.n, 16), np.uint8))


FOLLOW: Final = "follow"  # setting of a challenger
CHALLENGERS_MAX: Final = 4  # of one model: each costs a copy of its log, and the time of its learner
AGAIN_S: Final = 5.0  # after how long to ask again
SHARED: Final = ("encoder.", "labels", "classes", "negatives_kept")  # settings that rows and their losses depend on


class Backfilling(Busy):
    """A challenger learns the log of its leader, and the caller does not wait for it."""

    def __init__(self, job: Job) -> None:
        why = f"model {job.model} learns the log of {job.asked['leader']} first: {job.share:.0%} are done; send the request again"
        super().__init__(why, "not_ready", AGAIN_S)
        self.job = job


class Challengers:
    """Operations on models that follow others, for `Admin`."""

    def __init__(self, engine: Engine, creations: Creations) -> None:
        self._engine = engine
        self._creations = creations
        self.relating = asyncio.Lock()  # held while a model begins to follow, and while one is dropped

    async def follow(self, model: str, document: Mapping[str, Any], patient: bool) -> tuple[bool, ModelConfig]:
        """Create `model`, which follows the model that `follow` names. Settings that the document leaves out are those of that
        model. If it follows it already, its changeable settings are changed. Returns whether it was created, and what it is.

        With `backfill` it learns what the log of that model still has first (`backfill.py`). That is a job.

        patient : wait until it has learnt that log. Otherwise `Backfilling` is raised while the job runs
        Raises `Conflict` (code `cannot_follow`) with the reason, `BadInput`, and `NotFound` for the other model; with `backfill`,
        `Busy` (code `changed_meanwhile`), and `Unavailable` (code `memory_full`) if there is no memory for two more states.
        """
        leader, config = self.read(document)
        if self._engine.settings.shared:
            raise _cannot(
                model, leader, "the store is shared by several processes; only a service with an embedded store does this"
            )
        await self._engine.unfollowed(leader)
        theirs = self._engine.published(leader)
        require_one_margin(theirs.config, "a challenger")
        if model in (DEFAULT_MODEL, leader):
            raise _cannot(model, leader, "a model does not follow itself, and the default model follows none")
        if theirs.pairs.follows:
            raise _cannot(model, leader, f"that model follows {theirs.pairs.follows} itself; follow {theirs.pairs.follows}")
        created = False
        if model not in self._engine.served_models:
            if len(theirs.pairs.challengers) >= CHALLENGERS_MAX:
                raise _cannot(model, leader, f"it has {CHALLENGERS_MAX} challengers, the maximum; drop one")
            _require_comparable(theirs.config, config, (model, leader))
            created = await self._creations.create(model, config)
        if document.get(BACKFILL) and not self._engine.published(model).pairs.follows:
            await self._backfill(leader, model, patient)
        else:
            async with self.relating, self._engine.served_model(leader).changing:
                await self._join(leader, model)
        config, _ = await take_up(self._engine, model, lambda old: check_change(old, with_settings(old, _settings(document))))
        return created, config

    def read(self, document: Mapping[str, Any]) -> tuple[str, ModelConfig]:
        """Return the model that a document wants to follow, and the configuration of a new model that follows it. Raises
        `BadInput`, and `NotFound` for that model."""
        leader = document[FOLLOW]
        if type(leader) is not str:
            raise BadInput("follow: expected the name of a model", "wrong_type")
        if type(document.get(BACKFILL, False)) is not bool:
            raise BadInput("backfill: expected true or false", "wrong_type")
        return leader, with_settings(self._engine.published(leader).config, _settings(document))

    async def _backfill(self, leader: str, model: str, patient: bool) -> None:
        """Have `model` learn the log of `leader` and follow it, or wait for the one that does this already."""
        jobs = self._engine.jobs
        job = await jobs.do(BACKFILL, model, {"leader": leader}, self._learn_and_join, is_patient=patient)
        if job.state == "running":
            raise Backfilling(job)

    async def _learn_and_join(self, job: Job) -> dict[str, Any]:
        engine, leader, model = self._engine, job.asked["leader"], job.model
        theirs = await engine.latest(leader)
        if (refused := engine.memory.refusal(2 * sum(theirs.memory.values()), "learning the log")) is not None:
            raise refused
        _require_comparable(theirs.config, engine.published(model).config, (model, leader))

        ours, call = engine.published(model).config, engine.context.log_thread.call
        past = await aside(learn_past, call, leader, theirs.config, ours, job.advance, niceness=BESIDE)
        async with self.relating, engine.served_model(leader).changing:
            job.finalize()
            await self._join(leader, model, past)
        return {"model": model, "follow": leader, **({} if past is None else past.source)}

    async def _join(self, leader: str, model: str, past: Past | None = None) -> None:
        """Log in one transaction that `model` follows and that `leader` has this challenger, each unless it is logged already.

        past : what it has learnt of the log of `leader`, aside. The rows of the leader since then are logged too
        """
        engine, now_ms = self._engine, self._engine.clock.unix_ms()
        ours, theirs = await engine.latest(model), await engine.latest(leader)
        follows = ours.pairs.follows == leader
        if follows and model in theirs.pairs.challengers:
            return
        if follows and ours.pairs.shared[OWN].losses.events:
            raise _detached(model, leader)
        other_history = _cannot(model, leader, f"a model {model} exists already, and has another history; choose another name")
        if not follows:
            if ours.model.seq or ours.pairs.follows or ours.pairs.challengers:
                raise other_history
            _require_comparable(theirs.config, ours.config, (model, leader))
            if theirs.model.weights.link != ours.model.weights.link:
                raise _cannot(model, leader, "their losses are of different kinds; choose a learner with the same loss")
        if past is not None and (theirs.config, ours.config) != (past.theirs, past.ours):
            raise log_changed(leader, "one of the two has other settings now")
        for name in (leader, model):
            engine.require_accepting(engine.served_model(name))
        named = challenged(engine, theirs, (*theirs.pairs.challengers, model))
        change = Change(ours.config, actor=current_actor.get(), follow=leader).payload()

        def make(store: Store) -> list[Append]:
            if follows:
                return [named]
            if store.head(model).seq != ours.applied:
                raise other_history
            begun = [] if past is None else at_the_seam(store, past, model, now_ms)
            return [*begun, Append(model, "config", now_ms, payload=change, names=names_in_log(store, leader)), named]

        logged = await append_together(engine, make)
        for name, event in zip((leader, model), reversed(logged), strict=False):
            await engine.wait_for(name, event.seq, engine.settings.observe_timeout_ms)

    async def release(self, model: str) -> None:
        """Before `model` is dropped: end that it follows. Raises `Conflict` (code `has_challengers`) if others follow it."""
        engine = self._engine
        if engine.settings.shared:
            return
        served = engine.served_models.get(model)
        published = None if served is None else served.published
        if published is not None and (left := [name for name in published.pairs.challengers if name in engine.served_models]):
            raise Conflict(f"{', '.join(left)} learn the events of model {model}; drop them first", "has_challengers")
        for leader in list(engine.served_models.values()):
            if leader.published is not None and model in leader.published.pairs.challengers:
                async with leader.changing:
                    theirs = await engine.latest(leader.name)
                    rest = tuple(name for name in theirs.pairs.challengers if name != model)
                    await append_and_serve(engine, challenged(engine, theirs, rest))
        await engine.forget_challenger(model)
        if model in engine.context.log_thread.followers:  # its followers are damaged or gone; a model of this name has others
            await engine.call(lambda _store: engine.context.log_thread.followers.pop(model, None))

    async def promote(self, model: str, challenger: str, force: bool) -> dict[str, Any]:
        """Have `model` go on with the learner and the settings of the learner of one of its challengers, by one event.

        Raises `Conflict`: `not_a_challenger`; `not_promoted` unless the interval of the differences is below zero or `force`;
        `detached` if the challenger has not learnt the same events; and as `promotion.promote` does.
        """
        engine = self._engine
        theirs = engine.published(model)
        if challenger not in theirs.pairs.challengers:
            known = ", ".join(theirs.pairs.challengers) or "none"
            raise Conflict(f"{challenger[:64]!r} does not follow model {model}; its challengers: {known}", "not_a_challenger")
        head = await engine.call(lambda s: s.head(challenger))  # it has all events that `theirs` has
        ours = await engine.wait_for(challenger, head.seq, engine.settings.observe_timeout_ms)
        verdict = verdict_on(comparison(theirs.pairs.shared[challenger], ours.pairs.shared[OWN]))
        content = await saved_content(engine, challenger)
        loop = asyncio.get_running_loop()
        candidate = await loop.run_in_executor(None, _candidate, engine.context.log_thread.call, theirs, content)
        done = await promote(engine, model, candidate, verdict, {"challenger": challenger}, force=force)
        return {"challenger": challenger, **done, "verdict": verdict}


def with_settings(own: ModelConfig, settings: Mapping[str, Any]) -> ModelConfig:
    """Return a configuration with some settings replaced, within sections too. Another kind of learner begins with its defaults.
    Raises `BadInput` as `read_config` does."""
    document = write_document(own)
    for name, value in settings.items():
        held = document.get(name)
        if not (isinstance(held, dict) and isinstance(value, Mapping)):
            document[name] = value
        elif name == "learner" and value.get("kind", held["kind"]) != held["kind"]:
            document[name] = dict(value)
        else:
            document[name] = {**held, **value}
    config = read_config(document, [own.encoder.curves])
    if config.learner != own.learner:
        require_bounded(config)
    return config


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in (FOLLOW, BACKFILL)}


def _candidate(call: Call, theirs: Published, content: bytes) -> ModelState:
    """Return the state in a checkpoint of a challenger as a state of the log of its leader, at the event after which the leader
    had learnt the same events. theirs : the leader at that event or before"""
    candidate = ModelState.of(content)
    model, name = theirs.model.origin.name, candidate.name
    ours, shared = candidate.observers[Pairs].shared[OWN], theirs.pairs.shared[name]
    seq, log_chain, events, chain = theirs.applied, theirs.chain, shared.losses.events, shared.chain
    try:
        for record in read_log(call, model, theirs.applied):
            if events >= ours.losses.events:
                break
            if record.kind == "observe":
                events, chain = events + record.count, next_chain(chain, record.digest)
            seq, log_chain = record.last, record.chain
    except LogGap as error:
        raise outdated(model, error.detail) from error
    if (events, chain) != (ours.losses.events, ours.chain):
        raise _detached(name, model)
    candidate.name, candidate.lineage, candidate.applied, candidate.chain = model, theirs.model.origin.lineage, seq, log_chain
    learnt = candidate.config  # settings that its weights depend on
    candidate.config = replace(theirs.config, learner=learnt.learner, label_weight=learnt.label_weight)
    candidate.observers.put("pairs", Pairs(candidate.answers))
    return candidate


def _require_comparable(theirs: ModelConfig, ours: ModelConfig, names: tuple[str, str]) -> None:
    if fixed := [name for name in changed(theirs, ours) if name.startswith(SHARED)]:
        raise _cannot(*names, f"{', '.join(fixed)}: rows are stored as model {names[1]} encoded them; leave these settings out")


def _cannot(model: str, leader: str, why: str) -> Conflict:
    return Conflict(f"model {model} cannot follow {leader[:64]}: {why}", "cannot_follow")


def _detached(model: str, leader: str) -> Conflict:
    return Conflict(
        f"model {model} has not learnt the same events as {leader} since it follows; drop it and let another one follow",
        "detached",
    )


# What the state of a model says of the model that it follows, and of those that follow it.


def relations(engine: Engine, published: Published) -> dict[str, Any]:
    """Return what a model follows, and its challengers with the difference of their losses from its own."""
    name, pairs, served = published.model.origin.name, published.pairs, engine.served_models
    follow = None
    if pairs.follows:
        leader = served.get(pairs.follows)
        theirs = None if leader is None or leader.published is None else leader.published.pairs
        follow = {
            "model": pairs.follows,
            "events": pairs.shared[OWN].losses.events,
            "lag_events": max(served[name].logged - published.applied, 0),
            "detached": theirs is None or name not in theirs.challengers,
        }
    found = {one: served[one].published for one in pairs.challengers if one in served}
    challengers = [
        {
            "name": one,
            "learner": write_document(other.config.learner),
            "events": other.pairs.shared[OWN].losses.events,
            "non_zeros": other.model.weights.non_zeros,
            **comparison(pairs.shared[one], other.pairs.shared[OWN]),
            "past": other.pairs.past or None,
        }
        for one, other in found.items()
        if other is not None
    ]
    return {FOLLOW: follow, "challengers": challengers}
