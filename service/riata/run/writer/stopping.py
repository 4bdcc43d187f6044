"""The end of a process that learns: within a second or two, whatever it computes. What is not saved is in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from riata.base.errors import Busy, RiataError
from riata.base.halt import Halt, Halted, halting
from riata.run.engine import Engine
from riata.run.writer.learning import Learning

T = TypeVar("T")
log = logging.getLogger("riata.run")

LEAVING_S: Final = 0.3  # requests that wait for the writer are answered by then
SETTLING_S: Final = 0.4  # while a model takes long: for learning what waits, and again for saving it
STOPPING_S_MAX: Final = 12.0  # otherwise
CLOSING_S: Final = 0.1  # while a model takes long: for a turn and for a checkpoint that is being written
LOOK_S: Final = 0.05
SAID_MAX: Final = 10  # models that a line of the log names


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
    await asyncio.get_running_loop().run_in_executor(None, learning.writer.close, CLOSING_S if slow else STOPPING_S_MAX)


async def _learn_and_save(learning: Learning, saves: bool) -> bool:
    """Return whether a model takes long."""
    slow = False
    await learning.distributed()
    settled = asyncio.wrap_future(learning.writer.settle())
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    while not settled.done():
        await asyncio.wait([settled], timeout=LOOK_S)
        slow = slow or learning.writer.is_slow()
        if not settled.done() and loop.time() - begun_s >= (SETTLING_S if slow else STOPPING_S_MAX):
            learning.writer.give_up_unfinished()
            break
    await asyncio.wait([settled])  # models that were given up hold it up no longer
    if given_up := learning.writer.given_up:
        slow = True
        log.warning("stopped while learning %s; the next start learns that from the log", _several(given_up))
    if saves and settled.exception() is None:
        slow = await _save_all(learning, slow)
    return slow


async def _save_all(learning: Learning, slow: bool) -> bool:
    """Checkpoint every model that is ahead of its newest generation. Failures are logged; those events are replayed later.

    Returns whether a model takes long: to be learnt, which the caller says with `slow`, or to be saved."""
    names = [name for name in learning.names() if name not in learning.writer.given_up]
    saving = {asyncio.ensure_future(learning.save(name, if_ahead=True)): name for name in names}
    left, loop = set(saving), asyncio.get_running_loop()
    begun_s = loop.time()
    while left:
        done, left = await asyncio.wait(left, timeout=LOOK_S)
        for one in done:
            if isinstance(failure := one.exception(), RiataError):
                log.error("last snapshot: %s; the next start replays the log instead", failure.detail)
        slow = slow or learning.writer.saves_long()
        if left and loop.time() - begun_s >= (SETTLING_S if slow else STOPPING_S_MAX):
            unsaved = _several(saving[one] for one in left)
            log.error("last snapshot: that of %s was not written in time; the next start replays the log instead", unsaved)
            for one in left:
                one.cancel()
            break
    return slow or learning.writer.saves_long()


def _several(models: Iterable[str]) -> str:
    """Return the first SAID_MAX names, and how many more there are."""
    names = sorted(models)
    more = f" and {len(names) - SAID_MAX} more models" if len(names) > SAID_MAX else ""
    return ", ".join(names[:SAID_MAX]) + more
