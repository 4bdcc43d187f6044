"""What the process that learns does when the store has no room for events."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from riata.base.errors import RiataError
from riata.base.limits import GENERATIONS_KEPT_MIN
from riata.run.engine_context import EngineContext
from riata.run.writer.checkpointer import Checkpointer, Saved

log = logging.getLogger("riata.run")

ROOM_EVERY_MS = 30_000  # a store that stays full after everything was saved is full of other data


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
