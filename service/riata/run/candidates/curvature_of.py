"""The curvature of a model, from which its path is solved: of the learner itself, or elsewhere of the newest snapshot."""

from __future__ import annotations

import asyncio

from riata.learn.registry import spec_of
from riata.run.engine import Engine
from riata.run.state.model_state import ModelState
from riata.run.writer.sketch_copy import SketchCopy
from riata.store import layout


async def curvature_of(engine: Engine, model: str) -> SketchCopy:
    """Return copies of the curvature of `model`: as it is now if this process learns, else as it was when the newest snapshot was
    written, at most `checkpoint_every_s` ago while events come.

    Raises `Conflict` (code `other_role`) if this process does not learn and there is no snapshot yet.
    """
    published = engine.published(model)
    if engine.leads or not engine.settings.shared:
        return await engine.led("the path").look(model)
    if not spec_of(published.config.learner).keeps_curvature:
        return SketchCopy(published.version, published.applied, None, [])
    found = [one.gen for one in await engine.call(lambda s: s.generations(model)) if one.verified]
    if not found:
        raise engine.why_not_led("the path of a model without a snapshot")
    content = await engine.call(lambda s: s.open_generation(model, found[0]))

    def read() -> SketchCopy:
        state = ModelState.thaw(*layout.decode_checkpoint(content))
        seq = state.applied if state.has_learnt else 0
        return SketchCopy(published.version, seq, state.learner.sketch(), state.learner.shadows())

    return await asyncio.get_running_loop().run_in_executor(None, read)
