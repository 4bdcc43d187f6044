"""How an engine begins: alone on an embedded store, or as one of several processes on a shared one."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from riata.base.errors import Conflict, RiataError, Unavailable
from riata.learn.registry import ALGO_VERSION
from riata.run.config import ModelConfig
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.learning import Learning, learning_names
from riata.run.recovery import recover_all
from riata.run.warm_up import LOADING, warm_up

if TYPE_CHECKING:
    from riata.run.engine import Engine

log = logging.getLogger("riata.run")

ANSWER_S = 5.0  # how long a start waits for a shared store before it goes on without it
SETTLED_EVERY_S = 0.05
AGAIN_S = 1.0


async def start_alone(engine: Engine) -> None:
    """Own the store, recover every model, begin to learn. Raises what the store or the recovery raises."""
    common, loop = engine.common, asyncio.get_running_loop()
    await asyncio.wrap_future(common.keeper.start())
    nonce, now_ms = engine.draw(16), engine.clock.unix_ms()
    owner = await engine.call(lambda s: s.acquire(nonce, ALGO_VERSION, engine.settings.host, now_ms))
    await engine.call(lambda s: s.drop_stale_stages(owner))
    engine.warnings = await engine.call(lambda s: s.warnings())
    await _warm(engine)
    recovering = partial(recover_all, common.keeper.call, owner, engine.clock.unix_ms, engine.tally)
    recovered = await loop.run_in_executor(None, recovering)
    engine.tally.compiled = False
    for found in recovered:
        await engine.warm(found.state.config.learner)
    engine.tally.compiled = True
    learning = Learning(common, owner)
    learning.writer.start()
    engine.learning = learning
    for found in recovered:
        names = await loop.run_in_executor(None, learning_names, common, found)
        learning.take_up(found, names)
    if DEFAULT_MODEL not in engine.desks:
        await engine.create(DEFAULT_MODEL, ModelConfig())
    await learning.settle()
    engine.recovered = True
    log.info("ready: %d model%s", len(engine.desks), "" if len(engine.desks) == 1 else "s")
    engine.scrubbing = asyncio.create_task(_look_after(engine))


async def start_shared(engine: Engine) -> None:
    """See that the store may be used, begin to follow and, where the role may, to ask for the lease.

    Raises `Conflict` (code `store_refuses`) with everything that is wrong with the store. One that does not answer is no reason
    not to start: it is asked again in the background.
    """
    common, loop = engine.common, asyncio.get_running_loop()
    opened = common.keeper.start()
    try:
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(opened)), ANSWER_S)
        if refusals := await engine.call(lambda s: s.refusals()):
            raise Conflict("; ".join(refusals), "store_refuses")
    except (TimeoutError, Unavailable) as error:
        detail = error.detail if isinstance(error, RiataError) else f"no answer for {ANSWER_S:.0f} s"
        log.warning("the store takes no events yet; it is asked again and again: %s", detail)
    await _warm(engine)
    if engine.watch is not None:
        engine.watch.start()
    common.ledger.start()
    if engine.following is not None:
        await loop.run_in_executor(None, engine.following.start)
    if engine.candidate is not None:
        engine.candidate.start()
    engine.scrubbing = asyncio.create_task(_look_after(engine))


async def _warm(engine: Engine) -> None:
    log.info(LOADING)
    await asyncio.get_running_loop().run_in_executor(None, warm_up)
    await engine.warm(ModelConfig().learner)
    engine.tally.compiled = True


async def _look_after(engine: Engine) -> None:
    """What has to be done now and then, as long as the engine runs."""
    if engine.settings.shared:
        await _settle_in(engine)
    while True:
        await asyncio.sleep(engine.settings.scrub_every_s)
        if engine.learning is None:
            continue
        try:
            await engine.scrub()
        except RiataError as error:
            log.error("scrubbing: %s", error.detail)


async def _settle_in(engine: Engine) -> None:
    """Make the default model where this process is the first that ever led."""
    if engine.candidate is None:
        return
    while engine.learning is None:
        await asyncio.sleep(SETTLED_EVERY_S)
    while DEFAULT_MODEL not in engine.desks:
        try:
            await engine.create(DEFAULT_MODEL, ModelConfig())
        except RiataError as error:
            log.error("the default model could not be made, which is tried again: %s", error.detail)
            await asyncio.sleep(AGAIN_S)
