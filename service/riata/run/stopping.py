"""The end of a process that learns: within a second or two, whatever it computes. What is not saved is in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from typing import Final, TypeVar

from riata.base.errors import Busy, RiataError
from riata.base.halt import Halt, Halted, halting
from riata.run.engine import Engine
from riata.run.learning import Learning

T = TypeVar("T")
log = logging.getLogger("riata.run")

LEAVING_S: Final = 0.3  # requests that wait for the writer are answered by then
SETTLING_S: Final = 0.5  # while a model takes long: for learning what waits, and again for saving it
STOPPING_S_MAX: Final = 12.0  # otherwise
CLOSING_S: Final = 0.2  # while a model takes long: for a checkpoint that is being written


async def leave(engine: Engine) -> None:
    """Answer the requests that wait for the writer, so that they do not hold up the end; halt the models that take long."""
    await asyncio.sleep(LEAVING_S)
    for served_model in engine.served_models.values():
        served_model.give_up(Busy("the service is stopping", "stopping", retry_after_s=5))
    for halt in engine.context.halts:
        halt.set()
    if engine.learning is not None:
        engine.learning.writer.give_up_unfinished(slow_only=True)


async def wanted(halts: list[Halt], compute: Callable[[], T]) -> T:
    """Return what `compute` returns, in another thread. It is halted when the process leaves: then raises `Busy` (`stopping`)."""
    halt = Halt()

    def computed() -> T:
        with halting(halt):
            return compute()

    halts.append(halt)
    try:
        return await asyncio.get_running_loop().run_in_executor(None, computed)
    except Halted:
        raise Busy("the service is stopping", "stopping", retry_after_s=5) from None
    finally:
        halts.remove(halt)


async def finish(learning: Learning, *, fatal: bool, saves: bool = True) -> None:
    """Learn what waits, checkpoint it if `saves`, and close the writer. Models that take long are given up.

    fatal : learning has ended already
    """
    slow = fatal or await _learn_and_save(learning, saves)
    await asyncio.get_running_loop().run_in_executor(None, learning.writer.close, CLOSING_S if slow else None)


async def _learn_and_save(learning: Learning, saves: bool) -> bool:
    """Return whether a model takes long."""
    slow = False
    given_up: list[str] = []
    settled = asyncio.wrap_future(learning.writer.settle())
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    while not settled.done():
        await asyncio.wait([settled], timeout=SETTLING_S / 10)
        slow = slow or learning.writer.is_slow()
        if not settled.done() and loop.time() - begun_s >= (SETTLING_S if slow else STOPPING_S_MAX):
            given_up = learning.writer.give_up_unfinished()
            log.warning("stopped while learning %s; the next start learns that from the log", ", ".join(sorted(given_up)))
            break
    await asyncio.wait([settled])
    if saves and settled.exception() is None:
        await _save_all(learning, SETTLING_S if slow else STOPPING_S_MAX, set(given_up))
    return slow


async def _save_all(learning: Learning, wait_s: float, but: Set[str]) -> None:
    """Checkpoint every model that is ahead of its newest generation. Failures are logged; those events are replayed later."""
    names = [name for name in learning.names() if name not in but]
    saving = asyncio.gather(*(learning.save(name, if_ahead=True) for name in names), return_exceptions=True)
    try:
        failures = await asyncio.wait_for(saving, wait_s)
    except TimeoutError:
        log.error("last checkpoint: not written within %.1f s; the next start replays the log instead", wait_s)
        return
    for failure in failures:
        if isinstance(failure, RiataError):
            log.error("last checkpoint: %s; the next start replays the log instead", failure.detail)
