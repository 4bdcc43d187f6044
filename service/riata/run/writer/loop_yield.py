"""Predictions first: the writer releases the interpreter's lock when the event loop has something to do.

Theory of operation
    Between two kernels the writer runs Python, some tenths of a millisecond per turn, on caches that the kernel has emptied. A
    request that arrives meanwhile wakes the event loop, which finds the lock held, sleeps, and has to be woken a second time.
    The interpreter itself would ask the writer to release the lock only after 5 ms. But the loop takes some tens of microseconds
    to wake up, and the wake-up can be predicted: the loop waits on a file descriptor that can be polled. So the writer polls it
    between its steps. If it is readable, the writer sleeps for about as long as a prediction takes.

This affects only timing. On systems other than Linux, or if an event loop does not expose its descriptor, nothing yields.
"""

from __future__ import annotations

import select
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio  # a tenth of what the start of a fit imports; needed only for annotations

PAUSE_S: Final = 0.00002  # plus what the system needs to wake a thread of low priority: some 80 µs in all
REST_S: Final = 0.005  # between two pauses: if there is always something to read, learning pauses for a sixtieth of its time


def waits_at(loop: asyncio.AbstractEventLoop) -> int | None:
    """Return the descriptor that an event loop waits on, on Linux an epoll; None if the loop does not expose it."""
    told: Callable[[], int] | None = getattr(loop, "_get_backend_id", None)  # exists in uvloop, for its own tests
    return None if told is None else told()


class LoopYield:
    """Called between two steps of a thread that runs Python beside an event loop; by any thread."""

    def __init__(self) -> None:
        self._looking = threading.Lock()  # two threads must not poll at once
        self._look: Callable[[int], list[tuple[int, int]]] | None = None
        self._rested_s = 0.0

    def to(self, descriptor: int | None) -> None:
        """Yield whenever this descriptor is readable; None for never."""
        if descriptor is None or sys.platform != "linux":
            self._look = None
            return
        seen = select.poll()
        seen.register(descriptor, select.POLLIN)
        self._look = seen.poll

    def __call__(self) -> None:
        """Sleep for a moment if the descriptor is readable, unless that was done just now."""
        look = self._look
        if look is None or time.monotonic() < self._rested_s or not self._looking.acquire(blocking=False):
            return
        try:
            events = look(0)
        finally:
            self._looking.release()
        for _, event in events:
            if event & select.POLLIN:  # no other event counts: a closed descriptor is no reason to sleep
                time.sleep(PAUSE_S)
                self._rested_s = time.monotonic() + REST_S


def no_yield() -> None:
    """Replaces a `LoopYield` when there are no predictions: a replay, a fit."""
