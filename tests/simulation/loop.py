"""What an engine on an embedded store awaits, in virtual time: a coroutine is run by an actor, which blocks where it waits.

`LOOP` takes the place of the module `asyncio`. Other coroutines go on meanwhile, because each has an actor of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Final

from riata.run.served_model import ServedModel
from tests.simulation.shims import ASYNCIO, finish, world
from tests.simulation.world import FOREVER, Actor, Gate, Process


class Awaited:
    """`asyncio.Future` and `asyncio.Task`."""

    def __init__(self) -> None:
        self._done = False
        self._answer: Any = None
        self._error: BaseException | None = None
        self._waiting: list[tuple[Actor, int]] = []
        self._calls: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._answer

    def set_result(self, answer: Any) -> None:
        self._answer = answer
        self._end()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._end()

    def add_done_callback(self, call: Callable[[Any], object]) -> None:
        self._calls.append(call)

    def wait(self, timeout_ms: float = FOREVER) -> bool:
        """Block the current actor; false if the time passed before."""
        here = world()
        if not self._done:
            ticket = here.ticket()
            self._waiting.append((here.here(), ticket))
            here.park(timeout_ms, ticket)
        return self._done

    def __await__(self) -> Generator[None, None, Any]:
        self.wait()
        return self.result()
        yield

    def _end(self) -> None:
        self._done = True
        for actor, ticket in self._waiting:
            world().wake(actor, ticket)
        for call in self._calls:
            call(self)


class Lock:
    """`asyncio.Lock`."""

    def __init__(self) -> None:
        self._gate = Gate(world())

    async def __aenter__(self) -> None:
        self._gate.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._gate.release()


_callers: list[Process] = []  # the processes whose callback runs now, outside of every actor


class EventLoop:
    """The running event loop."""

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> Awaited:
        return Awaited()

    def call_soon_threadsafe(self, work: Callable[..., object], *args: object) -> None:
        here = world()
        process = here.here().process

        def call() -> None:
            if process.alive:
                _callers.append(process)
                try:
                    work(*args)
                finally:
                    _callers.pop()

        here.after(here.rng.random(), call)

    def run_in_executor(self, _pool: None, work: Callable[..., Any], *args: object) -> Awaited:
        return create_task(_call(work, *args))


async def _call(work: Callable[..., Any], *args: object) -> Any:
    return work(*args)


def create_task(work: Coroutine[Any, Any, Any]) -> Awaited:
    """Run a coroutine by an actor of its own."""
    task, here = Awaited(), world()
    process = _callers[-1] if here.current is None and _callers else here.here().process

    def run() -> None:
        try:
            answer = finish(work)
        except Exception as error:  # whoever waits for the task gets it
            task.set_exception(error)
        else:
            task.set_result(answer)

    process.spawn(run, "task")
    return task


async def _wait(tasks: Iterable[Awaited], timeout: float | None = None) -> None:
    for task in tasks:
        task.wait(FOREVER if timeout is None else 1000 * timeout)


async def _wait_for(work: Any, timeout: float) -> Any:
    if isinstance(work, Awaited) and not work.wait(1000 * timeout):
        raise TimeoutError
    return await work


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


async def _gather(*works: Awaitable[Any], return_exceptions: bool = False) -> list[Any]:
    answers: list[Any] = []
    for task in [work if isinstance(work, Awaited) else create_task(_awaited(work)) for work in works]:
        task.wait()
        answers.append(task.exception() if return_exceptions and task.exception() is not None else task.result())
    return answers


async def _sleep(seconds: float) -> None:
    world().sleep(1000 * seconds)


LOOP: Final = SimpleNamespace(
    wrap_future=ASYNCIO.wrap_future, get_running_loop=EventLoop, create_task=create_task, gather=_gather, wait=_wait,
    wait_for=_wait_for, sleep=_sleep, Lock=Lock, CancelledError=asyncio.CancelledError,
)  # fmt: skip


@contextlib.contextmanager
def simulated_locks() -> Iterator[None]:
    """Give every served model a lock of the simulation."""
    real = ServedModel.open

    def opened(*what: Any) -> ServedModel:
        made = real(*what)
        made.changing = Lock()  # type: ignore[assignment]
        return made

    changing: Any = ServedModel
    changing.open = staticmethod(opened)
    try:
        yield
    finally:
        changing.open = staticmethod(real)
