"""The engine of an embedded store: one process, which learns. The store's thread passes logged records to its writer."""

from __future__ import annotations

import asyncio
import logging

from riata.base.errors import Busy, RiataError
from riata.learn import registry
from riata.learn.registry import LearnerConfig
from riata.run.archive import Archive
from riata.run.cluster.store_watch import OWN_EVERY_S, OwnStore, StoreWatch
from riata.run.compilers import Stopped
from riata.run.config import Change, ModelConfig
from riata.run.damage import Damage
from riata.run.engine import Engine
from riata.run.engine_context import aside
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.learning import Learning, learning_names
from riata.run.model_state import ModelState
from riata.run.pairs import followers_of
from riata.run.recovery import Recovered, clear_marks, recover_all
from riata.run.scrubbing import scrub_while_running
from riata.run.stopping import finish
from riata.run.writer_queue import Logged
from riata.store.segment import Origin
from riata.store.store import Append, Appended, Owner, Record
from riata.wire.encoder import fingerprint

log = logging.getLogger("riata.run")


class AloneEngine(Engine):
    """An engine that owns its store from its start to its end."""

    recovered = False  # whether every model was recovered
    archiving = False

    def _store_watch(self) -> StoreWatch:
        return StoreWatch(lambda: OwnStore(self._log_thread), self._not_watched, every_s=OWN_EVERY_S)

    async def _start(self) -> None:
        """Own the store, recover every model, begin to learn. Raises what the store or the recovery raises."""
        await asyncio.wrap_future(self._log_thread.start())
        nonce, now_ms = self.draw(16), self.clock.unix_ms()
        owner = await self.call(lambda s: s.acquire(nonce, registry.ALGO_VERSION, self.settings.host, now_ms))
        try:
            await self._lead(owner)
        except Stopped:
            await self.call(lambda s: s.release(owner))
            raise

    async def _lead(self, owner: Owner) -> None:
        context, loop = self.context, asyncio.get_running_loop()
        await self.call(lambda s: s.drop_stale_stages(owner))
        self.watch.start()
        await self._warm_up()
        recovered, damaged = await aside(self._recover, owner)
        if self.settings.archive is not None:
            context.archive = Archive(
                self.settings.archive, self._log_thread.call, self._origins, self._log_thread.waiting, context.segment_writing
            )
        learning = Learning(context, owner)
        learning.writer.start()
        self.learning = learning
        for damage in damaged:
            learning.give_up(damage)
        followers, fewer = followers_of(
            {found.state.name: found.state.pairs for found in recovered}, [one.model for one in damaged]
        )
        await self.call(lambda _store: self._log_thread.followers.update(followers))
        for found in recovered:
            names = await loop.run_in_executor(None, learning_names, context, found)
            learning.take_up(found, names)
        if DEFAULT_MODEL not in self.served_models and DEFAULT_MODEL not in context.catalogue.damaged:
            await self.create(DEFAULT_MODEL, ModelConfig())
        await learning.settle()
        for name, kept in fewer.items():
            log.warning("model %s: of its challengers only %s still have its events", name, ", ".join(kept) or "none")
            payload = Change(self.published(name).config, challengers=kept).payload()
            await self.append(Append(name, "config", self.clock.unix_ms(), payload=payload))
        self.recovered = True
        log.info("ready: %d model%s", len(self.served_models), "" if len(self.served_models) == 1 else "s")
        self.scrubbing = asyncio.create_task(scrub_while_running(context, lambda: self.learning))
        if context.archive is not None:
            context.archive.start()
            self.archiving = True

    def _origins(self) -> list[Origin]:
        """Return the models to archive."""
        served = list(self.served_models.values())
        return [Origin(one.name, one.lineage, fingerprint(one.encoder)) for one in served]

    def _recover(self, owner: Owner) -> tuple[list[Recovered], list[Damage]]:
        """Recover every model, in a thread. Raises `Stopped` soon after the engine is stopped."""
        context, tally = self.context, self.tally

        def go_on() -> None:
            if self.stopping:
                raise Stopped

        def warm(config: LearnerConfig) -> None:
            go_on()
            tally.compiled = False  # reported to probes
            context.warm(config)
            tally.compiled = True

        tally.on_progress = go_on
        try:
            return recover_all(self._log_thread.call, owner, self.clock.unix_ms, tally, warm=warm)
        except Stopped:
            self._log_thread.call(lambda s: clear_marks(s, owner)).result()  # this start did not crash at any event
            raise
        finally:
            tally.on_progress = lambda: None

    async def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        self.watch.stop()
        await loop.run_in_executor(None, self.watch.join)
        if self.archiving and self.context.archive is not None:
            await loop.run_in_executor(None, self.context.archive.stop)
        if self.learning is None:
            return
        owner = self.learning.owner
        await finish(self.learning, fatal=self.fatal is not None)
        if self.fatal is None:
            await self.call(lambda s: s.release(owner))

    @property
    def started(self) -> bool:
        return self.recovered

    def not_started(self) -> RiataError:
        return Busy("the log is being replayed; try again", "not_ready")

    def why_not_led(self, what: str) -> RiataError:  # noqa: ARG002  it will be possible soon
        return self.not_started()

    async def _served(self, name: str, lineage: bytes, record: Record | None) -> bool:
        if self.learning is not None and record is not None:
            state = ModelState(name, lineage)
            state.apply(record)
            self.learning.begin(state)
            await self.learning.settle(name)
        return True

    def _on_logged(self, append: Append, appended: Appended) -> None:
        super()._on_logged(append, appended)
        if self.learning is not None and appended.record is not None:
            self.learning.writer.put(Logged(appended.record, appended.batch))

    def _not_watched(self, reason: str) -> None:
        """The store is watched through its only thread; if that failed, it has reported the failure itself."""
        if self.fatal is None:
            self._learning_failed(reason)
