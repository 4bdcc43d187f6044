"""How an engine starts: alone on an embedded store, or as one of several processes on a shared store."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from riata.base.errors import Conflict, RiataError, Unavailable
from riata.learn import registry
from riata.learn.registry import LearnerConfig
from riata.run.compilers import Stopped
from riata.run.config import ModelConfig
from riata.run.damage import Damage
from riata.run.engine_context import aside
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.learning import Learning, learning_names
from riata.run.recovery import Recovered, clear_marks, recover_all
from riata.run.scrubbing import LogScrub
from riata.run.warm_up import LOADING, warm_up
from riata.store.store import Owner

if TYPE_CHECKING:
    from riata.run.engine import Engine

log = logging.getLogger("riata.run")

ANSWER_S = 5.0  # how long a start waits for a shared store before it continues without it
SETTLED_EVERY_S = 0.05
AGAIN_S = 1.0


async def start(engine: Engine) -> None:
    """Start, alone or as one of several. Raises what either raises; a start that is abandoned ends without an error."""
    try:
        await (start_shared(engine) if engine.settings.shared else start_alone(engine))
    except Stopped:
        log.warning("stop signal before the start was complete: nothing is lost, the next start begins again")


def give_up_start(engine: Engine) -> None:
    """Make an unfinished start end soon, without an error. Only `Engine.stop` may follow."""
    engine.stopping = True
    engine.context.compilers.stop()


async def start_alone(engine: Engine) -> None:
    """Own the store, recover every model, begin to learn. Raises what the store or the recovery raises."""
    await asyncio.wrap_future(engine.context.log_thread.start())
    nonce, now_ms = engine.draw(16), engine.clock.unix_ms()
    owner = await engine.call(lambda s: s.acquire(nonce, registry.ALGO_VERSION, engine.settings.host, now_ms))
    try:
        await _lead_alone(engine, owner)
    except Stopped:
        await engine.call(lambda s: s.release(owner))
        raise


async def _lead_alone(engine: Engine, owner: Owner) -> None:
    context, loop = engine.context, asyncio.get_running_loop()
    await engine.call(lambda s: s.drop_stale_stages(owner))
    if engine.watch is not None:
        engine.watch.start()
    await _warm(engine)
    recovered, damaged = await aside(_recover, engine, owner)
    learning = Learning(context, owner)
    learning.writer.start()
    engine.learning = learning
    for damage in damaged:
        learning.give_up(damage)
    for found in recovered:
        names = await loop.run_in_executor(None, learning_names, context, found)
        learning.take_up(found, names)
    if DEFAULT_MODEL not in engine.served_models and DEFAULT_MODEL not in context.catalogue.damaged:
        await engine.create(DEFAULT_MODEL, ModelConfig())
    await learning.settle()
    engine.recovered = True
    log.info("ready: %d model%s", len(engine.served_models), "" if len(engine.served_models) == 1 else "s")
    engine.scrubbing = asyncio.create_task(_look_after(engine))


def _recover(engine: Engine, owner: Owner) -> tuple[list[Recovered], list[Damage]]:
    """Recover every model, in a thread. Raises `Stopped` soon after the engine is stopped."""
    context, tally = engine.context, engine.tally

    def go_on() -> None:
        if engine.stopping:
            raise Stopped

    def warm(config: LearnerConfig) -> None:
        go_on()
        tally.compiled = False  # reported to probes
        context.warm(config)
        tally.compiled = True

    tally.on_progress = go_on
    try:
        return recover_all(context.log_thread.call, owner, engine.clock.unix_ms, tally, warm=warm)
    except Stopped:
        context.log_thread.call(lambda s: clear_marks(s, owner)).result()  # this start did not crash at any event
        raise
    finally:
        tally.on_progress = lambda: None


async def start_shared(engine: Engine) -> None:
    """Check that the store is usable, begin to follow and, if the role allows it, to compete for the lease.

    Raises `Conflict` (code `store_refuses`) with everything that is wrong with the store. A store that does not answer does not
    prevent the start: it is retried in the background.
    """
    context, loop = engine.context, asyncio.get_running_loop()
    opened = context.log_thread.start()
    try:
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(opened)), ANSWER_S)
        if refusals := await engine.call(lambda s: s.refusals()):
            raise Conflict("; ".join(refusals), "store_refuses")
    except (TimeoutError, Unavailable) as error:
        detail = error.detail if isinstance(error, RiataError) else f"no answer for {ANSWER_S:.0f} s"
        log.warning("the store accepts no events yet, retrying: %s", detail)
    await _warm(engine)
    if engine.watch is not None:
        engine.watch.start()
    context.ledger.start()
    if engine.following is not None:
        await loop.run_in_executor(None, engine.following.start)
    if engine.contender is not None:
        engine.contender.start()
    engine.scrubbing = asyncio.create_task(_look_after(engine))


async def _warm(engine: Engine) -> None:
    log.info(LOADING)
    await aside(warm_up, engine.context.compilers)
    await engine.warm(ModelConfig().learner)
    engine.tally.compiled = True


async def _look_after(engine: Engine) -> None:
    """Run the periodic tasks while the engine runs."""
    if engine.settings.shared:
        await _settle_in(engine)
    await asyncio.gather(_scrub_generations(engine), _scrub_log(engine))


async def _scrub_generations(engine: Engine) -> None:
    while True:
        await asyncio.sleep(engine.settings.scrub_every_s)
        if engine.learning is None:
            continue
        try:
            await engine.scrub()
        except RiataError as error:
            log.error("scrubbing: %s", error.detail)


async def _scrub_log(engine: Engine) -> None:
    """Run one pass after another, with a pause between them: a pass over a long log takes longer than the pause."""
    scrub: LogScrub | None = None
    while True:
        await asyncio.sleep(engine.settings.scrub_every_s)
        if engine.learning is None:
            continue
        scrub = scrub or LogScrub(engine.context, engine.learning)
        try:
            await scrub.scrub()
        except RiataError as error:
            log.error("scrubbing the log: %s", error.detail)


async def _settle_in(engine: Engine) -> None:
    """Create the default model if this process is the first leader of a new store."""
    if engine.contender is None:
        return
    while engine.learning is None:
        await asyncio.sleep(SETTLED_EVERY_S)
    while DEFAULT_MODEL not in engine.served_models and DEFAULT_MODEL not in engine.context.catalogue.damaged:
        try:
            await engine.create(DEFAULT_MODEL, ModelConfig())
        except RiataError as error:
            log.error("the default model could not be created, retrying: %s", error.detail)
            await asyncio.sleep(AGAIN_S)
