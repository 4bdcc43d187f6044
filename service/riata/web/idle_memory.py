"""Memory that long bodies needed is returned to the system once none has come for a while.

The C library keeps what is freed (`wiring.hold_freed_memory`), and the threads that read long bodies keep scratch. Under load
both are used again and again, which makes a bulk load fast; after it they would stay resident for ever. So a task looks every few
seconds at the most bytes of bodies that were held since it last looked. After a burst, when only few are held, it has the
threads of the pool replaced, which frees their scratch, and the heap trimmed. It repeats that while it helps: events that were
accepted but not learnt yet are freed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from riata.base.heap import resident_bytes, trim_heap
from riata.web.body import Bodies

P = ParamSpec("P")
T = TypeVar("T")

LOOK_S: Final = 5.0
BURST_BYTES: Final = 8 * 2**20  # held at once: less leaves nothing worth returning
QUIET_SHARE: Final = 4  # a burst is over when at most one in so many of its bytes is held
GAIN_BYTES: Final = 8 * 2**20  # a trim that returns less has not helped
IDLE_TRIMS: Final = 2  # trims in a row that do not help, and it ends


class RenewedPool(Executor):
    """A pool of threads that can be exchanged for new ones. Called in the event loop only."""

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
        """What is submitted from now on is done by new threads; the old ones end, and what they keep is freed."""
        old, self._pool = self._pool, self._make()
        old.shutdown(wait=False)

    def _make(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)


@dataclass(slots=True)
class Quiet:
    """Decides when to trim. Owed from the start: what compiling and recovery needed is returned too.

    burst: most bytes of bodies held at once since memory was last returned
    """

    burst: int = BURST_BYTES
    without_gain: int = 0

    def may_trim(self, most: int) -> bool:
        """Whether to trim now; `most` bytes were held at once since this was last asked."""
        if most > self.burst or (most >= BURST_BYTES and self.without_gain):
            self.burst = max(most, self.burst)
            self.without_gain = 0
        return self.burst >= BURST_BYTES and most * QUIET_SHARE <= self.burst

    def trimmed(self, gained: int) -> None:
        """Take note of a trim that returned `gained` bytes."""
        self.without_gain = 0 if gained >= GAIN_BYTES else self.without_gain + 1
        if self.without_gain >= IDLE_TRIMS:
            self.burst = self.without_gain = 0


@dataclass(slots=True)
class IdleMemory:
    """The task. `look_s`: seconds between two looks."""

    bodies: Bodies
    pool: RenewedPool
    look_s: float = LOOK_S
    quiet: Quiet = field(default_factory=Quiet)

    async def watch(self) -> None:
        """Look again and again, until it is cancelled."""
        loop: Any = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.look_s)
            if self.quiet.may_trim(self.bodies.most_since()):
                before = resident_bytes()
                self.pool.renew()
                await loop.run_in_executor(None, trim_heap)
                self.quiet.trimmed(before - resident_bytes())
