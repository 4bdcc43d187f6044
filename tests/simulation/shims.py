"""Replacements of threads, queues, futures and clocks in production modules: actors and virtual time.

`installed()` replaces the names `threading`, `queue`, `time` and `ThreadPoolExecutor` inside the modules under test, and nowhere
else. `concurrent.futures.Future` stays the real one, on a simulated condition.
"""

from __future__ import annotations

import asyncio as real_asyncio
import contextlib
import queue as real_queue
import random as real_random
import sys
import threading as real_threading
import time as real_time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from concurrent.futures import ThreadPoolExecutor as RealExecutor
from concurrent.futures import _base as futures_base
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from riata.base.process import lower_priority, lower_priority_of
from tests.simulation.world import EPOCH_MS, FOREVER, Actor, Flag, Gate, World

ROOMS: Final = ("riata.run.", "riata.store.")

_worlds: list[World] = []


def world() -> World:
    """The world that runs now."""
    return _worlds[-1]


class Thread:
    """`threading.Thread`: an actor of the process that starts it."""

    def __init__(
        self,
        group: None = None,  # noqa: ARG002  the signature of the real one
        target: Callable[..., object] | None = None,
        name: str = "thread",
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        daemon: bool | None = None,  # noqa: ARG002
    ) -> None:
        self.name = name
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self._actor: Actor | None = None

    @property
    def ident(self) -> int | None:
        return None if self._actor is None else 1

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def start(self) -> None:
        here = world()
        self._actor = actor = here.spawn(here.here().process, self.run, self.name)
        actor.thread = self

    def join(self, timeout: float | None = None) -> None:
        actor, here = self._actor, world()
        limit = FOREVER if timeout is None else here.now + 1000 * timeout
        while actor is not None and not actor.done and here.now < limit:
            ticket = here.ticket()
            actor.waiters.append((here.here(), ticket))
            here.park(limit - here.now, ticket)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.done


class Timer(Thread):
    """`threading.Timer`."""

    def __init__(self, interval: float, function: Callable[..., object], args: Any = (), kwargs: Any = None) -> None:
        super().__init__(target=function, args=tuple(args), kwargs=kwargs, name="timer")
        self._interval = interval
        self._cancelled = False

    def run(self) -> None:
        world().sleep(1000 * self._interval)
        if not self._cancelled:
            super().run()

    def cancel(self) -> None:
        self._cancelled = True


class Queue:
    """`queue.SimpleQueue` and `queue.Queue` without a bound."""

    def __init__(self, maxsize: int = 0) -> None:  # noqa: ARG002
        self._items: deque[Any] = deque()
        self._waiting: deque[tuple[Actor, int]] = deque()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: ARG002
        self._items.append(item)
        while self._waiting:
            actor, ticket = self._waiting.popleft()
            if actor.ticket == ticket and not actor.done:
                world().wake(actor, ticket)
                break

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        here = world()
        limit = here.now if not block else FOREVER if timeout is None else here.now + 1000 * timeout
        while not self._items:
            left = limit - here.now
            if left <= 0:
                raise real_queue.Empty
            ticket = here.ticket()
            self._waiting.append((here.here(), ticket))
            here.park(left, ticket)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items


class Executor:
    """`ThreadPoolExecutor` of one worker."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "executor", **_: Any) -> None:  # noqa: ARG002
        self._name = thread_name_prefix
        self._work: Queue = Queue()
        self._thread: Thread | None = None

    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._work.put((future, lambda: work(*args, **kwargs)))
        if self._thread is None:
            self._thread = Thread(target=self._run, name=self._name)
            self._thread.start()
        return future

    def shutdown(self, wait: bool = True, **_: Any) -> None:
        self._work.put(None)
        if wait and self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except Exception as error:  # the worker's outer edge
                future.set_exception(error)


def _flag() -> Flag:
    return Flag(world())


def _gate(lock: Gate | None = None) -> Gate:
    return Gate(world(), lock)


def _seconds() -> float:
    return world().now / 1000


def _sleep(seconds: float) -> None:
    world().sleep(1000 * seconds)


def wall_ms() -> int:
    """The wall clock of the current process, which may jump."""
    current = world().current
    return EPOCH_MS + int(world().now) + (current.process.wall_offset_ms if current is not None else 0)


class Clock:
    """`riata.base.clock.Clock` in virtual time."""

    def monotonic_ms(self) -> int:
        return int(world().now)

    def unix_ms(self) -> int:
        return wall_ms()

    def thread_ms(self) -> int:
        return int(world().now)


class Blocking:
    """`asyncio.wrap_future` for code that an actor runs by `finish`: awaiting it blocks the actor."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def __await__(self) -> Generator[None, None, Any]:
        return self._future.result()
        yield


async def _gather(*works: Awaitable[Any], return_exceptions: bool = False) -> list[Any]:
    answers: list[Any] = []
    for work in works:
        try:
            answers.append(await work)
        except Exception as error:  # as the real one
            if not return_exceptions:
                raise
            answers.append(error)
    return answers


def finish(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine of production code to its end in the current actor."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise RuntimeError("the coroutine waits for something that nobody gives")


def _nothing(*_: object) -> None:
    pass


async def _wait_for(work: Awaitable[Any], _timeout: float | None) -> Any:
    return await work


ASYNCIO: Final = SimpleNamespace(wrap_future=Blocking, gather=_gather, wait_for=_wait_for)
THREADING: Final = SimpleNamespace(
    Thread=Thread, Timer=Timer, Event=_flag, Lock=_gate, RLock=_gate, Condition=_gate, local=SimpleNamespace,
    get_ident=lambda: 1, get_native_id=lambda: 1, current_thread=lambda: world().here().thread,
)  # fmt: skip
QUEUE: Final = SimpleNamespace(SimpleQueue=Queue, Queue=Queue, Empty=real_queue.Empty, Full=real_queue.Full)
TIME: Final = SimpleNamespace(
    monotonic=_seconds, perf_counter=_seconds, sleep=_sleep, time=lambda: wall_ms() / 1000,
    monotonic_ns=lambda: int(world().now * 1e6), thread_time=_seconds, time_ns=lambda: wall_ms() * 1_000_000,
)  # fmt: skip
RANDOM: Final = SimpleNamespace(uniform=lambda low, high: world().rng.uniform(low, high), random=lambda: world().rng.random())
REPLACED: Final[list[tuple[object, object]]] = [
    (real_threading, THREADING),
    (real_queue, QUEUE),
    (real_time, TIME),
    (real_random, RANDOM),
    (real_threading.Thread, Thread),
    (real_queue.SimpleQueue, Queue),
    (RealExecutor, Executor),
    (lower_priority, _nothing),  # the thread is that of the tests
    (lower_priority_of, _nothing),
]


def load_note(path: Path) -> bytes:
    """The file that `riata.run.cluster.store_identity.load` reads, from the world."""
    try:
        return world().disk[path]
    except KeyError:
        raise FileNotFoundError(str(path)) from None


def save_note(path: Path, data: bytes) -> None:
    """The replacement of `riata.run.cluster.store_identity.save`."""
    world().disk[path] = data


@contextlib.contextmanager
def installed(awaited: object = ASYNCIO) -> Iterator[None]:
    """Replace everything that waits, in the modules under test. awaited : in place of `asyncio`"""
    undo: list[tuple[ModuleType, str, object]] = []
    for module in [module for name, module in sorted(sys.modules.items()) if name.startswith(ROOMS)] + [futures_base]:
        for name, value in list(vars(module).items()):
            for real, ours in [*REPLACED, (real_asyncio, awaited)]:
                if value is real:
                    undo.append((module, name, value))
                    setattr(module, name, ours)
    try:
        yield
    finally:
        for module, name, value in undo:
            setattr(module, name, value)


@contextlib.contextmanager
def running(the_world: World) -> Iterator[World]:
    """Let the replaced names refer to `the_world`."""
    _worlds.append(the_world)
    try:
        yield the_world
    finally:
        _worlds.pop()
