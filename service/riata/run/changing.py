"""Log an event that changes a model, and wait until what it changes is served."""

from __future__ import annotations

from riata.run.engine import Engine
from riata.store.store import Append


async def append_and_serve(engine: Engine, append: Append) -> int:
    """Append; return the event when it is served. Raises as `Engine.append` and `Engine.wait_for`, and `Busy` or `Unavailable` if
    the model accepts no events now."""
    engine.require_accepting(engine.served_model(append.model))
    appended = await engine.append(append)
    await engine.wait_for(append.model, appended.seq, engine.settings.observe_timeout_ms)
    return appended.seq
