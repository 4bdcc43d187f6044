"""The engine of a process that shares its store with others, in every role.

The writer reads the log itself, because other processes also append to it (`contender`). Until a process leads, its served models
follow the editions that the leader publishes (`following`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final, cast

from riata.base.errors import Busy, Conflict, RiataError, Unavailable
from riata.run.cluster.contender import Contender
from riata.run.cluster.copies import Copies
from riata.run.cluster.following import Following
from riata.run.cluster.store_watch import StoreWatch
from riata.run.engine import Engine
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.log.scrubbing import scrub_while_running
from riata.run.state.config import ModelConfig
from riata.run.writer.learning import Learning
from riata.run.writer.stopping import finish
from riata.store.store import Record, SharedStore, Store

log = logging.getLogger("riata.run")

READING: Final = "this process has just become the writer and reads the snapshots and logs of the models"
ANSWER_S = 5.0  # how long a start waits for the store before it continues without it
SETTLED_EVERY_S = 0.05
AGAIN_S = 1.0
LAPSES_MS: Final = 35_000  # three checks of the store
APPEARS_EVERY_S = 0.02


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
        return self.following.follower.heard_ms is not None or bool(self.served_models)

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
