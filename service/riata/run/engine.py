"""The engine connects the parts: a served model for each model, the store's thread, and the threads that the role needs.

             event loop                       store's thread
append ───► submit ──────────────────────►  one transaction, durable
await  ◄──────────────────────────────────  on_logged: the served model is updated

`AloneEngine` is the engine of an embedded store, `SharedEngine` of one that several processes share.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from riata.base.clock import Clock
from riata.base.errors import Busy, Conflict, Corrupt, NotFound, RiataError, Stopped, StoreFailed, Unavailable, nearest
from riata.base.request_trace import current_actor
from riata.run.cluster.store_watch import StoreWatch
from riata.run.engine_context import EngineContext, begin_log, later, settle
from riata.run.engine_settings import CREATING_S, EngineSettings, Role
from riata.run.jobs.jobs import Jobs
from riata.run.log.log_thread import Done, LogThread
from riata.run.outcome import not_in_time
from riata.run.served_model import MemoryBound, ServedModel, until_served
from riata.run.state.config import Change, ModelConfig
from riata.run.writer.checkpointer import Saved
from riata.run.writer.learning import Learning
from riata.run.writer.loop_yield import waits_at
from riata.run.writer.published import Published
from riata.run.writer.queue import PublishNow
from riata.store.store import Append, Appended, Record, Store

T = TypeVar("T")
log = logging.getLogger("riata.run")

LEFT_PART: Final = 0.4  # of `lag_s_max`: rows of joint records are left for so long; the writer waits no longer than half of it
ARRIVAL_S: Final = 1.0  # of a request for a model that a start has not come to yet: a small one takes some milliseconds
ARRIVAL_LOOK_S: Final = 0.005

DOES_NOT: Final[Mapping[str, Mapping[str, str]]] = {
    "writer": {"observe": "accepts no events; send them to a process with role web or all"},
    "replica": {
        "observe": "accepts no events; send them to a process with role web or all",
        "change": "changes no models; send the request to a process with role web, all or writer",
        "remember": "remembers no predictions; send the request to a process with role web or all",
    },
}


class Engine(ABC):
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
        self._on_fatal = on_fatal
        self._on_lost = on_lost or on_fatal
        self.loop: asyncio.AbstractEventLoop | None = None
        left_s = settings.lag_s_max * LEFT_PART
        self._log_thread = LogThread(open_store, self._on_logged, self._store_failed, settings.shared, settings.appends, left_s)
        self.context = EngineContext(
            settings, clock, draw, open_store, self._log_thread, self._wake, self._learning_failed, self._lost
        )
        self.tally = self.context.tally
        self.jobs = Jobs(self.context, self.led, lambda: self.leads and self.started)
        self.learning: Learning | None = None
        self.scrubbing: asyncio.Task[None] | None = None
        self.watch = self._store_watch()
        self.memory = MemoryBound(settings.memory_bytes_max, clock, lambda: self.served_models)

    # -- what an engine alone and one of several do differently ----------------------------------------------------

    @abstractmethod
    def _store_watch(self) -> StoreWatch:
        """Create the watch of the store."""

    @abstractmethod
    async def _start(self) -> None: ...

    @abstractmethod
    async def _stop(self) -> None:
        """Stop every thread but the store's, after saving what was learnt."""

    async def forget_challenger(self, model: str) -> None:  # noqa: B027  a shared store has none
        """Before `model` is dropped: no model that is not served yet still has it as a challenger."""

    async def unfollowed(self, leader: str) -> None:  # noqa: B027
        """Have the log of `leader` say which challengers it lost before it was served."""

    @property
    @abstractmethod
    def started(self) -> bool:
        """Whether every log was replayed; with a shared store, whether it has answered once or all copies on disk are served."""

    @abstractmethod
    def not_started(self) -> RiataError:
        """The error for a request to a model that is not served yet."""

    @abstractmethod
    def waits_for(self) -> str:
        """What a process that has not started waits for."""

    @abstractmethod
    def why_not_led(self, what: str) -> RiataError:
        """The error for an operation, named by `what`, that needs the writer."""

    @abstractmethod
    async def _served(self, name: str, lineage: bytes, record: Record | None) -> bool:
        """Wait until a model is served whose configuration is in the log, by this process as `record`. Returns whether this call
        has created it."""

    def may_come(self, name: str) -> bool:  # noqa: ARG002  on an embedded store all models are there
        """Whether a model that is not served may be in the store all the same."""
        return False

    def unrenewed_s(self) -> float:
        """For how long the process that learns has not been known to be the only one, s."""
        return 0.0

    def hurry(self, served_model: ServedModel) -> None:
        """Have the writer learn now what it has of a model, and serve it if that is due. The request that asks is answered from
        what is served already."""
        served_model.asked = True
        if self.learning is not None:
            self._hurry(served_model.name)

    def _hurry(self, name: str) -> None:
        """Serve the present state of a model soon."""
        if self.learning is not None:
            self._log_thread.distributed(name, partial(self.learning.writer.put, PublishNow(name)))

    # -- starting and stopping -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start. Raises what the store or the recovery raises; a start that is abandoned ends without an error."""
        self.loop = asyncio.get_running_loop()
        self.context.yield_to_loop.to(waits_at(self.loop))
        try:
            await self._start()
        except Stopped:
            log.warning("stop signal before the start was complete: nothing is lost, the next start begins again")

    def give_up_start(self) -> None:
        """Make an unfinished start end soon, without an error. Only `stop` may follow."""
        self.stopping = True

    async def stop(self) -> None:
        """Learn what is logged, save it, publish it, release the store."""
        self.give_up_start()
        if self.scrubbing is not None:
            self.scrubbing.cancel()
        await self._stop()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.context.ledger.close)
        await loop.run_in_executor(None, self._log_thread.close)
        self.context.crash_note.close()

    # -- state and basic operations --------------------------------------------------------------------------------

    @property
    def served_models(self) -> Mapping[str, ServedModel]:
        """The current served models, by model name."""
        return self.context.catalogue.served_models

    @property
    def leads(self) -> bool:
        """Whether this process is the one that learns (the leader)."""
        return self.learning is not None

    def led(self, what: str) -> Learning:
        """Return `Learning`. Raises `Busy` (code `not_ready`) if it does not exist yet, `Conflict` (code `other_role`) if this
        process does not learn. `what` names the operation in the error."""
        if self.learning is None:
            raise self.why_not_led(what)
        return self.learning

    def require_role(self, what: str) -> None:
        """Raise `Conflict` (code `other_role`) if the role of this process does not do `what`."""
        require_role(self.settings.role, what)

    def served_model(self, name: str) -> ServedModel:
        """Raises `NotFound` (`model_not_found`), `ModelDamaged`, or `Busy` (`not_ready`) if the model may appear later."""
        served_model = self.served_models.get(name)
        if served_model is not None:
            return served_model
        self.context.catalogue.require_sound(name)
        if (coming := self.context.catalogue.coming.get(name)) is not None:
            self.context.catalogue.asked = name
            raise coming.error()
        if not self.started or self.may_come(name):
            raise self.not_started()
        if name in self.context.creating:
            raise Busy("it is being created", "not_ready", CREATING_S)
        raise NotFound(f"no model named {name[:64]!r}; {nearest(name, self.served_models)}", "model_not_found")

    def published(self, name: str) -> Published:
        """What is served of a model. Raises as `served_model` does."""
        served_model = self.served_model(name)
        if served_model.published is None:
            raise self.context.catalogue.why_unserved(name)
        return served_model.published

    async def await_arrival(self, name: str) -> None:
        """Wait until a stored model is served, at most ARRIVAL_S. A start looks at it next."""
        catalogue, until_s = self.context.catalogue, time.monotonic() + ARRIVAL_S
        while name in catalogue.coming and time.monotonic() < until_s:
            served_model = catalogue.served_models.get(name)
            if served_model is not None and served_model.published is not None:
                return
            catalogue.asked = name
            await asyncio.sleep(ARRIVAL_LOOK_S)

    def store_refusal(self) -> RiataError | None:
        """Return why nothing may be logged now, for any model; None if appends are possible."""
        if self.stopping:
            return Busy("the service is stopping", "stopping", retry_after_s=5)
        if self.fatal is not None:
            return Unavailable(f"learning has stopped: {self.fatal}", "writer_stopped")
        return None if self.watch.refusal is None else self.watch.refusal.error()

    def refusal(self) -> RiataError | None:
        """Return why no model accepts events now; None if events are accepted. Requests, readiness and metrics call this."""
        refused = self.store_refusal()
        if refused is not None:
            return refused
        if not self.started:
            return self.not_started()
        most = self.settings.inbox_requests_max
        if self._log_thread.waiting() >= most:
            return Busy(f"{most} requests already wait for the log, the limit set by inbox_requests_max", "queue_full")
        return None

    def lag_refusal(self, served_model: ServedModel) -> RiataError | None:
        """Return why a model accepts no events because of its lag; None if it accepts. Raises `Busy` before it is served."""
        published, logged = served_model.published or self.published(served_model.name), served_model.logged
        if published.applied >= logged:
            return None
        learnt, most_s, now_ms = published.applied, self.settings.lag_s_max, self.clock.monotonic_ms()
        if self.learning is None:  # what another process has learnt is known once it is published
            most_s += published.config.publish_every_ms / 1000
        lag_s = served_model.lag.ms(logged, learnt, now_ms) / 1000
        if lag_s > most_s and self.learning is not None:  # to ask the writer takes longer than all before
            learnt = max(learnt, self.learning.writer.learnt(served_model.name))
            lag_s = served_model.lag.ms(logged, learnt, now_ms) / 1000
        if lag_s <= most_s:
            return None
        left = f"{logged - learnt} events are logged but not learnt yet"
        return Busy(f"{left}, one of them for {lag_s:.1f} s; the setting lag_s_max is {most_s:g}", "lag", retry_after_s=2)

    def require_accepting(self, served_model: ServedModel) -> None:
        """Raise `Busy` or `Unavailable` with the reason if the model of `served_model` accepts no events now."""
        refused = self.refusal() or self.lag_refusal(served_model) or self.memory.refusal_to_learn(served_model)
        if refused is not None:
            raise refused

    def require_store(self) -> None:
        """Raise `Busy` or `Unavailable` if nothing may be logged now, for any model."""
        refused = self.store_refusal()
        if refused is not None:
            raise refused

    async def call(self, work: Callable[[Store], T]) -> T:
        """Run `work` in the store's thread."""
        return await self.context.call(work)

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
        if isinstance(error, Unavailable) and not isinstance(error, StoreFailed):
            self.watch.kick()
        return error

    async def wait_for(self, name: str, seq: int, timeout_ms: int) -> Published:
        """Wait until what is served includes event `seq`. Raises `Busy` (code `not_yet`) after `timeout_ms`, and `Unavailable` if
        learning has stopped."""
        served_model = self.served_model(name)
        published = self.published(name)
        if served_model.served >= seq:
            return published
        if self.fatal is not None:  # those that waited then have been told already
            raise Unavailable(f"learning has stopped: {self.fatal}", "writer_stopped")
        return await until_served(served_model, seq, timeout_ms, lambda: self._hurry(name))

    async def latest(self, name: str) -> Published:
        """Return what is served once it includes the last event that changed the configuration or the state. As `wait_for`."""
        return await self.wait_for(name, self.served_model(name).changed, self.settings.observe_timeout_ms)

    async def logged_now(self, name: str) -> int:
        """Return the last event of a model's log, read from the store: other processes append too. Raises `Unavailable`."""
        served_model = self.served_model(name)
        served_model.logged = max(served_model.logged, (await self.call(lambda s: s.head(name))).seq)
        return served_model.logged

    async def save(self, name: str, if_ahead: bool = False, requested: bool = False) -> Saved:
        """Checkpoint the present state; returns when durable. Raises `Unavailable` if the store has no room; as `led` does."""
        return await self.led("a snapshot").save(name, if_ahead, requested)

    async def create(self, name: str, config: ModelConfig) -> bool:
        """Create a model: an empty log, whose first event is its configuration. Any process of a shared store may create one.

        Returns when it is served; false if another process created it meanwhile. Raises `Busy` (code `not_yet`) if it is in the
        log and no process serves it in time.
        """
        lineage = self.draw(16)
        record = None
        if await self.call(lambda store: begin_log(store, name, lineage)):
            payload = Change(config, after=0, actor=current_actor.get()).payload()
            record = (await self.append(Append(name, "config", self.clock.unix_ms(), payload=payload))).record
            if record is None:
                raise Unavailable("the configuration could not be written to the log", "store_failed")
        return await self._served(name, lineage, record)

    # -- called by other threads -----------------------------------------------------------------------------------

    def _on_logged(self, logged: Sequence[tuple[Append, Appended]]) -> None:
        served_models = self.served_models
        for append, appended in logged:
            if (served_model := served_models.get(append.model)) is not None:
                served_model.on_logged(append, appended)

    def _wake(self, served_model: ServedModel) -> None:
        if self.loop is not None:
            later(self.loop, served_model.wake)

    def _learning_failed(self, reason: str) -> None:
        """Learning ends. Predictions continue from the last good model, liveness fails, and a restart has to recover."""
        self.fatal = reason
        log.critical("%s", reason)

    def _store_failed(self, reason: str) -> None:
        """It is unknown what the disk holds: answer `unknown`, then end the process."""
        self.fatal = reason
        log.critical("the store failed: %s", reason)
        self._on_fatal(reason)

    def _lost(self, reason: str) -> None:
        """Another process owns the store, or it was replaced. Nothing learnt here from now on could be saved."""
        if self.fatal is None:
            log.critical("%s", reason)
            self.fatal = reason
            for name, one in self.context.catalogue.served_models.items():  # the ends of the logs may not show these yet
                self.context.ledger.add(name, one.lineage, one.acked_marks())
            self.context.ledger.keep()
            if not self.stopping:
                self._on_lost(reason)


# What the processes of a service on a shared store do in each role, and what they leave to other roles.


def require_role(role: Role, what: str) -> None:
    """Raise `Conflict` (code `other_role`) if a process of this role does not do `what`, naming the roles that do."""
    others = DOES_NOT.get(role, {})
    if what in others:
        raise Conflict(f"a {role} process {others[what]}", "other_role")
