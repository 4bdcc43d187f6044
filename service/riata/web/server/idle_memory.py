"""Return memory to the system after a burst of long bodies.

The C library keeps freed memory (`wiring.hold_freed_memory`), and the threads that parse long bodies keep scratch buffers. Under
load both are reused, which makes a bulk load fast. After it they would stay resident for ever. So a task checks, every few
seconds, the peak of the bytes of bodies held since its last check. When a burst is over and few bytes are held, it replaces the
threads of the pool, which frees their scratch buffers, and trims the heap. It repeats this while it helps: events that are
accepted but not learnt yet are freed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from riata.base.process import lower_priority, resident_bytes, trim_heap
from riata.web.server.body import Bodies

P = ParamSpec("P")
T = TypeVar("T")

LOOK_S: Final = 5.0
BURST_BYTES: Final = 8 * 2**20  # peak of held bytes; a smaller one leaves little to return
QUIET_SHARE: Final = 4  # a burst is over when at most 1/QUIET_SHARE of its bytes are held
GAIN_BYTES: Final = 8 * 2**20  # a trim that returns less has not helped
IDLE_TRIMS: Final = 2  # trimming ends after this many trims in a row that did not help
NICENESS: Final = 10  # of threads that parse long bodies: after the event loop, before the learner (ADR 31)


class RenewedPool(Executor):
    """A thread pool of lower priority whose threads can be replaced by new ones. Called in the event loop only."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._pool = self._make()

    def submit(self, work: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> Future[T]:
        """As of every executor."""
        return self._pool.submit(work, *args, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of every executor."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def renew(self) -> None:
        """Replace the threads. The old ones end after their work, and their scratch buffers are freed."""
        old, self._pool = self._pool, self._make()
        old.shutdown(wait=False)

    def _make(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, self._name, partial(lower_priority, NICENESS))


@dataclass(slots=True)
class Quiet:
    """Decides when to trim. A trim is due from the start, for the memory of recovery.

    burst: peak of the bytes of bodies held since memory was last returned
    """

    burst: int = BURST_BYTES
    without_gain: int = 0

    def may_trim(self, most: int) -> bool:
        """Return whether to trim now; `most` is the peak of the bytes held since the last call."""
        if most > self.burst or (most >= BURST_BYTES and self.without_gain):
            self.burst = max(most, self.burst)
            self.without_gain = 0
        return self.burst >= BURST_BYTES and most * QUIET_SHARE <= self.burst

    def trimmed(self, gained: int) -> None:
        """Record a trim that returned `gained` bytes."""
        self.without_gain = 0 if gained >= GAIN_BYTES else self.without_gain + 1
        if self.without_gain >= IDLE_TRIMS:
            self.burst = self.without_gain = 0


@dataclass(slots=True)
class IdleMemory:
    """The task. `look_s`: seconds between two checks."""

    bodies: Bodies
    pool: RenewedPool
    look_s: float = LOOK_S
    quiet: Quiet = field(default_factory=Quiet)

    async def watch(self) -> None:
        """Check periodically, until cancelled."""
        loop: Any = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.look_s)
            if self.quiet.may_trim(self.bodies.most_since()):
                before = resident_bytes()
                self.pool.renew()
                await loop.run_in_executor(None, trim_heap)
                self.quiet.trimmed(before - resident_bytes())
