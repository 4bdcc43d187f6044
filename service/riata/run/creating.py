"""Models that are being created, which may take as long as compiling the kernels of a learner."""

from __future__ import annotations

import asyncio
import logging
from typing import TypeVar

from riata.base.errors import Busy
from riata.learn.registry import LearnerConfig
from riata.run.config import ModelConfig
from riata.run.engine import Engine
from riata.run.engine_settings import CREATING_S
from riata.run.memory_bound import NEW_MODEL_BYTES

T = TypeVar("T")
log = logging.getLogger("riata.run")

LOOKED_EVERY_S = 0.05


class Compiling(Busy):
    """A compiler runs for the kernels of a learner, and the caller does not wait for it.

    state : what is waited for, as in the answer of `PUT`
    """

    state = "compiling"

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
        Raises `ModelDamaged` if the model of this name is damaged, `Unavailable` (code `memory_full`) without memory for it.
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
        if (refused := engine.memory.refusal(NEW_MODEL_BYTES, "another model")) is not None:
            raise refused
        if not engine.settings.shared:
            engine.led("creating a model")  # raises while the store is being opened
        engine.context.creating[name] = config.learner
        return await engine.create(name, config)

    def _ended(self, name: str, task: asyncio.Task[bool]) -> None:
        del self._tasks[name]
        self._engine.context.creating.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("model %s was not created: %s", name, error)
