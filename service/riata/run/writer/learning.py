"""The part of an engine that learns: owns the writer, starts it from recovered states, and publishes and saves its results."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from riata.base.errors import Busy, LogFork, LogGap, RiataError, StoreFailed, Unavailable
from riata.base.limits import GENERATIONS_KEPT_MIN
from riata.learn.registry import spec_of
from riata.predict.name_book import NameBook
from riata.run.cluster.lease import WriterPosition
from riata.run.engine_context import EngineContext
from riata.run.log.log_reading import PACED_BYTES, Again, read_again
from riata.run.served_model import ServedModel
from riata.run.state.checkpoint_scrub import CheckpointScrub
from riata.run.state.config import Change, change_from_payload
from riata.run.state.damage import Damage
from riata.run.state.model_state import ModelState
from riata.run.state.provenance import current
from riata.run.state.recovery import Recovered
from riata.run.writer.checkpointer import Checkpointer, Saved
from riata.run.writer.published import Published, publish
from riata.run.writer.queue import AddModel, CopySketch, DropModel, SaveNow, SketchCopy, WriterHooks
from riata.run.writer.writer import Writer
from riata.store import records
from riata.store.store import DAMAGED, Append, Owner, Record, Store, Verdict
from riata.watch.drift import drift_sentence
from riata.watch.slices import EQUALS, wanted
from riata.wire.names import TIMES, Names

CROSSED: Final = TIMES.decode()  # in the names of crossed features
EVERY_MS: Final = 10_000  # between two events that name values: they come by the dozen

T = TypeVar("T")
log = logging.getLogger("riata.run")

FEW_EVENTS: Final = 1000  # a model that has replayed no more is saved when it is its turn
SAVING_S_MAX = 12  # of one checkpoint, once its turn has come
AGAIN_S = 1.0  # between two attempts to read the log of a promoted model
LOST = frozenset({"fenced", "log_fork", "log_gap", "store_exchanged", records.RECORD_DAMAGED})

ROOM_EVERY_MS = 30_000  # a store that stays full after everything was saved is full of other data


# The names of features that a model's settings ask for by field, found among the names seen, and the event that tells the state.
#
# Rows in the log hold hashes, and names are beside the log, for display: no state may depend on them. So the process that learns
# looks for them and logs what it found, name and hash, in a `config` event that sets nothing new. From that event on the state
# counts them, in a replay too.


class NamesLooked:
    """When the names of one model were last looked through, and what had been seen then."""

    def __init__(self) -> None:
        self._looked: tuple[int, tuple[int, ...]] | None = None
        self._asked: tuple[int | None, tuple[int, ...]] = (None, ())  # when, and the changes of the configuration until then

    def payload(self, published: Published, names: NameBook) -> bytes | None:
        """Return the payload of the event that says which names were found; None if there are no new ones, or were a moment ago.

        It is valid for the configuration in force only. If it is void, or the store refuses it, the names are found again.
        """
        config, now_ms = published.config, published.published_mono_ms
        asked_ms, asked_at = self._asked
        is_recent = asked_ms is not None and now_ms - asked_ms < EVERY_MS
        unfound = _unfound(published)
        if not (config.slices or unfound) or (is_recent and (not unfound or asked_at == published.changes)):
            return None
        seen = len(names), published.changes
        if seen == self._looked:
            return None
        found = {**({} if is_recent else _values(published, names)), **names.hashes_of(unfound)}
        if not found:
            self._looked = None if is_recent else seen
            return None
        self._asked = now_ms, published.changes
        return Change(config, published.changes[-1] if published.changes else 0, names=found).payload()


def _kinds_contradicted(published: Published, names: NameBook) -> bytes | None:
    """Return the payload of the event that changes kinds which the first rows contradict; None if there are none."""
    found = {} if names.kinds is None else names.kinds.contradicted(published.examples)
    if not found:
        return None
    config = published.config
    config = replace(config, encoder=replace(config.encoder, fields=config.encoder.fields.with_kinds(found)))
    return Change(config, published.changes[-1] if published.changes else 0).payload()


def _values(published: Published, names: NameBook) -> dict[str, int]:
    """Return the values of sliced fields that are not slices yet."""
    fields = published.config.slices
    known = {name: value for field in fields for name, value in names.with_prefix(field + EQUALS) if CROSSED not in name}
    return wanted(known, fields, [f"{one['field']}{EQUALS}{one['value']}" for one in published.figures.get("slices", [])])


def _unfound(published: Published) -> list[str]:
    """Return the features whose weights are to be followed and are not yet."""
    held = () if published.followed is None else published.followed.names
    return [name for name in published.config.weights_followed if name not in held]


class Learning:
    """Owner of the writer. Created when the store is owned; `owner` is the token."""

    def __init__(self, context: EngineContext, owner: Owner) -> None:
        self.owner = owner
        self._dropped: set[bytes] = set()  # lineages of models that were dropped; the writer may still hold them for a moment
        self._context = context
        self.on_published: Callable[[str], None] = lambda _name: None  # called whenever something new of a model is served
        self.on_dropped: Callable[[str], None] = lambda _name: None  # called when a model was dropped, or is damaged
        self.taking_up = threading.Lock()  # held while a recovered model is taken up, and when one begins to be dropped
        self._replayed: dict[bytes, Callable[[], None]] = {}  # by lineage, called when what was logged before is served
        archived = None if context.archive is None else context.archive.bound
        self._checkpointer = checkpointer = Checkpointer(context.log_thread.call, owner, context.settings.retention, archived)
        if context.archive is not None:
            context.archive.trim = checkpointer.trim
        self._room = MakingRoom(context, checkpointer, self.save)
        self._scrub = CheckpointScrub(context, owner, self.save)
        self._counting = threading.Lock()
        self._looked: dict[bytes, NamesLooked] = {}  # by lineage, of models that ask for features by name
        hooks = WriterHooks(
            self._on_published,
            self.log_refused,
            self._log_answer,
            self._on_saved,
            self._wanted,
            self._writer_failed,
            self._read_again,
            lambda damage: context.log_thread.call(partial(self.record_damaged, damage=damage)),
        )
        left_s = context.settings.lag_s_max / 2  # rows are refused once one has waited for all of it
        self.writer = Writer(checkpointer, context.clock, hooks, left_s, context.yield_to_loop)

    def take_up(self, found: Recovered, names: Names) -> bool:
        """Serve a recovered state, from event `found.serve_from` on, and continue learning from it. What the log has after it is
        to be put into the writer next. `names` are those of `starting.learning_names`.

        Returns whether it is served with everything that belongs to it; otherwise the writer does that."""
        state = found.state
        served_model = self._served_of(found, names)
        served_model.replay_to, now_ms = 0, self._context.clock.monotonic_ms()
        if (events := found.end - state.applied) > 0:
            served_model.replay_to = found.end
            self._replayed[state.lineage] = partial(self._has_replayed, state, events, now_ms)
        self._context.tally.generations_corrupt += len(found.corrupt)
        origin = f"snapshot {found.generation}" if found.generation else "no checkpoint"
        at = (state.name, origin, found.replayed, state.applied, events)
        log.info("model %s: %s, %d events learnt, at event %d; %d more are replayed", *at)
        if found.corrupt:
            log.error("model %s: snapshots %s failed verification; a new one is written now", state.name, found.corrupt)
        if found.upgraded is not None:
            before, event = found.upgraded
            log.warning("model %s: learnt with %s; from upgrade event %d on with %s", state.name, before, event, current())
        self._context.tally.replayed += found.replayed
        overdue = events <= FEW_EVENTS and (state.has_learnt or events > 0)
        is_shown = self._show(publish(state, found.generation, 1, self._context.clock))
        is_whole = is_shown and not spec_of(state.config.learner).keeps_curvature  # to invert that may take long
        self.writer.put(AddModel(state, found.generation, state.applied - found.replayed, overdue, is_whole))
        if is_shown:
            self._context.catalogue.arrived(state.name, state.lineage)
        self.log_refused(state.name, found.refused)
        if found.corrupt or (found.replayed > FEW_EVENTS and state.has_learnt):
            # The replayed events have missed their checkpoint once already. If they had to wait for the next scheduled one, a
            # process that crashes more often than the schedule would replay more at each start.
            self.writer.put(SaveNow(state.name))
        return is_whole

    def show(self, found: Recovered, names: Names) -> None:
        """Serve the state of a checkpoint as it is, while the caller learns on from it and takes it up later."""
        served_model = self._served_of(found, names)
        served_model.replay_to = max(found.end, found.state.applied + 1)
        published = publish(found.state, found.generation, 0, self._context.clock)
        self._serve(served_model, replace(published, replaying=True))

    def _served_of(self, found: Recovered, names: Names) -> ServedModel:
        """Return the served model of a recovered state. Raises `LogFork` if what is served of it is beyond the end of its log."""
        state, catalogue = found.state, self._context.catalogue
        state.stepping = self._context.crash_note.stepping
        served_model = catalogue.served_models.get(state.name)
        if served_model is None or served_model.lineage != state.lineage:
            served_model = ServedModel.open(state.name, state.config.encoder, state.applied, state.lineage)
        served = served_model.published
        if served is not None and served.applied > found.end:
            raise LogFork(f"event {served.applied} of {state.name} was served, but its log ends at event {found.end}")
        served_model.serve_from = max(found.serve_from, 0 if served is None else served.applied)
        served_model.logged = max(served_model.logged, found.end)
        served_model.changed = state.applied  # no event after it changes the configuration
        served_model.learn_names(names)
        served_model.named = max(served_model.named, found.end)
        if served is not None and served.applied < found.end:
            served_model.published = replace(served, replaying=True)
        catalogue.put(served_model)
        return served_model

    def _has_replayed(self, state: ModelState, events: int, begun_ms: int) -> None:
        """Called in the writer's thread once everything that was logged before the start is served."""
        state.left_out, name = frozenset(), state.name
        self._context.tally.replayed += events
        self._context.tally.recovered(events, max(1, self._context.clock.monotonic_ms() - begun_ms) / 1000)
        log.info("model %s: replayed to event %d", name, state.applied)
        if state.careful_to:  # the event at which processes have crashed is learnt
            state.careful_to = 0
            self._context.log_thread.call(lambda s: s.mark_inflight(self.owner, name, 0, 0))
        if state.has_learnt and events > FEW_EVENTS:
            self.writer.put(SaveNow(name))  # as in `take_up`

    def give_up(self, damage: Damage) -> None:
        """Stop serving and learning a model that is damaged in a part that is needed."""
        self._context.catalogue.arrived(damage.model, damage.lineage)
        self._context.catalogue.set_damaged(damage)
        log.error("%s", damage.sentence())
        self.on_dropped(damage.model)
        self.writer.put(DropModel(damage.model, damage.lineage))

    def record_damaged(self, store: Store, damage: Damage) -> None:
        """Give up a model whose log was found damaged while it was read or learnt; marked for the other processes, and starts."""
        store.mark_inflight(self.owner, damage.model, DAMAGED, max(damage.event, 1))
        self._context.tally.forks += 1
        self.give_up(damage)

    def begin(self, state: ModelState) -> None:
        """Serve and learn a new model, whose configuration has been applied."""
        served_model = self._context.catalogue.served_models.get(state.name)
        if served_model is None or served_model.lineage != state.lineage:
            served_model = ServedModel.open(state.name, state.config.encoder, state.applied, state.lineage)
            served_model.named = state.applied  # its configuration brought none
            self._context.catalogue.put(served_model)
        state.stepping = self._context.crash_note.stepping
        self.writer.put(AddModel(state))

    async def drop(self, name: str) -> None:
        """Drop a model from the store, then stop learning and serving it. It may be created again before this returns."""
        catalogue = self._context.catalogue
        known = catalogue.served_models.get(name) or catalogue.coming.get(name)
        lineage = known.lineage if known is not None else b""
        with self.taking_up:
            self._dropped.add(lineage)
        try:
            await self._context.call(partial(self._drop, name=name))
        except BaseException:
            self._dropped.discard(lineage)
            raise
        if self._context.archive is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._context.archive.drop, name)
        now = catalogue.served_models.get(name) or catalogue.coming.get(name)
        if now is None or now.lineage == lineage:
            catalogue.remove(name)
        self.writer.put(DropModel(name, lineage))

    def _drop(self, store: Store, name: str) -> None:
        store.drop(self.owner, name)
        self.on_dropped(name)

    def was_dropped(self, lineage: bytes) -> bool:
        """Whether a model is being dropped, or was. Held under `taking_up`, until what it says was acted upon."""
        return lineage in self._dropped

    def positions(self) -> dict[str, WriterPosition]:
        """The position of every model that was not dropped, for the renewal of the lease. Any thread may call it."""
        positions = self.writer.positions()
        return {name: position for name, position in positions.items() if position.lineage not in self._dropped}

    def names(self) -> list[str]:
        """The models that are served by what is learnt here."""
        return [name for name in self._context.catalogue.served_models if name not in self._context.catalogue.coming]

    async def save(self, name: str, if_ahead: bool = False, requested: bool = False, note: str | None = None) -> Saved:
        """Checkpoint the present state; returns when durable. With `note` it is kept until `delete_saved`. Raises `Unavailable`
        if the store has no room, `Busy` if the model is not served yet or (code `learner_busy`) if that takes too long."""
        self._require_learnt(name)
        request = SaveNow(name, if_ahead, requested, note)
        self.writer.put(request)
        saved = await self._within(request.future, name, "the snapshot was not written", SAVING_S_MAX)
        if saved.verdict is not Verdict.OK or saved.unreadable:
            raise Unavailable(f"the snapshot was not written: {saved.detail or saved.verdict}", "checkpoint_failed")
        return saved

    async def delete_saved(self, name: str, gen: int) -> None:
        """Delete a generation that was saved and is not the newest."""
        await asyncio.get_running_loop().run_in_executor(None, self._checkpointer.trim, name, (gen,))

    async def look(self, name: str) -> SketchCopy:
        """Return copies of the curvature of a model as it is now. Raises `NotFound`, `Unavailable`, `Busy` (`learner_busy`)."""
        self._require_learnt(name)
        request = CopySketch(name)
        self.writer.put(request)
        return await self._within(request.future, name, "its curvature could not be copied")

    def _require_learnt(self, name: str) -> None:
        """Raise `Busy` if the writer does not have a model yet, or has none of its states that may be served."""
        if (coming := self._context.catalogue.coming.get(name)) is not None:
            raise coming.error()

    async def settle(self, name: str | None = None) -> None:
        """Wait until everything of a model, or of all, that was logged so far is learnt and served. Raises `Busy` (code
        `learner_busy`) if that takes too long for one model."""
        await self.distributed()
        if name is None:
            await asyncio.wrap_future(self.writer.settle())
        else:
            await self._within(self.writer.settle(name), name, "it is not served yet")

    async def distributed(self) -> None:
        """Wait until the writer has every row that is logged."""
        with contextlib.suppress(RiataError):  # then a start puts them into the logs of their models
            await self._context.log_thread.all_distributed()

    async def _within(self, future: Future[T], name: str, what: str, more_s: float = 0.0) -> T:
        """Wait for the writer. Its own work on `future` may take `more_s` longer than the setting `observe_timeout_ms`."""
        wait_s = self._context.settings.observe_timeout_ms / 1000 + more_s
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), wait_s)
        except TimeoutError:
            raise Busy(f"model {name}: {what} within {wait_s:.0f} s; {self.why_slow(name)}", "learner_busy", 5.0) from None

    def why_slow(self, name: str) -> str:
        """Return a sentence about what a request to a model waits for."""
        busy = self.writer.busy()
        own = next((one for one in busy if one.model == name), None)
        if own is not None:
            return f"its learner has been busy with one step for {own.busy_s:.1f} s: see its settings, or drop it"
        if busy:
            return f"the learner has been busy with model {busy[0].model} for {busy[0].busy_s:.1f} s"
        return "the machine or the store is busy"

    async def make_room(self) -> None:
        """Trim the log as far as allowed when the store has no room for events, see `MakingRoom`."""
        await self._room.make_room()

    async def scrub(self) -> list[str]:
        """Read back the retained generations of every model, see `CheckpointScrub`. Returns the names of those with damage."""
        return await self._scrub.scrub()

    def log_refused(self, name: str, refused: dict[int, str]) -> None:
        """Log a skip event for each event that the learner refused, with the reason, and note it for requests that wait."""
        served_model = self._context.catalogue.served_models.get(name)
        if served_model is not None and refused:
            served_model.note_left_out(refused)
        for seq, reason in refused.items():
            append = Append(name, "skip", self._context.clock.unix_ms(), payload=records.encode_skip(seq, reason))
            self._context.log_thread.submit(append, lambda _answer: None)

    def _log_answer(self, name: str, payload: bytes) -> None:
        """Log an event that a model's state asks for: the answer to an alarm of drift, or names. If the store refuses it, it is
        asked for again."""
        if (alarm := change_from_payload(payload).alarm) is not None:
            log.warning("model %s: drift: %s", name, drift_sentence(alarm))
        append = Append(name, "config", self._context.clock.unix_ms(), payload=payload)
        self._context.log_thread.submit(append, lambda _answer: None)

    # -- called by the writer's threads ----------------------------------------------------------------------------

    def _on_published(self, published: Published) -> None:
        if self._show(published) and self._context.catalogue.coming:
            self._context.catalogue.arrived(published.model.origin.name, published.model.origin.lineage)

    def _show(self, published: Published) -> bool:
        """Serve a state, unless its model was dropped or it is too old."""
        served_model = self._context.catalogue.served_models.get(published.model.origin.name)
        if served_model is None or (served_model.lineage and served_model.lineage != published.model.origin.lineage):
            return False
        if published.applied < served_model.serve_from:
            return False
        if served_model.replay_to > published.applied:
            published = replace(published, replaying=True)
        elif served_model.replay_to:
            served_model.replay_to = 0
            self._replayed.pop(served_model.lineage, _nothing)()
        self._serve(served_model, published)
        if published.config.slices or published.config.weights_followed:
            looked = self._looked.setdefault(served_model.lineage, NamesLooked())
            if (payload := looked.payload(published, served_model.names)) is not None:
                self._log_answer(served_model.name, payload)
        if (payload := _kinds_contradicted(published, served_model.names)) is not None:
            self._log_answer(served_model.name, payload)
        if served_model.lowest_wanted is not None:
            self._context.wake(served_model)
        return True

    def _serve(self, served_model: ServedModel, published: Published) -> None:
        served_model.serve(published)
        served_model.asked = False
        self.on_published(served_model.name)

    def _wanted(self, name: str) -> int | None:
        served_model = self._context.catalogue.served_models.get(name)
        return served_model.lowest_wanted if served_model is not None else None

    def _on_saved(self, saved: Saved) -> None:
        ok = saved.verdict is Verdict.OK and not saved.unreadable
        with self._counting:  # several models may be told of at once
            self._context.tally.saved(ok, saved.took_ms)
            if saved.unreadable:
                self._context.tally.generations_corrupt += saved.generation is not None
        if ok and saved.generation is not None:
            self._context.tally.saved_at[saved.model] = saved.generation.applied
        if saved.unreadable:
            log.error("model %s: a snapshot cannot be read back, so the log is kept: %s", saved.model, saved.detail)
        elif not ok:
            log.error("model %s: snapshot not written: %s", saved.model, saved.detail or saved.verdict)

    def _read_again(self, promotion: Record, through: records.Through) -> Again | None:
        """Read what a promoted state learns again, in the store's thread, after every skip event that was submitted to it. Waits
        for a store that does not answer: a process of several then loses its lease, and ends."""
        while True:
            try:
                return read_again(self._context.log_thread.call, promotion, through, PACED_BYTES)
            except StoreFailed:
                raise
            except Unavailable as error:
                log.warning("model %s: its log cannot be read: %s", promotion.model, error.detail)
                time.sleep(AGAIN_S)

    def _writer_failed(self, reason: str, error: BaseException) -> None:
        """Learning ends. Predictions continue from the last good model, liveness fails, and a restart has to recover. If a shared
        store is owned by another process, or was rolled back, the restart has to come soon: the process ends."""
        lost = isinstance(error, LogGap | LogFork) or (isinstance(error, RiataError) and error.code in LOST)
        if lost and self._context.settings.shared:
            self._context.lost(reason)
        else:
            self._context.fatal(reason)


def _nothing() -> None:
    """For a model that has learnt everything before it was taken up."""


# What the process that learns does when the store has no room for events.


class MakingRoom:
    """Trims the logs of all models that are learnt here. save : writes a checkpoint of a model"""

    def __init__(self, context: EngineContext, checkpointer: Checkpointer, save: Callable[[str], Awaitable[Saved]]) -> None:
        self._context = context
        self._checkpointer = checkpointer
        self._save = save
        self._made_room_ms: int | None = None

    async def make_room(self) -> None:
        """Trim the log as far as allowed when the store has no room for events. Without this nothing would checkpoint again,
        because checkpoints follow events. At most once in ROOM_EVERY_MS."""
        now_ms = self._context.clock.monotonic_ms()
        if self._made_room_ms is not None and now_ms - self._made_room_ms < ROOM_EVERY_MS:
            return
        self._made_room_ms = now_ms
        log.warning(
            "the store has no space for events: snapshots of every model are written, and logs are trimmed as far as these allow"
        )
        with self._checkpointer.keeping_no_events():
            for name in list(self._context.catalogue.served_models):
                try:
                    for _ in range(GENERATIONS_KEPT_MIN):
                        await self._save(name)
                except RiataError as error:  # nothing waits for this result: save the others, and retry this one later
                    log.error("model %s: no space was freed: %s", name, error.detail)
