"""Scrubbing of checkpoints: read the retained generations back while the service runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from riata.base.errors import Corrupt, NotFound
from riata.run.engine_context import EngineContext
from riata.run.state.damage import harms_one_model
from riata.run.state.generations import verifies
from riata.run.writer.checkpointer import Saved
from riata.store.retention import is_own, oldest_of_newest
from riata.store.store import Generation, Owner, Store

T = TypeVar("T")
log = logging.getLogger("riata.run")


class CheckpointScrub:
    """Reads the generations of all models that are learnt here. save : writes a checkpoint of a model"""

    def __init__(self, context: EngineContext, owner: Owner, save: Callable[[str], Awaitable[Saved]]) -> None:
        self._context = context
        self._owner = owner
        self._save = save
        self._scrubs = 0

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
            log.error("model %s: snapshots %s are damaged; a new one is written now", name, found)
            for gen in found:
                await self._context.call(partial(_disown, owner=self._owner, name=name, gen=gen))
            await self._save(name)
        return rotten

    async def _generations(self, name: str) -> list[Generation]:
        """The newest verified generations, the very newest of all, and the next in turn of the others; empty for a model that was
        dropped, or whose list is damaged."""
        try:
            found = await self._context.call(lambda s: s.generations(name))
        except NotFound:
            return []
        except Corrupt as error:
            if not harms_one_model(error):
                raise
            log.error("model %s: its snapshots cannot be listed: %s", name, error.detail)
            return []
        first = oldest_of_newest(found, self._context.settings.retention.generations)
        sound = [generation for generation in found if generation.verified or generation is found[0]]
        newest = [generation for generation in sound if generation.gen >= first and is_own(generation)]
        others = [generation for generation in sound if generation not in newest]
        return newest + ([others[self._scrubs % len(others)]] if others else [])

    async def _verifies(self, name: str, generation: Generation) -> bool:
        return await self._context.call(partial(verifies, name=name, generation=generation))


def _disown(store: Store, owner: Owner, name: str, gen: int) -> None:
    store.mark_verified(owner, name, gen, sound=False)
