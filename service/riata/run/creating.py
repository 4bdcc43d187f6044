"""How a model is created: an empty log, whose first event is its configuration. Any process of a shared store may create one."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from riata.base.errors import Busy, Conflict, Unavailable
from riata.learn.registry import LearnerConfig
from riata.run.config import ModelConfig, config_payload
from riata.run.model_state import ModelState
from riata.store.store import Append, Store

if TYPE_CHECKING:
    from riata.run.engine import Engine

T = TypeVar("T")
log = logging.getLogger("riata.run")

APPEARS_EVERY_S = 0.02
CREATING_S = 5.0  # a caller may retry a model that is being created after this time
LOOKED_EVERY_S = 0.05


class Compiling(Busy):
    """A compiler runs for the kernels of a learner, and the caller does not wait for it."""

    def __init__(self, why: str) -> None:
        super().__init__(why, "not_ready", CREATING_S)


class Creations:
    """Models that are being created. If a request stops waiting, its model is created anyway."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tasks: dict[str, asyncio.Task[bool]] = {}

    async def create(self, name: str, config: ModelConfig, patient: bool) -> bool:
        """Create a model unless it exists. Returns whether this call created it. Concurrent calls for one name create one model.

        patient : wait until its kernels are compiled. Otherwise `Compiling` is raised as soon as a compiler runs, and the model
                  is created later, unless the process ends before: nothing is logged until the kernels are ready
        Raises `ModelDamaged` if the model of this name is damaged.
        """
        self._engine.context.catalogue.require_sound(name)
        if name in self._engine.served_models:
            return False
        found = self._tasks.get(name)
        task = found or self._begin(name, config)
        return (
            await self._unless_compiling(task, self._engine.context.creating.get(name, config.learner), patient) and found is None
        )

    async def warm(self, config: LearnerConfig, patient: bool) -> None:
        """Make the kernels of a learner ready. `patient`: as in `create`."""
        task = asyncio.create_task(self._engine.warm(config))
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # the error is raised again for the next caller
        await self._unless_compiling(task, config, patient)

    async def _unless_compiling(self, task: asyncio.Task[T], config: LearnerConfig, patient: bool) -> T:
        """Wait for `task`. Once a compiler runs for it, raises `Compiling`; the task continues."""
        while not task.done():
            if not patient and (why := self._engine.context.why_not_warm(config)):
                raise Compiling(why)
            await asyncio.wait([task], timeout=LOOKED_EVERY_S)
        return task.result()

    def _begin(self, name: str, config: ModelConfig) -> asyncio.Task[bool]:
        task = asyncio.create_task(self._create(name, config))
        self._tasks[name] = task
        task.add_done_callback(lambda _task: self._ended(name, task))
        return task

    async def _create(self, name: str, config: ModelConfig) -> bool:
        engine = self._engine
        engine.require_store()
        if not engine.settings.shared:
            engine.owner  # noqa: B018  raises while the store is being opened
        engine.context.creating[name] = config.learner
        return await create(engine, name, config)

    def _ended(self, name: str, task: asyncio.Task[bool]) -> None:
        del self._tasks[name]
        self._engine.context.creating.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("model %s was not created: %s", name, error)


async def create(engine: Engine, name: str, config: ModelConfig) -> bool:
    """Create a model. Returns when it is served; false if another process created it meanwhile.

    Raises `Busy` (code `not_yet`) if it is in the log and no process serves it in time.
    """
    await engine.warm(config.learner)
    lineage = engine.draw(16)
    record = None
    if await engine.call(partial(_begin_log, name=name, lineage=lineage)):
        payload = config_payload(config, after=0)
        record = (await engine.append(Append(name, "config", engine.clock.unix_ms(), payload=payload))).record
        if record is None:
            raise Unavailable("the configuration could not be written to the log", "store_failed")
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
    """Create an empty log; return false if one with events exists. A log without events was left by a process that crashed."""
    try:
        store.create(name, lineage)
    except Conflict as error:
        if error.code != "model_exists":
            raise
        return store.head(name).seq == 0
    return True


async def _appears(engine: Engine, name: str) -> None:
    """Wait until the learning process, this one or another, serves the model."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + engine.settings.observe_timeout_ms / 1000
    while (served_model := engine.served_models.get(name)) is None or served_model.published is None:
        if loop.time() > deadline:
            raise Busy(f"model {name} is in the log, but the process that learns does not serve it yet", "not_yet")
        if engine.following is not None:
            engine.following.kick()
        await asyncio.sleep(APPEARS_EVERY_S)
