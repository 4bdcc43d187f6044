"""The engine connects the parts: a served model for each model, the store's thread, and the threads that the role needs.

             event loop                       store's thread
append ───► submit ──────────────────────►  one transaction, durable
await  ◄──────────────────────────────────  on_logged: the served model is updated

An embedded store has one process: the store's thread passes logged records to the writer (`learning`), which publishes to the
served models. With a shared store, in every role, the writer reads the log itself, because other processes also append to it
(`contender`). Until a process leads, its served models follow the editions that the leader publishes (`following`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from riata.base.clock import Clock
from riata.base.errors import Busy, Conflict, Corrupt, NotFound, RiataError, StoreFailed, Unavailable, nearest
from riata.learn.registry import LearnerConfig
from riata.run.accepting import lag_refusal, refusal, store_refusal
from riata.run.checkpointer import Saved
from riata.run.cluster.contender import Contender
from riata.run.cluster.copies import Copies
from riata.run.cluster.following import Following
from riata.run.cluster.store_watch import OWN_EVERY_S, OwnStore, StoreWatch
from riata.run.config import ModelConfig
from riata.run.creating import CREATING_S, create
from riata.run.engine_context import EngineContext, aside, later, settle
from riata.run.engine_settings import EngineSettings
from riata.run.learning import Learning
from riata.run.log_thread import Done, LogThread
from riata.run.loop_yield import waits_at
from riata.run.outcome import not_in_time
from riata.run.published import Published
from riata.run.roles import require_role
from riata.run.served_model import ServedModel
from riata.run.sketch_copy import SketchCopy
from riata.run.starting import start
from riata.run.writer_queue import Logged, PublishNow
from riata.store.store import Append, Appended, Owner, Store

T = TypeVar("T")
log = logging.getLogger("riata.run")


class Engine:
    """The running engine. Created in the event loop's thread, which also calls every async method.

    on_fatal : the store failed: end the process. on_lost : another process owns the store, or it was replaced: end the process
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        settings: EngineSettings,
        clock: Clock,
        draw: Callable[[int], bytes],
        on_fatal: Callable[[str], None],
        on_lost: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.draw = draw  # random bytes for lineages and the owner's nonce; never for learning
        self.fatal: str | None = None
        self.stopping = False
        self.recovered = False  # of an embedded store: every model was recovered
        self._on_fatal = on_fatal
        self._on_lost = on_lost or on_fatal
        self.loop: asyncio.AbstractEventLoop | None = None
        self._log_thread = LogThread(open_store, self._on_logged, self._store_failed, patient=settings.shared)
        self.context = EngineContext(
            settings, clock, draw, open_store, self._log_thread, self._wake, self._learning_failed, self._lost
        )
        self.tally = self.context.tally
        self.learning: Learning | None = None
        self.following: Following | None = None
        self.contender: Contender | None = None
        self.watch: StoreWatch | None = None
        self.scrubbing: asyncio.Task[None] | None = None

    # -- starting and stopping -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start; see `start_alone` for an embedded store, `start_shared` for a shared one, which continues in the background."""
        self.loop = asyncio.get_running_loop()
        self.context.yield_to_loop.to(waits_at(self.loop))
        if self.settings.shared:
            self._make_sides()
        else:
            self.watch = StoreWatch(lambda: OwnStore(self._log_thread), self._not_watched, every_s=OWN_EVERY_S)
        await start(self)

    def _make_sides(self) -> None:
        context = self.context
        kept = None if self.settings.copies is None else Copies(self.settings.copies, context.catalogue, self.clock)
        self.following = following = Following(context, kept)
        self.watch = StoreWatch(context.open_store, self._learning_failed, self._make_room)
        if self.settings.may_lead:
            self.contender = Contender(context, self._on_leading, following.why_not_lead, following.looked)

    async def stop(self) -> None:
        """Learn what is logged, save it, publish it, release the store."""
        self.stopping = True
        self.context.compilers.stop()
        loop = asyncio.get_running_loop()
        if self.scrubbing is not None:
            self.scrubbing.cancel()
        sides = [side for side in (self.watch, self.following) if side is not None]
        for side in sides:
            side.stop()
        if self.contender is not None:
            self.contender.give_up()
        for side in sides:
            await loop.run_in_executor(None, side.join)
        if self.contender is not None:
            await loop.run_in_executor(None, self.contender.stop_reading)
        if self.learning is not None and self.fatal is None:
            await self.learning.settle()
            if self.contender is None or self.contender.answers():  # otherwise it is replayed later: stopping must not take long
                await self.learning.save_all()
        if self.contender is not None:
            await loop.run_in_executor(None, self.contender.stop)
        if self.learning is not None:
            await loop.run_in_executor(None, self.learning.writer.close)
            owner = self.learning.owner
            if self.fatal is None and not self.settings.shared:
                await self.call(lambda s: s.release(owner))
        await loop.run_in_executor(None, self.context.ledger.close)
        await loop.run_in_executor(None, self._log_thread.close)

    # -- state and basic operations --------------------------------------------------------------------------------

    @property
    def served_models(self) -> Mapping[str, ServedModel]:
        """The current served models, by model name."""
        return self.context.catalogue.served_models

    @property
    def started(self) -> bool:
        """Whether every log was replayed; with a shared store, whether it has answered once or copies of its models exist."""
        if self.recovered or self.following is None:
            return self.recovered
        return self.following.follower.heard_ms is not None or bool(self.served_models)

    @property
    def leads(self) -> bool:
        """Whether this process is the one that learns (the leader)."""
        return self.learning is not None

    @property
    def owner(self) -> Owner:
        """The owner token of this process. Raises as `led` does."""
        return self.led("this").owner

    def led(self, what: str) -> Learning:
        """Return `Learning`. Raises `Busy` (code `not_ready`) if it does not exist yet, `Conflict` (code `other_role`) if this
        process does not learn. `what` names the operation in the error."""
        if self.learning is not None:
            return self.learning
        if not self.settings.shared:
            raise Busy("the log is being replayed; try again", "not_ready")
        if self.contender is not None and self.contender.lead.owner is not None:
            raise Busy("this process has just become the writer and is replaying the log; try again", "not_ready")
        raise Conflict(f"{what} needs the process that learns; {self.holder()}", "other_role")

    def require_role(self, what: str) -> None:
        """Raise `Conflict` (code `other_role`) if the role of this process does not do `what`."""
        require_role(self.settings.role, what)

    def holder(self) -> str:
        """A phrase that names the owner of the store, for error messages."""
        holder = self.following.holder if self.following else None
        return f"send it to {holder.host}" if holder else "no process learns now: start one with --role writer"

    def writer_alive(self) -> bool:
        """False if the writer's thread ended without being stopped."""
        return self.learning is None or self.learning.writer.alive()

    def served_model(self, name: str) -> ServedModel:
        """Raises `NotFound` (`model_not_found`), `ModelDamaged`, or `Busy` (`not_ready`) if the model may appear later."""
        served_model = self.served_models.get(name)
        if served_model is not None:
            return served_model
        self.context.catalogue.require_sound(name)
        if not self.started or (self.following is not None and self.following.follower.may_come(name)):
            raise self.not_started()
        if name in self.context.creating:
            raise Busy(self.context.why_not_warm(self.context.creating[name]) or "it is being created", "not_ready", CREATING_S)
        raise NotFound(f"no model named {name[:64]!r}; {nearest(name, self.served_models)}", "model_not_found")

    def not_started(self) -> RiataError:
        """The error for a request to a model that is not served yet."""
        if self.following is not None and self.following.follower.strange:
            return Unavailable(self.following.follower.strange, self.following.follower.strange_code)
        waits = "the model has not been loaded from the store yet" if self.settings.shared else "the log is being replayed"
        return Busy(f"{waits}; try again", "not_ready")

    def published(self, name: str) -> Published:
        """What is served of a model. Raises as `served_model` does."""
        published = self.served_model(name).published
        if published is None:
            raise Busy("the model is being made ready; try again", "not_ready")
        return published

    def require_accepting(self, served_model: ServedModel) -> None:
        """Raise `Busy` or `Unavailable` with the reason if the model of `served_model` accepts no events now."""
        refused = refusal(self) or lag_refusal(self, served_model)
        if refused is not None:
            raise refused

    def require_store(self) -> None:
        """Raise `Busy` or `Unavailable` if nothing may be logged now, for any model."""
        refused = store_refusal(self)
        if refused is not None:
            raise refused

    async def call(self, work: Callable[[Store], T]) -> T:
        """Run `work` in the store's thread."""
        return await asyncio.wrap_future(self._log_thread.call(work))

    async def append(self, append: Append) -> Appended:
        """Append in the next group. Raises `Unavailable` (outcome unknown) if the log does not answer in time."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Appended] = loop.create_future()
        self.append_soon(append, lambda answer: later(loop, settle, future, answer))
        try:
            return await asyncio.wait_for(future, self.settings.observe_timeout_ms / 1000)
        except TimeoutError:
            raise not_in_time() from None

    def append_soon(self, append: Append, done: Done) -> None:
        """Append in the next group, from any thread; `done` is called in the store's thread with the result or the error."""

        def told(answer: Appended | RiataError) -> None:
            if isinstance(answer, RiataError):
                done(self.why_not_logged(answer))
            else:
                done(answer if answer.refused is None else answer.refused)

        self._log_thread.submit(append, told)

    def why_not_logged(self, error: RiataError) -> RiataError:
        """The error that a client gets for an error of the store."""
        if isinstance(error, Corrupt):  # the store was replaced or is damaged: it was read and not written to
            return Unavailable(error.detail, error.code, outcome="not_accepted")
        if isinstance(error, Unavailable) and not isinstance(error, StoreFailed) and self.watch is not None:
            self.watch.kick()
        return error

    async def wait_for(self, name: str, seq: int, timeout_ms: int) -> Published:
        """Wait until what is served includes event `seq`. Raises `Busy` (code `not_yet`) after `timeout_ms`."""
        served_model = self.served_model(name)
        published = self.published(name)
        if served_model.served >= seq:
            return published
        future: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        served_model.wait(seq, future)
        served_model.wake()  # it may have been published between the check above and the call of `wait`
        if self.learning is not None:
            self.learning.writer.put(PublishNow(name))
        elif self.following is not None:
            self.following.kick()
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            raise Busy(f"event {seq} is not served yet", "not_yet") from None
        finally:
            served_model.wake()

    async def logged_now(self, name: str) -> int:
        """Return the last event of a model's log, read from the store: other processes append too. Raises `Unavailable`."""
        served_model = self.served_model(name)
        served_model.logged = max(served_model.logged, (await self.call(lambda s: s.head(name))).seq)
        return served_model.logged

    async def save(self, name: str, if_ahead: bool = False, requested: bool = False) -> Saved:
        """Checkpoint the present state; returns when durable. Raises `Unavailable` if the store has no room; as `led` does."""
        return await self.led("a checkpoint").save(name, if_ahead, requested)

    async def look(self, name: str) -> SketchCopy:
        """Return copies of the curvature of a model as it is now. Raises `NotFound`, `Unavailable`; as `led` does."""
        return await self.led("the path").look(name)

    async def scrub(self) -> list[str]:
        """Verify the retained generations of every model; see `Learning.scrub`."""
        return await self.led("scrubbing").scrub()

    async def warm(self, config: LearnerConfig) -> None:
        """Make the kernels for this kind of learner ready, once, in a thread: they may need compiling. Raises `Stopped`."""
        if not self.context.is_warm(config):
            await aside(self.context.warm, config)

    async def create(self, name: str, config: ModelConfig) -> bool:
        """Create a model; see `creating.create`."""
        return await create(self, name, config)

    async def drop(self, name: str) -> None:
        """Delete a model and everything stored for it. Raises as `led` does."""
        await self.led("dropping a model").drop(name)

    # -- called by other threads -----------------------------------------------------------------------------------

    def _on_logged(self, append: Append, appended: Appended) -> None:
        served_model = self.served_models.get(append.model)
        if served_model is not None:
            served_model.on_logged(append, appended)
        if not self.settings.shared and self.learning is not None and appended.record is not None:
            self.learning.writer.put(Logged(appended.record, appended.batch))

    def _on_leading(self, learning: Learning) -> None:
        """From now on the writer alone updates the served models."""
        if self.following is not None:
            self.following.stop()
            self.following.join()
        self.learning = learning

    def _wake(self, served_model: ServedModel) -> None:
        if self.loop is not None:
            later(self.loop, served_model.wake)

    def _make_room(self) -> None:
        if self.learning is not None and self.loop is not None:
            asyncio.run_coroutine_threadsafe(self.learning.make_room(), self.loop)

    def _learning_failed(self, reason: str) -> None:
        """Learning ends. Predictions continue from the last good model, liveness fails, and a restart has to recover."""
        log.critical("%s", reason)
        self.fatal = reason

    def _not_watched(self, reason: str) -> None:
        """An embedded store is watched through its only thread; if that failed, it has reported the failure itself."""
        if self.fatal is None:
            self._learning_failed(reason)

    def _store_failed(self, reason: str) -> None:
        """It is unknown what the disk holds: answer `unknown`, then end the process."""
        log.critical("the store failed: %s", reason)
        self.fatal = reason
        self._on_fatal(reason)

    def _lost(self, reason: str) -> None:
        """Another process owns the store, or it was replaced. Nothing learnt here from now on could be saved."""
        if self.fatal is None:
            log.critical("%s", reason)
            self.fatal = reason
            self.context.ledger.keep()
            if not self.stopping:
                self._on_lost(reason)
