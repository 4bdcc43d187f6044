"""The engine of a process that shares its store with others, in every role.

The writer reads what other processes append to the log itself (`contender`). Until a process leads, its served models
follow the editions that the leader publishes (`following`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Sequence
from typing import Any, Final, cast

from riata.base.errors import Busy, Conflict, Corrupt, RiataError, Unavailable
from riata.run.cluster.accepting import record_losses
from riata.run.cluster.contender import Contender
from riata.run.cluster.copies import Copies
from riata.run.cluster.follower import Fetched, Follower, jittered_s
from riata.run.cluster.store_watch import RETRY_S, PollThread, StoreWatch
from riata.run.engine import Engine
from riata.run.engine_context import EngineContext, shared
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.log.scrubbing import scrub_while_running
from riata.run.state.config import ModelConfig
from riata.run.writer.learning import Learning
from riata.run.writer.stopping import finish
from riata.store.store import Append, Appended, Holder, Record, SharedStore, Store

log = logging.getLogger("riata.run")

READING: Final = "this process has just become the writer and reads the snapshots and logs of the models"
ANSWER_S = 5.0  # how long a start waits for the store before it continues without it
SETTLED_EVERY_S = 0.05
AGAIN_S = 1.0
LAPSES_MS: Final = 35_000  # three checks of the store
APPEARS_EVERY_S = 0.02

AWAITED_S = 0.03  # between two steps while a request waits for an event to be served
LEAST_MS = 10
RECORD_AFTER_MS = (2000, 8000)  # random, so that processes record at different times
HOLDER_EVERY_MS = 2000
HOLDER_MISSED_EVERY_MS = 200  # while no owner of the store is known


class SharedEngine(Engine):
    """An engine that follows the leader, and may become it. `contender` is None in a role that does not learn."""

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        copies, context = self.settings.copies, self.context
        self.following = Following(context, None if copies is None else Copies(copies, context.catalogue, self.clock))
        self.contender: Contender | None = None
        self.processes: list[dict[str, Any]] = []  # all on this store, as of the last check of the store
        if self.settings.may_lead:
            self.contender = Contender(context, self._on_leading, self.following.why_not_lead, self.following.looked)

    def _on_logged(self, logged: Sequence[tuple[Append, Appended]]) -> None:
        super()._on_logged(logged)
        for append, appended in logged:
            if appended.record is not None and (served_model := self.served_models.get(append.model)) is not None:
                served_model.note_acked(appended.record)
            if self.contender is not None:
                self.contender.logged(append, appended)

    def _store_watch(self) -> StoreWatch:
        return StoreWatch(self.context.open_store, self._learning_failed, self._make_room, meet=self._meet)

    def _meet(self, store: Store) -> None:
        """Tell the other processes of this one, and note what they say."""
        refused = self.refusal()
        lag = {name: served_model.logged - served_model.served for name, served_model in self.served_models.items()}
        said = {"role": self.settings.role, "leads": self.leads, "refuses": None if refused is None else refused.code, "lag": lag}
        notes = cast(SharedStore, store).announce(self.settings.host, LAPSES_MS, json.dumps(said).encode())
        self.processes = [{"process": note.host, "age_s": note.age_ms / 1000, **json.loads(note.said)} for note in notes]

    async def _start(self) -> None:
        """Check that the store is usable, begin to follow and, if the role allows it, to compete for the lease.

        Raises `Conflict` (code `store_refuses`) with everything that is wrong with the store. A store that does not answer does
        not prevent the start: it is retried in the background.
        """
        opened = self._log_thread.start()
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(opened)), ANSWER_S)
            if refusals := await self.call(lambda s: s.refusals()):
                raise Conflict("; ".join(refusals), "store_refuses")
        except (TimeoutError, Unavailable) as error:
            detail = error.detail if isinstance(error, RiataError) else f"no answer for {ANSWER_S:.0f} s"
            log.warning("the store accepts no events yet, retrying: %s", detail)
        if self.settings.may_lead:
            self.context.crash_note.open()
        self.watch.start()
        self.context.ledger.start()
        await asyncio.get_running_loop().run_in_executor(None, self.following.start)
        if self.contender is not None:
            self.contender.start()
        self.scrubbing = asyncio.create_task(self._look_after())

    async def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        self.watch.stop()
        self.following.stop()
        if self.contender is not None:
            self.contender.give_up()
        await loop.run_in_executor(None, self.watch.join)
        await loop.run_in_executor(None, self.following.join)
        if self.contender is None:
            return
        await loop.run_in_executor(None, self.contender.stop_reading)
        if self.learning is not None:
            saves = self.contender.answers()  # otherwise it is replayed later: stopping must not take long
            await finish(self.learning, fatal=self.fatal is not None, saves=saves)
        await loop.run_in_executor(None, self.contender.stop)

    @property
    def started(self) -> bool:
        return self.following.follower.heard_ms is not None or self.following.serves_copies

    @property
    def strange(self) -> Unavailable | None:
        """Why the store is not the one that is followed; None if it is."""
        follower = self.following.follower
        return Unavailable(follower.strange, follower.strange_code) if follower.strange else None

    def waits_for(self) -> str:
        why = self.following.unreachable()
        return f"the store has not answered yet{': ' if why else ''}{why}"

    def not_started(self) -> RiataError:
        if not self.started:
            return self.strange or Busy(f"{self.waits_for()}; try again", "not_ready")
        return self.strange or Busy("the model has not been loaded from the store yet; try again", "not_ready")

    def store_refusal(self) -> RiataError | None:
        return super().store_refusal() or self.strange

    def why_not_led(self, what: str) -> RiataError:
        if self.contender is not None and self.contender.lead.owner is not None:
            return Busy(f"{READING}; try again", "not_ready")
        holder = self.following.holder
        who = f"send it to {holder.host}" if holder else "no process learns now: start one with --role writer"
        return Conflict(f"{what} needs the process that learns; {who}", "other_role")

    def may_come(self, name: str) -> bool:
        return self.following.follower.may_come(name)

    def unrenewed_s(self) -> float:
        if self.contender is None or self.contender.held():
            return 0.0
        return self.contender.lead.unrenewed_ms() / 1000

    def _hurry(self, name: str) -> None:
        super()._hurry(name)
        if self.learning is None:
            self.following.kick()

    async def _served(self, name: str, lineage: bytes, record: Record | None) -> bool:  # noqa: ARG002  it is in the log
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.settings.observe_timeout_ms / 1000
        while (served_model := self.served_models.get(name)) is None or served_model.published is None:
            if loop.time() > deadline:
                raise Busy(f"model {name} is in the log, but the process that learns does not serve it yet", "not_yet")
            self.following.kick()
            await asyncio.sleep(APPEARS_EVERY_S)
        return record is not None and record.first == 1

    def _on_leading(self, learning: Learning) -> None:
        """From now on the writer alone updates the served models."""
        self.following.stop()
        self.following.join()
        self.learning = learning

    def _make_room(self) -> None:
        if self.learning is not None and self.loop is not None:
            asyncio.run_coroutine_threadsafe(self.learning.make_room(), self.loop)

    async def _look_after(self) -> None:
        """Create the default model if this process is the first leader of a new store; then scrub while the engine runs."""
        if self.contender is not None:
            while self.learning is None:
                await asyncio.sleep(SETTLED_EVERY_S)
            catalogue = self.context.catalogue
            while DEFAULT_MODEL not in {*catalogue.served_models, *catalogue.coming, *catalogue.damaged}:
                try:
                    await self.create(DEFAULT_MODEL, ModelConfig())
                except RiataError as error:
                    log.error("the default model could not be created, retrying: %s", error.detail)
                    await asyncio.sleep(AGAIN_S)
        await scrub_while_running(self.context, lambda: self.learning)


# The follower part of an engine: a thread that keeps the served models on the newest editions, and a replica's copies.


class Following:
    """Follows the store until it is stopped. It cannot be started again."""

    def __init__(self, context: EngineContext, copies: Copies | None = None) -> None:
        self.follower = Follower(context.catalogue, context.clock, context.ledger, self._on_fetched)
        self.follower.refuses_damaged = context.settings.role != "replica"
        self.holder: Holder | None = None  # the owner of the store when it was last read
        self.copies = copies
        self.serves_copies = False  # every copy on the disk is served, and there was one
        self._context = context
        self._asked_ms: int | None = None
        self._stepped_ms = 0
        self._record_at_ms: int | None = None  # when to record losses accepted here, unless another process does so first
        self._looper = PollThread("riata-follow", context.open_store, self._step, self._failed)

    def start(self) -> None:
        """Start to follow, serving the copies on disk first if there are any."""
        if self.copies is not None:
            for kept in self.copies.load():
                if self.follower.take_up(kept.edition, kept.published, kept.edition.applied):
                    served_model = self._context.catalogue.served_models[kept.published.model.origin.name]
                    served_model.learn_names(kept.names)
                    ago_ms = max(0, self._context.clock.unix_ms() - kept.confirmed_ms)
                    served_model.confirmed_ms = self._context.clock.monotonic_ms() - ago_ms
            self.serves_copies = bool(self._context.catalogue.served_models)
        self._looper.start()

    def kick(self) -> None:
        """Run the next step now."""
        self._looper.kick()

    def why_not_lead(self) -> str:
        """Return why this process must not ask for the lease now; empty if it may."""
        if self.follower.heard_ms is None:
            return "the store has not answered yet"
        return self.follower.strange

    def looked(self, since_ms: int) -> bool:
        """Return whether the served models were compared with the store since then. If not, start a comparison now."""
        heard_ms = self.follower.heard_ms
        if heard_ms is not None and heard_ms >= since_ms:
            return True
        self.kick()
        return False

    def unreachable(self) -> str:
        """Return why the store did not answer the last step; empty if it did."""
        return self._looper.unreachable

    def stop(self) -> None:
        """Stop following after the current step."""
        self._looper.stop()

    def join(self) -> None:
        """Wait until the thread has ended, and write the remaining copies."""
        self._looper.join()
        if self.copies is not None:
            self.copies.step(None)

    def _step(self, store: Store) -> float:
        source = shared(store)
        since_ms = self._context.clock.monotonic_ms() - self._stepped_ms
        time.sleep(max(0, LEAST_MS - since_ms) / 1000)  # a minimum interval, however often `kick` is called
        self._stepped_ms = self._context.clock.monotonic_ms()
        try:
            more = self.follower.step(source)
        except Corrupt as error:  # another store, or a damaged one; the served models stay
            self.follower.note_strange(error.detail)
            return RETRY_S
        now_ms = self._context.clock.monotonic_ms()
        self._record(now_ms)
        every_ms = HOLDER_EVERY_MS if self.holder else HOLDER_MISSED_EVERY_MS
        if self._asked_ms is None or now_ms - self._asked_ms >= every_ms:
            self._asked_ms = now_ms
            self.holder = source.holder()
        if self.copies is not None:
            self.copies.step(now_ms)
        if more:
            return 0.0
        awaited = any(served_model.lowest_wanted is not None for served_model in self._context.catalogue.served_models.values())
        return AWAITED_S if awaited else jittered_s(self._context.settings.follow_every_ms)

    def _record(self, now_ms: int) -> None:
        """Record losses that were accepted here after a delay: if the leader knows them, it records them at once."""
        if not self._context.ledger.has_to_record() or self._context.settings.role == "replica":
            self._record_at_ms = None
        elif self._record_at_ms is None:
            self._record_at_ms = now_ms + int(random.uniform(*RECORD_AFTER_MS))
        elif now_ms >= self._record_at_ms:
            record_losses(self._context)

    def _on_fetched(self, fetched: Fetched) -> None:
        self._context.wake(fetched.served_model)
        if self.copies is not None:
            self.copies.offer(fetched)

    def _failed(self, error: BaseException) -> None:
        detail = error.detail if isinstance(error, RiataError) else repr(error)
        self._context.fatal(f"following the store has stopped: {detail}")
