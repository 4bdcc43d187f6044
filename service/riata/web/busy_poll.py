"""Look for the next request for a moment before going to sleep.

A core that sleeps has to be woken when a request comes, which takes some 20 to 50 µs in a virtual machine: more than a prediction
does. A client that asks one thing after another is mostly back within that time. So after each answer the event loop looks at
its sockets again and again for a short while. It lets go of the interpreter's lock at each look, so that other threads have
their turn.

Where the last to be answered were those who ask the same again and again (`web/audience.py`), they are looked at in between, some
microseconds long, which is the shorter way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from riata.base.cores import cores


class BusyPoll:
    """What keeps an event loop awake for `micros` µs after each answer. On one core alone it keeps nothing awake, since the
    client may be waiting for that core."""

    def __init__(self, micros: int) -> None:
        self._seconds = micros / 1e6 if cores() > 1 else 0.0
        self._until = 0.0
        self._looking = False
        self._hear: Callable[[], object] | None = None

    def stay(self, loop: asyncio.AbstractEventLoop, hear: Callable[[], object] | None = None) -> None:
        """Begin the time anew; called in `loop`, which is always the same. `hear` looks for more of what was answered, where
        there is a shorter way to that than the loop's."""
        if self._seconds:
            self._until = time.perf_counter() + self._seconds
            self._hear = hear
            if not self._looking:
                self._looking = True
                loop.call_soon(self._look, loop)

    def rest(self) -> None:
        """End the time: what is waited for now comes from a thread of our own, which needs the interpreter's lock for it."""
        self._until = 0.0

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the loop come back here, by way of its sockets, unless the time is over."""
        if time.perf_counter() < self._until:
            loop.call_soon(self._look, loop)
            if self._hear is not None:
                self._hear()
        else:
            self._looking = False
            self._hear = None
