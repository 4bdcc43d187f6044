"""The part of an engine that learns: owns the writer, starts it from recovered states, and publishes and saves its results."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from riata.base.errors import Busy, Corrupt, LogFork, LogGap, NotFound, RiataError, StoreFailed, Unavailable
from riata.base.limits import GENERATIONS_KEPT_MIN
from riata.run.checkpointer import Checkpointer, Saved
from riata.run.cluster.lease import WriterPosition
from riata.run.config import change_from_payload
from riata.run.damage import Damage, harms_one_model
from riata.run.drift import drift_sentence
from riata.run.engine_context import EngineContext
from riata.run.found_names import NamesLooked
from riata.run.generations import verifies
from riata.run.log_reading import PACED_BYTES, Again, read_again
from riata.run.model_state import ModelState
from riata.run.provenance import current
from riata.run.published import Published
from riata.run.recovery import Recovered
from riata.run.served_model import ServedModel
from riata.run.sketch_copy import SketchCopy
from riata.run.writer import Writer
from riata.run.writer_cell import WriterHooks
from riata.run.writer_queue import AddModel, CopySketch, DropModel, SaveNow
from riata.store import records
from riata.store.retention import is_own, oldest_of_newest
from riata.store.store import DAMAGED, Append, Generation, Owner, Record, Store, Verdict

T = TypeVar("T")
log = logging.getLogger("riata.run")

SAVING_S_MAX = 12  # of one checkpoint, once its turn has come
AGAIN_S = 1.0  # between two attempts to read the log of a promoted model
ROOM_EVERY_MS = 30_000  # a store that stays full after everything was saved is full of other data
LOST = frozenset({"fenced", "log_fork", "log_gap", "store_exchanged", records.RECORD_DAMAGED})


def learning_names(context: EngineContext, found: Recovered) -> list[tuple[int, bytes]]:
    """Return the feature names of a recovered model that are not known here yet. Waits for the store's thread."""
    name = found.state.name
    served_model = context.catalogue.served_models.get(name)
    named = served_model.named if served_model is not None and served_model.lineage == found.state.lineage else 0
    try:
        names: list[tuple[int, bytes]] = context.log_thread.call(lambda s: list(s.names(name, named))).result()
    except Corrupt as error:  # names are for display; nothing that is learnt or predicted depends on them
        if not harms_one_model(error) and not context.settings.shared:
            raise
        log.error("model %s: %s; its features are shown by slot until their names are sent again", name, error.detail)
        return []
    return names


class Learning:
    """Owner of the writer. Created when the store is owned; `owner` is the token."""

    def __init__(self, context: EngineContext, owner: Owner) -> None:
        self.owner = owner
        self._dropped: set[bytes] = set()  # lineages of models that were dropped; the writer may still hold them for a moment
        self._context = context
        self.on_published: Callable[[], None] = lambda: None  # called whenever something new is served
        archived = None if context.archive is None else context.archive.bound
        self._checkpointer = checkpointer = Checkpointer(context.log_thread.call, owner, context.settings.retention, archived)
        if context.archive is not None:
            context.archive.trim = checkpointer.trim
        self._made_room_ms: int | None = None
        self._scrubs = 0
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
        )
        self.writer = Writer(checkpointer, context.clock, hooks, context.yield_to_loop)

    def take_up(self, found: Recovered, names: list[tuple[int, bytes]]) -> None:
        """Serve a recovered state and continue learning from it; `names` are those of `learning_names`."""
        state, catalogue = found.state, self._context.catalogue
        served_model = catalogue.served_models.get(state.name)
        if served_model is None or served_model.lineage != state.lineage:
            served_model = ServedModel.open(state.name, state.config.encoder, state.applied, state.lineage)
        served = served_model.published
        if served is not None and served.applied > state.applied:
            raise LogFork(f"event {served.applied} of {state.name} was served, but its log ends at event {state.applied}")
        served_model.logged = max(served_model.logged, state.applied)
        served_model.changed = state.applied
        served_model.learn_names(names)
        served_model.named = max(served_model.named, state.applied)
        catalogue.put(served_model)
        self._context.tally.generations_corrupt += len(found.corrupt)
        at = (state.name, found.generation, found.replayed, state.applied)
        log.info("model %s: generation %d, %d events replayed, at event %d", *at)
        if found.corrupt:
            log.error("model %s: generations %s failed verification; a new one is written now", state.name, found.corrupt)
        if found.upgraded is not None:
            before, event = found.upgraded
            log.warning("model %s: learnt with %s; from upgrade event %d on with %s", state.name, before, event, current())
        self.writer.put(AddModel(state, found.generation, state.applied - found.replayed))
        self.log_refused(state.name, found.refused)
        if found.corrupt or (found.replayed and state.has_learnt):
            # The replayed events have missed their checkpoint once already. If they had to wait for the next scheduled one, a
            # process that crashes more often than the schedule would replay more at each start.
            self.writer.put(SaveNow(state.name))

    def give_up(self, damage: Damage) -> None:
        """Stop serving and learning a model that is damaged in a part that is needed."""
        self._context.catalogue.set_damaged(damage)
        log.error("%s", damage.sentence())
        self.writer.put(DropModel(damage.model, damage.lineage))

    def record_damaged(self, store: Store, damage: Damage) -> None:
        """Give up a model of a shared store whose log was found damaged while it was followed; marked for the other processes."""
        store.mark_inflight(self.owner, damage.model, DAMAGED, max(damage.event, 1))
        self._context.tally.forks += 1
        self.give_up(damage)

    def begin(self, state: ModelState) -> None:
        """Serve and learn a new model, whose configuration has been applied."""
        served_model = self._context.catalogue.served_models.get(state.name)
        if served_model is None or served_model.lineage != state.lineage:
            served_model = ServedModel.open(state.name, state.config.encoder, state.applied, state.lineage)
            self._context.catalogue.put(served_model)
        self.writer.put(AddModel(state))

    async def drop(self, name: str) -> None:
        """Drop a model from the store, then stop learning and serving it. It may be created again before this returns."""
        served_model = self._context.catalogue.served_models.get(name)
        lineage = served_model.lineage if served_model is not None else b""
        self._dropped.add(lineage)
        try:
            await asyncio.wrap_future(self._context.log_thread.call(lambda s: s.drop(self.owner, name)))
        except BaseException:
            self._dropped.discard(lineage)
            raise
        if self._context.archive is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._context.archive.drop, name)
        now = self._context.catalogue.served_models.get(name)
        if now is None or now.lineage == lineage:
            self._context.catalogue.remove(name)
        self.writer.put(DropModel(name, lineage))

    def positions(self) -> dict[str, WriterPosition]:
        """The position of every model that was not dropped, for the renewal of the lease. Any thread may call it."""
        positions = self.writer.positions()
        return {name: position for name, position in positions.items() if position.lineage not in self._dropped}

    def names(self) -> list[str]:
        """The models that are served."""
        return list(self._context.catalogue.served_models)

    async def save(self, name: str, if_ahead: bool = False, requested: bool = False, note: str | None = None) -> Saved:
        """Checkpoint the present state; returns when durable. With `note` it is kept until `delete_saved`. Raises `Unavailable`
        if the store has no room, `Busy` (code `learner_busy`) if that takes too long."""
        request = SaveNow(name, if_ahead, requested, note)
        self.writer.put(request)
        saved = await self._within(request.future, name, "the checkpoint was not written", SAVING_S_MAX)
        if saved.verdict is not Verdict.OK or saved.unreadable:
            raise Unavailable(f"the snapshot was not written: {saved.detail or saved.verdict}", "checkpoint_failed")
        return saved

    async def delete_saved(self, name: str, gen: int) -> None:
        """Delete a generation that was saved and is not the newest."""
        await asyncio.get_running_loop().run_in_executor(None, self._checkpointer.trim, name, (gen,))

    async def look(self, name: str) -> SketchCopy:
        """Return copies of the curvature of a model as it is now. Raises `NotFound`, `Unavailable`, `Busy` (`learner_busy`)."""
        request = CopySketch(name)
        self.writer.put(request)
        return await self._within(request.future, name, "its curvature could not be copied")

    async def settle(self, name: str | None = None) -> None:
        """Wait until everything of a model, or of all, that was put into the writer's queue so far is learnt and served. Raises
        `Busy` (code `learner_busy`) if that takes too long for one model."""
        if name is None:
            await asyncio.wrap_future(self.writer.settle())
        else:
            await self._within(self.writer.settle(name), name, "it is not served yet")

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
        """Trim the log as far as allowed when the store has no room for events. Without this nothing would checkpoint again,
        because checkpoints follow events. At most once in ROOM_EVERY_MS."""
        now_ms = self._context.clock.monotonic_ms()
        if self._made_room_ms is not None and now_ms - self._made_room_ms < ROOM_EVERY_MS:
            return
        self._made_room_ms = now_ms
        log.warning(
            "the store has no space for events: checkpoints of every model are written, and logs are trimmed as far as "
            "these allow"
        )
        with self._checkpointer.keeping_no_events():
            for name in list(self._context.catalogue.served_models):
                try:
                    for _ in range(GENERATIONS_KEPT_MIN):
                        await self.save(name)
                except RiataError as error:  # nothing waits for this result: save the others, and retry this one later
                    log.error("model %s: no space was freed: %s", name, error.detail)

    async def scrub(self) -> list[str]:
        """Read back the newest generations of every model, and one of those that are older or saved: they are many, and no start
        needs them. One that fails is marked as not verified, and a new one is written from the state in memory, which is sound.
        Returns the names of those models."""
        rotten = []
        self._scrubs += 1
        for name in list(self._context.catalogue.served_models):
            found = [generation.gen for generation in await self._generations(name) if not await self._verifies(name, generation)]
            if not found:
                continue
            rotten.append(name)
            self._context.tally.generations_corrupt += len(found)
            log.error("model %s: generations %s are damaged; a new one is written now", name, found)
            for gen in found:
                await self._call(partial(_disown, owner=self.owner, name=name, gen=gen))
            await self.save(name)
        return rotten

    async def _generations(self, name: str) -> list[Generation]:
        """The newest verified generations, the very newest of all, and the next in turn of the others; empty for a model that was
        dropped, or whose list is damaged."""
        try:
            found = await self._call(lambda s: s.generations(name))
        except NotFound:
            return []
        except Corrupt as error:
            if not harms_one_model(error):
                raise
            log.error("model %s: its checkpoints cannot be listed: %s", name, error.detail)
            return []
        first = oldest_of_newest(found, self._context.settings.retention.generations)
        sound = [generation for generation in found if generation.verified or generation is found[0]]
        newest = [generation for generation in sound if generation.gen >= first and is_own(generation)]
        others = [generation for generation in sound if generation not in newest]
        return newest + ([others[self._scrubs % len(others)]] if others else [])

    async def _verifies(self, name: str, generation: Generation) -> bool:
        return await self._call(partial(verifies, name=name, generation=generation))

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await asyncio.wrap_future(self._context.log_thread.call(work))

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
        served_model = self._context.catalogue.served_models.get(published.model.origin.name)
        if served_model is None or (served_model.lineage and served_model.lineage != published.model.origin.lineage):
            return
        served_model.published, served_model.edition, served_model.another = published, 0, ""
        self.on_published()
        if published.config.slices or published.config.weights_followed:
            looked = self._looked.setdefault(served_model.lineage, NamesLooked())
            if (payload := looked.payload(published, served_model.names)) is not None:
                self._log_answer(served_model.name, payload)
        if served_model.lowest_wanted is not None:
            self._context.wake(served_model)

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
            log.error("model %s: a checkpoint cannot be read back, so the log is kept: %s", saved.model, saved.detail)
        elif not ok:
            log.error("model %s: checkpoint not written: %s", saved.model, saved.detail or saved.verdict)

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


def _disown(store: Store, owner: Owner, name: str, gen: int) -> None:
    store.mark_verified(owner, name, gen, sound=False)
