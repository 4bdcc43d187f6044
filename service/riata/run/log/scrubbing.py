"""Log scrubbing: read the retained log back while the service runs, to find damage before a start or a replay needs the data.

A start needs a checkpoint and the log after it; earlier records are needed only if that checkpoint becomes corrupt too. So a
damaged record does no harm at first: the model in memory is sound and continues. It is saved at once, so that no start needs the
record, and the damage is reported. The store's thread reads the log in small pieces while nothing else waits for it, at a limited
rate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from riata.base.errors import Corrupt, NotFound, RiataError
from riata.run.engine_context import EngineContext
from riata.run.state.damage import Damage, event_of, harms_one_model, log_sentence
from riata.run.writer.learning import Learning
from riata.store.store import Head, Record

T = TypeVar("T")
log = logging.getLogger("riata.run")

SLICE_BYTES: Final = 2**18  # payload bytes per read: appends wait for no more than one such read
RECORD_BYTES: Final = 200  # of a record without its payload, about
GIVE_WAY_S: Final = 0.01
GIVE_WAY_MOST: Final = 100  # pauses at most: a store that is never idle is read nevertheless


class LogScrub:
    """Reads the logs of all models repeatedly. Used by one task."""

    def __init__(self, context: EngineContext, learning: Learning) -> None:
        self._context = context
        self._learning = learning
        self._resume: dict[str, int] = {}  # of models with known damage: the event of the checkpoint that was written then

    async def scrub(self) -> list[str]:
        """Read every log once; return the names of models with newly found damage. Raises `Unavailable`."""
        found = []
        for name in list(self._context.catalogue.served_models):
            try:
                damage = await self._scrub(name)
            except NotFound:  # dropped meanwhile
                self._forget(name)
                continue
            if damage is not None:
                found.append(name)
                await self._deal_with(damage)
        return found

    async def _scrub(self, name: str) -> Damage | None:
        head = await self._head(name)
        after, lineage = self._begin(name, head), head.lineage
        while after < head.seq:
            await self._yield_to_loop()
            try:
                records = await self._read(name, after)
            except Corrupt as error:
                now = await self._head(name)
                if now.lineage != lineage or not harms_one_model(error):
                    raise
                if after < now.first_seq - 1:  # trimmed meanwhile
                    after = now.first_seq - 1
                    continue
                return Damage(name, lineage, event_of(error, after), error.detail)
            if not records:
                break
            after = records[-1].last
            size = sum(len(record.payload) for record in records)
            self._context.tally.log_scrubbed_bytes += size
            await asyncio.sleep((size + RECORD_BYTES * len(records)) / self._context.settings.scrub_bytes_per_s)
        return None

    def _begin(self, name: str, head: Head) -> int:
        """Return the event after which to read: known damage is not reported again."""
        known = self._context.tally.log_damaged.get(name)
        if known is None or known.lineage != head.lineage or known.event < head.first_seq:
            self._forget(name)  # the damaged part was trimmed
            return head.first_seq - 1
        return max(head.first_seq - 1, self._resume.get(name, 0))

    def _forget(self, name: str) -> None:
        self._context.tally.log_damaged.pop(name, None)
        self._resume.pop(name, None)

    async def _deal_with(self, damage: Damage) -> None:
        """Make starts independent of the damaged record, and log the damage."""
        log.error("%s", log_sentence(damage))
        self._context.tally.log_damaged.setdefault(damage.model, damage)
        try:
            await self._learning.settle(damage.model)  # a state saved after this includes the damaged event
            saved = await self._learning.save(damage.model)
        except RiataError as error:
            log.error("model %s: no snapshot could be written after the damage: %s", damage.model, error.detail)
            return
        if saved.generation is not None:
            self._resume[damage.model] = saved.generation.applied
            at = (damage.model, saved.generation.gen, saved.generation.applied)
            log.info("model %s: snapshot %d was written at event %d, from which the model can be recovered", *at)

    async def _yield_to_loop(self) -> None:
        """Wait for a while until the store's thread has no other work."""
        for _ in range(GIVE_WAY_MOST):
            if not self._context.log_thread.waiting():
                return
            await asyncio.sleep(GIVE_WAY_S)

    async def _head(self, name: str) -> Head:
        return await self._context.call(lambda s: s.head(name))

    async def _read(self, name: str, after: int) -> list[Record]:
        return await self._context.call(lambda s: s.read(name, after, SLICE_BYTES))


async def scrub_while_running(context: EngineContext, learning: Callable[[], Learning | None]) -> None:
    """Verify generations and logs, repeatedly, while this process learns."""
    await asyncio.gather(_scrub_generations(context, learning), _scrub_log(context, learning))


async def _scrub_generations(context: EngineContext, learning: Callable[[], Learning | None]) -> None:
    while True:
        await asyncio.sleep(context.settings.scrub_every_s)
        if (leader := learning()) is not None:
            try:
                await leader.scrub()
            except RiataError as error:
                log.error("scrubbing: %s", error.detail)


async def _scrub_log(context: EngineContext, learning: Callable[[], Learning | None]) -> None:
    """Run one pass after another, with a pause between them: a pass over a long log takes longer than the pause."""
    scrub: LogScrub | None = None
    while True:
        await asyncio.sleep(context.settings.scrub_every_s)
        if (leader := learning()) is not None:
            scrub = scrub or LogScrub(context, leader)
            try:
                await scrub.scrub()
            except RiataError as error:
                log.error("scrubbing the log: %s", error.detail)
