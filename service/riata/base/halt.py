"""How another thread makes a long computation wait, or end: its result is not wanted now, or not any more.

    halt = Halt()
    with halting(halt):                 in the thread that computes; any thread may call `halt.set()`
        learner.step(rows)              raises `Halted` soon after

A kernel that may run for long reads one number of an array from time to time, its flag. It sleeps while that is 2, and leaves if
it is 1. The owner of the array lends it for the call: `with lent(flag): kernel(…, flag)`. What was computed by a kernel that has
left is incomplete, and has to be thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from riata.base.arrays import I64


class Halted(Exception):
    """A computation was ended by `Halt.set`. The state that it was changing is incomplete."""


class Halt:
    """Asks the computations of a thread to end, or to wait, now or as soon as they begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lent: list[I64] = []
        self.is_set = self.is_paused = False

    def set(self) -> None:
        """End the computations. Any thread may call it."""
        with self._lock:
            self.is_set = True
            self._tell(self._lent)

    def pause(self, paused: bool) -> None:
        """Let the computations wait, or go on. Any thread may call it."""
        with self._lock:
            self.is_paused = paused
            self._tell(self._lent)

    def require(self) -> None:
        """Raise `Halted` if `set` was called."""
        if self.is_set:
            raise Halted

    def _lend(self, flag: I64) -> None:
        with self._lock:
            self._lent.append(flag)
            self._tell([flag])

    def _return(self, flag: I64) -> None:
        with self._lock:
            self._lent = [other for other in self._lent if other is not flag]

    def _tell(self, flags: list[I64]) -> None:
        for flag in flags:
            flag[0] = 1 if self.is_set else 2 if self.is_paused else 0


_current: ContextVar[Halt | None] = ContextVar("halt", default=None)


@contextmanager
def halting(halt: Halt) -> Iterator[None]:
    """Context in which the computations of this thread end after `halt.set()`."""
    token = _current.set(halt)
    try:
        yield
    finally:
        _current.reset(token)


def require_wanted() -> None:
    """Raise `Halted` if the result of this thread's computation is not wanted any more."""
    halt = _current.get()
    if halt is not None:
        halt.require()


@contextmanager
def lent(flag: I64) -> Iterator[None]:
    """Context in which `flag`, i64[1], becomes 1 if this thread's computation is not wanted any more. Raises `Halted` at its end
    if that has happened."""
    halt = _current.get()
    if halt is None:
        yield
        return
    halt._lend(flag)
    try:
        yield
    finally:
        halt._return(flag)
    halt.require()
