"""Predictions first: the writer lets go of the interpreter's lock where the event loop has something to do.

Theory of operation
    Between two kernels the writer runs Python, some tenths of a millisecond in a turn, on caches that the kernel has emptied. A
    request that comes meanwhile wakes the event loop, which then finds the lock taken, and has to sleep and be woken a second
    time; the interpreter itself would ask the writer to let go after 5 ms. But the loop takes some tens of microseconds to wake
    up at all, and that it has to can be seen before: what it waits at is a file, which can be asked whether anything is there.
    So the writer asks between its steps, and where something is, it stops for about as long as a prediction takes.

Nothing depends on it but time. Elsewhere than on Linux, or where an event loop does not say what it waits at, nobody gives way.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio  # a tenth of what the start of a fit imports besides numba, and only one kind of loop is named

PAUSE_S: Final = 0.00002  # and what the system needs to wake a thread of low priority: some 80 µs in all
REST_S: Final = 0.005  # between two of them: where there is always something to read, learning stops for a sixtieth of its time


def waits_at(loop: asyncio.AbstractEventLoop) -> int | None:
    """The descriptor of what an event loop waits at, on Linux an epoll; None where it does not say."""
    told: Callable[[], int] | None = getattr(loop, "_get_backend_id", None)  # which uvloop has, for tests of its own
    return None if told is None else told()


class LoopYield:
    """Called between two steps of a thread that runs Python beside an event loop; by one thread at a time."""

    def __init__(self) -> None:
        self._look: Callable[[int], list[tuple[int, int]]] | None = None
        self._rested_s = 0.0

    def to(self, descriptor: int | None) -> None:
        """Give way whenever something can be read at this descriptor; None for never."""
        if descriptor is None or sys.platform != "linux":
            self._look = None
            return
        seen = select.poll()
        seen.register(descriptor, select.POLLIN)
        self._look = seen.poll

    def __call__(self) -> None:
        """Stop for a moment where something can be read there, unless that was done just now."""
        look = self._look
        if look is None or time.monotonic() < self._rested_s:
            return
        for _, event in look(0):
            if event & select.POLLIN:  # nothing else: a descriptor that was closed is no reason
                time.sleep(PAUSE_S)
                self._rested_s = time.monotonic() + REST_S


def no_yield() -> None:
    """In the place of a `LoopYield`, where there are no predictions: a replay, a fit."""
