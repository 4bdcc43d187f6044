"""Log an event that changes a model, and wait until what it changes is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from riata.base.errors import Busy, Conflict, RiataError
from riata.base.request_trace import current_actor
from riata.run.engine import Engine
from riata.run.served_model import NEW_MODEL_BYTES
from riata.run.state.config import Change, ModelConfig
from riata.run.state.model_state import CHANGES_KEPT
from riata.store.store import Append, Appended, Store

TRIES = 8  # attempts of a change while other processes change the same model


async def append_and_serve(engine: Engine, append: Append) -> int:
    """Append; return the event when it is served. Raises as `Engine.append` and `Engine.wait_for`, and `Busy` or `Unavailable` if
    the model accepts no events now."""
    engine.require_accepting(engine.served_model(append.model))
    appended = await engine.append(append)
    await engine.wait_for(append.model, appended.seq, engine.settings.observe_timeout_ms)
    return appended.seq


async def append_together(engine: Engine, make: Callable[[Store], Sequence[Append]]) -> list[Appended]:
    """Append several events in one transaction. `make` returns them, in the store's thread. Raises as `Engine.append`."""
    answers = await engine.call(lambda store: engine.context.log_thread.append_now(store, make(store)))
    found = []
    for answer in answers:
        if isinstance(answer, RiataError):
            raise engine.why_not_logged(answer)
        found.append(answer)
    return found


async def saved_content(engine: Engine, model: str) -> bytes:
    """Save the present state of a model, and return the checkpoint. Raises `Conflict` (code `checkpoint_failed`), and as
    `Engine.save`."""
    saved = await engine.save(model, requested=True)
    if saved.generation is None:
        raise Conflict("the snapshot was not written", "checkpoint_failed")
    gen = saved.generation.gen
    return await engine.call(lambda s: s.open_generation(model, gen))


async def take_up(engine: Engine, model: str, make: Callable[[ModelConfig], ModelConfig]) -> tuple[ModelConfig, int]:
    """Log the configuration that `make` returns for the present one, unless it is the same.

    One change at a time in this process. If another process changed the configuration meanwhile (the log decides), the
    change is tried again, so that neither change is lost. Raises `Busy` (code `changed_meanwhile`) if that keeps happening.
    """
    served_model = engine.served_model(model)
    async with served_model.changing:
        for _ in range(TRIES):
            served = await engine.latest(model)
            config = make(served.config)
            if config == served.config:
                return config, served.applied
            payload = Change(config, served.changes[-1] if served.changes else None, current_actor.get()).payload()
            seq = await append_and_serve(engine, Append(model, "config", engine.clock.unix_ms(), payload=payload))
            after = engine.published(model).changes
            if not served.changes or seq in after:
                return config, seq
            if len(after) == CHANGES_KEPT and seq < after[0]:
                break
    raise Busy(
        f"another request changed model {model} at the same time; read its present configuration and try again",
        "changed_meanwhile",
    )


# Models that are being created.


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
