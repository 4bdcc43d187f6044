"""How a model begins: an empty log, whose first event is its configuration. Of a shared store any process may begin one."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from riata.base.errors import Busy, Conflict, Unavailable
from riata.run.config import ModelConfig, config_payload
from riata.run.model_state import ModelState
from riata.store.store import Append, Store

if TYPE_CHECKING:
    from riata.run.engine import Engine

APPEARS_EVERY_S = 0.02


async def create(engine: Engine, name: str, config: ModelConfig) -> bool:
    """Begin a model. Returns once it is served; false where another process began it meanwhile.

    Raises `Busy` (code `not_yet`) where it is in the log and nobody takes it up.
    """
    await engine.warm(config.learner)
    lineage = engine.draw(16)
    record = None
    if await engine.call(partial(_begin_log, name=name, lineage=lineage)):
        payload = config_payload(config, after=0)
        record = (await engine.append(Append(name, "config", engine.clock.unix_ms(), payload=payload))).record
        if record is None:
            raise Unavailable("the configuration could not be logged", "store_failed")
    if engine.settings.shared:
        await _appears(engine, name)
        return record is not None and record.first == 1
    if engine.learning is not None and record is not None:
        state = ModelState(name, lineage)
        state.apply(record)
        engine.learning.begin(state)
        await engine.learning.settle()
    return True


def _begin_log(store: Store, name: str, lineage: bytes) -> bool:
    """Make an empty log; false where there is one with events. One without is what a process that died left behind."""
    try:
        store.create(name, lineage)
    except Conflict as error:
        if error.code != "model_exists":
            raise
        return store.head(name).seq == 0
    return True


async def _appears(engine: Engine, name: str) -> None:
    """Wait until the process that learns, this one or another, has taken the model up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + engine.settings.observe_timeout_ms / 1000
    while (desk := engine.desks.get(name)) is None or desk.published is None:
        if loop.time() > deadline:
            raise Busy(f"model {name} is in the log, and the process that learns has not taken it up yet", "not_yet")
        if engine.following is not None:
            engine.following.kick()
        await asyncio.sleep(APPEARS_EVERY_S)
