"""Models that are being created."""

from __future__ import annotations

import asyncio
import logging

from riata.run.engine import Engine
from riata.run.state.config import ModelConfig
from riata.run.writer.memory_bound import NEW_MODEL_BYTES

log = logging.getLogger("riata.run")


class Creations:
    """Models that are being created. If a request stops waiting, its model is created anyway."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tasks: dict[str, asyncio.Task[bool]] = {}

    async def create(self, name: str, config: ModelConfig) -> bool:
        """Create a model unless it exists. Returns whether this call created it. Concurrent calls for one name create one model.

        Raises `ModelDamaged` if the model of this name is damaged, `Unavailable` (code `memory_full`) without memory for it.
        """
        self._engine.context.catalogue.require_sound(name)
        if name in self._engine.served_models:
            return False
        found = self._tasks.get(name)
        task = found or self._begin(name, config)
        await asyncio.wait([task])  # which a request that ends does not end
        return task.result() and found is None

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
