"""One thread, one random generator, virtual time: the scheduler of the simulation.

An actor is a greenlet. It runs until it waits for something; then the world takes the next entry of its agenda, a heap ordered by
virtual time. All chance comes from `World.rng`, so a seed is a whole history. Actors belong to a process: a killed process is
its actors thrown away, a paused one is actors whose turns come late.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from greenlet import getcurrent, greenlet

FOREVER: Final = float("inf")
EPOCH_MS: Final = 1_700_000_000_000  # wall clock at virtual time 0


class Killed(BaseException):
    """Raised in the actors of a process that is killed: nothing they still do has an effect."""


class Stuck(Exception):
    """The agenda is empty, or the history is too long."""


class Entry:
    """One entry of the agenda; `work` is None after it is cancelled."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[], None]) -> None:
        self.work: Callable[[], None] | None = work

    def cancel(self) -> None:
        self.work = None


class Actor:
    """A greenlet of a process. `ticket` identifies its current wait; a wake-up for an earlier one is ignored."""

    __slots__ = ("done", "failure", "glet", "name", "process", "thread", "ticket", "waiters")

    def __init__(self, process: Process, name: str, work: Callable[[], object], hub: greenlet) -> None:
        self.process = process
        self.name = name
        self.ticket = 0
        self.done = False
        self.thread: object = None  # what `threading.current_thread` answers
        self.failure: BaseException | None = None
        self.waiters: list[tuple[Actor, int]] = []
        self.glet = greenlet(lambda *_: self._live(work), hub)

    def _live(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Killed:
            pass
        except Exception as error:  # the actor's outer edge: the world decides
            self.failure = error
            if self.process.alive:
                self.process.world.failures.append((self.process.name, self.name, error))
        finally:
            self.done = True
            for actor, ticket in self.waiters:
                self.process.world.wake(actor, ticket)


class Process:
    """The actors that live and die together. `on_exit` gets the exit code if the process ends itself; a kill does not call it."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.paused_until = 0.0
        self.wall_offset_ms = 0
        self.release: Any = None  # the version of the program that it runs
        self.actors: list[Actor] = []

    def spawn(self, work: Callable[[], object], name: str = "main") -> Actor:
        """Start an actor of this process."""
        return self.world.spawn(self, work, name)

    def kill(self) -> None:
        """End every actor at once. An actor that kills its own process ends immediately."""
        if not self.alive:
            return
        self.alive = False
        current = getcurrent()
        inside = False
        for actor in self.actors:
            if actor.glet is current:
                inside = True
            elif not actor.done:
                self.world.throw(actor)
        self.actors.clear()
        if inside:
            raise Killed


class World:
    """The agenda, the clock and the only random generator."""

    def __init__(self, seed: int, steps_max: int = 1_000_000) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now = 0.0  # virtual milliseconds
        self.steps = 0
        self.steps_max = steps_max
        self.failures: list[tuple[str, str, Exception]] = []  # exceptions that left an actor of a living process
        self.current: Actor | None = None
        self.disk: dict[Path, bytes] = {}  # files that outlive processes
        self.calm = False  # no faults and no jitter beyond the ordinary
        self._agenda: list[tuple[float, int, Entry]] = []
        self._number = 0
        self._hub = getcurrent()
        self._trace = hashlib.blake2b(digest_size=16)

    # -- the agenda ------------------------------------------------------------------------------------------------

    def after(self, delay_ms: float, work: Callable[[], None]) -> Entry:
        """Run `work` `delay_ms` from now, outside of all actors."""
        self._number += 1
        entry = Entry(work)
        heapq.heappush(self._agenda, (self.now + delay_ms, self._number, entry))
        return entry

    def note(self, what: bytes) -> None:
        """Add to the trace, which is equal for equal histories."""
        self._trace.update(what)

    def trace(self) -> str:
        """Digest of all notes and of the number of steps."""
        self.note(repr((self.steps, self.now)).encode())
        return self._trace.hexdigest()

    def run(self, until: float = FOREVER, stop: Callable[[], bool] = lambda: False) -> None:
        """Process the agenda until virtual time `until`, or until `stop` returns true. Raises `Stuck`."""
        agenda = self._agenda
        while agenda and not stop():
            if agenda[0][0] > until:
                break
            time, _, entry = heapq.heappop(agenda)
            if entry.work is None:
                continue
            if time > self.now:
                self.now = time
            self.steps += 1
            if self.steps > self.steps_max:
                raise Stuck(f"more than {self.steps_max} steps")
            entry.work()
        if until != FOREVER and self.now < until and not stop():
            self.now = until

    # -- actors ----------------------------------------------------------------------------------------------------

    def spawn(self, process: Process, work: Callable[[], object], name: str) -> Actor:
        """Start an actor; it runs when its entry is reached."""
        actor = Actor(process, name, work, self._hub)
        process.actors.append(actor)
        self.after(self.rng.random(), lambda: self._resume(actor, 0))
        return actor

    def here(self) -> Actor:
        """The actor that runs now. Raises `Killed` if its process is dead, `Stuck` outside of every actor."""
        actor = self.current
        if actor is None:
            raise Stuck("only an actor can wait")
        if not actor.process.alive:
            raise Killed
        return actor

    def park(self, timeout_ms: float = FOREVER, ticket: int | None = None) -> bool:
        """Wait for `wake` with the current actor's ticket; false if `timeout_ms` passed before."""
        actor = self.here()
        if ticket is None:
            ticket = self.ticket()
        timer = None
        if timeout_ms != FOREVER:
            timer = self.after(timeout_ms, lambda: self._resume(actor, ticket, False))
        woken = self._hub.switch()
        if timer is not None:
            timer.cancel()
        if not actor.process.alive:
            raise Killed
        return bool(woken)

    def ticket(self) -> int:
        """A new ticket of the current actor, for its next wait."""
        actor = self.here()
        actor.ticket += 1
        return actor.ticket

    def wake(self, actor: Actor, ticket: int, delay_ms: float | None = None) -> None:
        """Let an actor that waits with `ticket` run, a moment from now."""
        if actor.ticket == ticket and not actor.done:
            self.after(self.rng.random() if delay_ms is None else delay_ms, lambda: self._resume(actor, ticket))

    def sleep(self, ms: float) -> None:
        """Let the current actor wait."""
        self.park(max(ms, 0.0))

    def throw(self, actor: Actor) -> None:
        """End a waiting actor."""
        if actor.glet.dead:
            return
        before, self.current = self.current, actor
        try:
            for _ in range(100):  # a catch-all of the code under test may need to be told more than once
                if actor.glet.dead:
                    break
                actor.glet.parent = getcurrent()
                with contextlib.suppress(Killed):  # of one that never began
                    actor.glet.throw(Killed)
            actor.done = True
        finally:
            self.current = before

    def _resume(self, actor: Actor, ticket: int, woken: bool = True) -> None:
        if actor.done or actor.ticket != ticket or not actor.process.alive:
            return
        process = actor.process
        if process.paused_until > self.now:
            self.after(process.paused_until - self.now + self.rng.random(), lambda: self._resume(actor, ticket, woken))
            return
        actor.ticket += 1  # whatever else would wake it is late
        before, self.current = self.current, actor
        try:
            actor.glet.switch(woken)
        finally:
            self.current = before


# -- what the standard library's threads offer, in virtual time ------------------------------------------------------


class Flag:
    """`threading.Event`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._set = False
        self._waiting: list[tuple[Actor, int]] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for actor, ticket in waiting:
            self._world.wake(actor, ticket)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        world = self._world
        limit = FOREVER if timeout is None else world.now + 1000 * timeout
        while not self._set:
            left = limit - world.now
            if left <= 0:
                return False
            ticket = world.ticket()
            self._waiting.append((world.here(), ticket))
            world.park(left, ticket)
        return True


class Gate:
    """`threading.Lock`, `RLock` and `Condition` in one. No other actor runs between two waits, so the lock matters only to
    those who hold it across a wait.
    """

    def __init__(self, world: World, lock: Gate | None = None) -> None:
        """lock : whose lock this condition has; None for one of its own"""
        self._world = world
        self._lock: Gate = self if lock is None else lock._lock
        self._holder: Actor | None = None
        self._depth = 0
        self._entering: deque[tuple[Actor, int]] = deque()
        self._waiting: list[tuple[Actor, int]] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        lock, world, current = self._lock, self._world, self._world.current
        limit = FOREVER if timeout < 0 else world.now + 1000 * timeout
        while lock._holder is not None and lock._holder is not current:
            if not blocking or limit <= world.now:
                return False
            ticket = world.ticket()
            lock._entering.append((world.here(), ticket))
            world.park(limit - world.now, ticket)
        lock._holder = current
        lock._depth += 1
        return True

    def release(self) -> None:
        lock = self._lock
        lock._depth -= 1
        if lock._depth == 0:
            lock._holder = None
            if lock._entering:
                self._world.wake(*lock._entering.popleft())

    def locked(self) -> bool:
        return self._lock._holder is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def notify(self, n: int = 1) -> None:
        waiting, self._waiting = self._waiting[:n], self._waiting[n:]
        for actor, ticket in waiting:
            self._world.wake(actor, ticket)

    def notify_all(self) -> None:
        self.notify(len(self._waiting))

    def wait(self, timeout: float | None = None) -> bool:
        world, lock = self._world, self._lock
        ticket = world.ticket()
        self._waiting.append((world.here(), ticket))
        depth, lock._depth, lock._holder = lock._depth, 0, None
        if lock._entering:
            world.wake(*lock._entering.popleft())
        try:
            return world.park(FOREVER if timeout is None else max(1000 * timeout, 0.0), ticket)
        finally:
            self._waiting = [entry for entry in self._waiting if entry[1] != ticket]
            if world.current is not None and world.current.process.alive:
                self.acquire()
                lock._depth = depth

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        limit = FOREVER if timeout is None else self._world.now + 1000 * timeout
        while not (found := predicate()):
            left = limit - self._world.now
            if left <= 0:
                break
            self.wait(None if left == FOREVER else left / 1000)
        return found
