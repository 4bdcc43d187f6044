"""Group commit of pending predictions: one store transaction for all requests that are waiting."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from riata.base.errors import RiataError, Unavailable
from riata.run.engine import Engine
from riata.store.store import PendingPrediction

GROUP_MAX: Final = 256  # requests in one transaction


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    rows: list[PendingPrediction]
    answer: asyncio.Future[bool]


class Gathering:
    """Queue of one model's predictions on their way into the store.

    The request that gets the lock first writes the rows of all waiting requests. The others then find their answer set. If the
    first was cancelled before it set the answers, the next one writes.
    """

    def __init__(self, engine: Engine, model: str, bytes_max: int) -> None:
        self._engine = engine
        self._model = model
        self._bytes_max = bytes_max
        self._waiting: list[_Request] = []
        self._turn = asyncio.Lock()

    async def keep(self, rows: list[PendingPrediction]) -> bool:
        """Store `rows`, durable on return. Returns false, and stores none of them, if there is no room. Raises what the store
        raises; `Unavailable` (code `store_timeout`) if it does not answer."""
        mine = _Request(rows, asyncio.get_running_loop().create_future())
        self._waiting.append(mine)
        try:
            async with self._turn:
                if not mine.answer.done():
                    others = [one for one in self._waiting if one is not mine and not one.answer.done()]
                    await self._settle([mine, *others[: GROUP_MAX - 1]])
        finally:
            self._waiting.remove(mine)
        return mine.answer.result()

    async def _settle(self, group: list[_Request]) -> None:
        rows = [row for request in group for row in request.rows]
        try:
            kept = await asyncio.wait_for(
                self._engine.call(lambda s: s.remember(self._model, rows, self._bytes_max)),
                self._engine.settings.observe_timeout_ms / 1000,
            )
        except TimeoutError:
            _fail(group, Unavailable("the store did not answer in time, so no row was predicted", "store_timeout"))
        except RiataError as error:
            _fail(group, error)
        else:
            if not kept and len(group) > 1:  # there may be room for some of them
                for request in group:
                    await self._settle([request])
                return
            for request in group:
                request.answer.set_result(kept)


def _fail(group: list[_Request], error: RiataError) -> None:
    for request in group:
        request.answer.set_exception(error)
        request.answer.exception()  # mark as retrieved: the waiting request may have been cancelled
