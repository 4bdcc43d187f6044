"""Look for the next request for a moment before going to sleep.

A core that sleeps has to be woken when a request comes, which takes some 20 to 50 µs in a virtual machine: more than a prediction
does. A client that asks one thing after another is mostly back within that time. So after each answer the event loop looks at
its sockets again and again for a short while. It lets go of the interpreter's lock at each look, so that other threads have
their turn.

Where the last two answers went to the same client, its connection looks for the next request by itself in between, which is the
shorter way (`predict/heard.py`). It looks for some microseconds only and takes a few requests at most, since others may ask
meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final, Protocol

IN_A_ROW: Final = 4  # requests of one client before the loop looks at all sockets


def cores() -> int:
    """How many cores this process may use."""
    of_process = getattr(os, "sched_getaffinity", None)
    return len(of_process(0)) if of_process is not None else os.cpu_count() or 1


class Listener(Protocol):
    """A connection that can look for its next request by itself."""

    def listen(self) -> bool:
        """Look, some microseconds long; says whether a request was answered."""
        ...


class BusyPoll:
    """What keeps an event loop awake for `micros` µs after each answer. On one core alone it keeps nothing awake, since the
    client may be waiting for that core."""

    def __init__(self, micros: int) -> None:
        self._seconds = micros / 1e6 if cores() > 1 else 0.0
        self._until = 0.0
        self._looking = False
        self._last: Listener | None = None  # whoever was answered last
        self._again: Listener | None = None  # the same, where it was answered twice

    def stay(self, loop: asyncio.AbstractEventLoop, answered: Listener | None = None) -> None:
        """Begin the time anew; called in `loop`, which is always the same. `answered` is the connection that had the answer,
        where it can listen."""
        if self._seconds:
            self._until = time.perf_counter() + self._seconds
            self._again = answered if answered is self._last else None
            self._last = answered
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
            for _ in range(IN_A_ROW):
                if self._again is None or not self._again.listen():
                    break
        else:
            self._looking = False
            self._last = self._again = None  # a connection that is over is not to be kept
