"""The moving parts, put together: the store's thread, the writer's thread, and a desk for each model.

             event loop                       store's thread                     writer's thread
append ───► keeper.submit ───────────────►  one transaction, fsync
                                                │ on_logged: desk takes note ──►  learns, in log order
await  ◄─────────────────────────────────── done│                                     │ published: desk.published = …
wait_for ◄────────────────────────────────────────────────────────────────────────────┘ desk.wake
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from riata.base.clock import Clock
from riata.base.errors import Busy, NotFound, RiataError, Unavailable, nearest
from riata.learn.registry import ALGO_VERSION, LearnerConfig
from riata.run.checkpointer import Checkpointer, Saved
from riata.run.config import ModelConfig, config_payload
from riata.run.desk import Desk
from riata.run.engine_settings import EngineSettings, Tally
from riata.run.keeper import Keeper
from riata.run.looking import Looked
from riata.run.model_state import ModelState
from riata.run.published import Published
from riata.run.recovery import Recovered, newest_verifies, recover_all
from riata.run.warm_up import warm_up, warm_up_learner
from riata.run.writer import Adopt, Forget, Logged, Look, Nudge, SaveNow, Writer, WriterHooks
from riata.store import records
from riata.store.store import Append, Appended, Owner, Store, Verdict

T = TypeVar("T")
log = logging.getLogger("riata.run")

DEFAULT_MODEL = "default"


class Engine:
    """Everything that runs. Made by the event loop's thread, which also calls every async method."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        settings: EngineSettings,
        clock: Clock,
        draw: Callable[[int], bytes],
        on_fatal: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.draw = draw  # random bytes for lineages and the owner's nonce; never for learning
        self.desks: dict[str, Desk] = {}
        self.tally = Tally()
        self.fatal: str | None = None
        self.stopping = False
        self.started = False
        self.warnings: list[str] = []
        self._on_fatal = on_fatal
        self._keeper = Keeper(open_store, self._on_logged, self._store_failed)
        self._writer: Writer | None = None
        self._owner: Owner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scrubbing: asyncio.Task[None] | None = None
        self._warm: set[str] = set()  # kinds of learners whose kernels are ready

    # -- starting and stopping -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Own the store, recover every model, begin to learn. Raises what the store or the recovery raises."""
        self._loop = asyncio.get_running_loop()
        await asyncio.wrap_future(self._keeper.start())
        nonce, now_ms = self.draw(16), self.clock.unix_ms()
        self._owner = owner = await self.call(lambda s: s.acquire(nonce, ALGO_VERSION, self.settings.host, now_ms))
        await self.call(lambda s: s.drop_stale_stages(owner))
        self.warnings = await self.call(lambda s: s.warnings())
        log.info("loading kernels; a first start compiles them, which takes about a minute")
        await self._loop.run_in_executor(None, warm_up)
        await self.warm(ModelConfig().learner)
        self.tally.compiled = True
        recovering = partial(recover_all, self._keeper.call, owner, self.clock.unix_ms, self.tally)
        recovered = await self._loop.run_in_executor(None, recovering)
        self.tally.compiled = False
        for found in recovered:
            await self.warm(found.state.config.learner)
        self.tally.compiled = True
        checkpointer = Checkpointer(self._keeper.call, owner, self.settings.retention)
        self._writer = writer = Writer(checkpointer, self.clock, self._hooks())
        writer.start()
        for found in recovered:
            await self._take_up(found)
        if DEFAULT_MODEL not in self.desks:
            await self.create(DEFAULT_MODEL, ModelConfig())
        await asyncio.wrap_future(writer.settle())
        self.started = True
        log.info("ready: %d models", len(self.desks))
        self._scrubbing = asyncio.create_task(self._scrub_for_ever())

    async def stop(self) -> None:
        """Learn what is logged, save it, let the store go."""
        self.stopping = True
        if self._scrubbing is not None:
            self._scrubbing.cancel()
        if self._writer is not None and self.fatal is None:
            saving = [self.save(name, if_ahead=True) for name in self.desks]
            for failure in await asyncio.gather(*saving, return_exceptions=True):
                if isinstance(failure, RiataError):
                    log.error("last checkpoint: %s; the next start replays the log instead", failure.detail)
        loop = asyncio.get_running_loop()
        if self._writer is not None:
            await loop.run_in_executor(None, self._writer.close)
        owner = self._owner
        if owner is not None and self.fatal is None:
            await self.call(lambda s: s.release(owner))
        await loop.run_in_executor(None, self._keeper.close)

    async def _take_up(self, found: Recovered) -> None:
        state = found.state
        desk = Desk.open(state.name, state.config.encoder, state.applied)
        desk.learn_names(await self.call(lambda s: list(s.names(state.name))))
        self.desks[state.name] = desk
        self.tally.generations_corrupt += len(found.corrupt)
        log.info(
            "model %s: generation %d, %d events replayed, at event %d",
            state.name,
            found.generation,
            found.replayed,
            state.applied,
        )
        if found.corrupt:
            log.error("model %s: generations %s do not verify; a fresh one is written now", state.name, found.corrupt)
        self.writer.put(Adopt(state, found.generation, state.applied - found.replayed))
        self._log_refused(state.name, found.refused)
        if found.corrupt:
            self.writer.put(SaveNow(state.name))

    # -- what everything else is made of ---------------------------------------------------------------------------

    @property
    def writer(self) -> Writer:
        """The writer. Raises `Busy` (code `not_ready`) before there is one."""
        if self._writer is None:
            raise Busy("the log is being replayed; try again", "not_ready")
        return self._writer

    @property
    def owner(self) -> Owner:
        """The token of this process. Raises `Busy` (code `not_ready`) before there is one."""
        if self._owner is None:
            raise Busy("the store is being opened; try again", "not_ready")
        return self._owner

    def writer_alive(self) -> bool:
        """False where the writer's thread ended although nobody asked it to."""
        return self._writer is None or self._writer.alive()

    def desk(self, name: str) -> Desk:
        """Raises `NotFound` (code `model_not_found`), or `Busy` (code `not_ready`) while the log is replayed."""
        desk = self.desks.get(name)
        if desk is not None:
            return desk
        if not self.started:
            raise Busy("the log is being replayed; try again", "not_ready")
        raise NotFound(f"no model named {name[:64]!r}; {nearest(name, self.desks)}", "model_not_found")

    def published(self, name: str) -> Published:
        """What is served of a model. Raises as `desk` does."""
        published = self.desk(name).published
        if published is None:
            raise Busy("the model is being made ready; try again", "not_ready")
        return published

    def require_accepting(self, name: str) -> Desk:
        """The desk of a model that can take events now. Raises `Busy` with the reason where it cannot."""
        desk = self.desk(name)
        applied = self.published(name).applied
        if self.stopping:
            raise Busy("the service is stopping", "stopping", retry_after_s=5)
        if self.fatal is not None:
            raise Unavailable(f"learning has stopped: {self.fatal}", "writer_stopped")
        if not self.started:
            raise Busy("the log is being replayed; try again", "not_ready")
        if self._keeper.waiting() >= self.settings.inbox_requests_max:
            raise Busy(f"{self.settings.inbox_requests_max} requests wait for the log already", "queue_full")
        if desk.logged - applied > self.settings.lag_events_max:
            raise Busy(f"{desk.logged - applied} events are logged but not learnt yet", "lag", retry_after_s=2)
        return desk

    async def call(self, work: Callable[[Store], T]) -> T:
        """Run `work` in the store's thread."""
        return await asyncio.wrap_future(self._keeper.call(work))

    async def append(self, append: Append) -> Appended:
        """Append in the next group. Raises `Unavailable` (outcome unknown) where the log does not answer in time."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Appended] = loop.create_future()

        def settle(answer: Appended | RiataError) -> None:
            if future.done():
                return
            if isinstance(answer, RiataError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self._keeper.submit(append, lambda answer: _later(loop, settle, answer))
        try:
            appended = await asyncio.wait_for(future, self.settings.observe_timeout_ms / 1000)
        except TimeoutError:
            detail = "the log did not answer in time; send the same event ids again to learn what became of them"
            raise Unavailable(detail, "log_timeout", outcome="unknown") from None
        if appended.refused is not None:
            raise appended.refused
        return appended

    async def wait_for(self, name: str, seq: int, timeout_ms: int) -> Published:
        """Wait until what is served includes event `seq`. Raises `Busy` (code `not_yet`) after `timeout_ms`."""
        desk = self.desk(name)
        published = self.published(name)
        if published.applied >= seq:
            return published
        future: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        desk.wait(seq, future)
        desk.wake()  # it may have been published between the look above and the entry in the list
        self.writer.put(Nudge(name))
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            raise Busy(f"event {seq} is not served yet", "not_yet") from None
        finally:
            desk.wake()

    async def save(self, name: str, if_ahead: bool = False) -> Saved:
        """Checkpoint the present state; answer when it is durable. Raises `Unavailable` where there is no room."""
        request = SaveNow(name, if_ahead)
        self.writer.put(request)
        saved = await asyncio.wrap_future(request.future)
        if saved.verdict is not Verdict.OK:
            raise Unavailable(f"the checkpoint was not written: {saved.detail or saved.verdict}", "checkpoint_failed")
        return saved

    async def look(self, name: str) -> Looked:
        """Copies of the curvature of a model as it is now. Raises `NotFound`, `Unavailable`."""
        request = Look(name)
        self.writer.put(request)
        return await asyncio.wrap_future(request.future)

    async def scrub(self) -> list[str]:
        """Read back the newest generation of every model; where one has rotted, write a fresh one from memory, which is good.
        Returns the names of those models."""
        rotten = []
        for name in list(self.desks):
            if await self.call(partial(newest_verifies, name=name)):
                continue
            rotten.append(name)
            self.tally.generations_corrupt += 1
            log.error("model %s: its newest generation has rotted; a fresh one is written now", name)
            await self.save(name)
        return rotten

    async def _scrub_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.scrub_every_s)
            try:
                await self.scrub()
            except RiataError as error:
                log.error("scrubbing: %s", error.detail)

    async def warm(self, config: LearnerConfig) -> None:
        """Make the kernels of this kind of learner ready, once, in a thread: they may have to be compiled."""
        if config.kind not in self._warm:
            log.info("loading the kernels of %s; the first time compiles them, which takes up to a minute", config.kind)
            await asyncio.get_running_loop().run_in_executor(None, warm_up_learner, config)
            self._warm.add(config.kind)

    async def create(self, name: str, config: ModelConfig) -> None:
        """Begin a model: an empty log whose first event is its configuration."""
        await self.warm(config.learner)
        lineage = self.draw(16)
        await self.call(lambda s: s.create(name, lineage))
        appended = await self.append(Append(name, "config", self.clock.unix_ms(), payload=config_payload(config)))
        if appended.record is None:
            raise Unavailable("the configuration could not be logged", "store_failed")
        state = ModelState(name, lineage)
        state.apply(appended.record)
        self.desks[name] = Desk.open(name, config.encoder, state.applied)
        self.writer.put(Adopt(state))
        await asyncio.wrap_future(self.writer.settle())

    async def drop(self, name: str) -> None:
        """Forget a model and everything kept of it."""
        owner = self.owner
        del self.desks[name]
        self.writer.put(Forget(name))
        await self.call(lambda s: s.drop(owner, name))

    # -- called by the threads -------------------------------------------------------------------------------------

    def _hooks(self) -> WriterHooks:
        return WriterHooks(self._on_published, self._log_refused, self._on_saved, self._wanted, self._writer_failed)

    def _on_logged(self, append: Append, appended: Appended) -> None:
        desk = self.desks.get(append.model)
        if desk is not None:
            desk.on_logged(append, appended)
        if self._writer is not None and appended.record is not None:
            self._writer.put(Logged(appended.record, appended.batch))

    def _on_published(self, published: Published) -> None:
        desk = self.desks.get(published.model.name)
        if desk is None:
            return
        desk.published = published
        if desk.lowest_wanted is not None and self._loop is not None:
            _later(self._loop, desk.wake)

    def _wanted(self, name: str) -> int | None:
        desk = self.desks.get(name)
        return desk.lowest_wanted if desk is not None else None

    def _log_refused(self, name: str, refused: dict[int, str]) -> None:
        for seq, reason in refused.items():
            append = Append(name, "skip", self.clock.unix_ms(), payload=records.encode_skip(seq, reason))
            self._keeper.submit(append, lambda _answer: None)

    def _on_saved(self, saved: Saved) -> None:
        ok = saved.verdict is Verdict.OK
        self.tally.saved(ok, saved.took_ms)
        if not ok:
            log.error("model %s: checkpoint not written: %s", saved.model, saved.detail or saved.verdict)

    def _writer_failed(self, reason: str) -> None:
        """Learning ends; predictions go on from the last good model, liveness says so, a new start decides."""
        log.critical("%s", reason)
        self.fatal = reason

    def _store_failed(self, reason: str) -> None:
        """Nobody knows what the disk holds: answer `unknown`, then end the process."""
        log.critical("the store failed: %s", reason)
        self.fatal = reason
        self._on_fatal(reason)


def _later(loop: asyncio.AbstractEventLoop, work: Callable[..., None], *args: object) -> None:
    """Have the event loop call `work`, or nobody where the loop has ended."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(work, *args)
