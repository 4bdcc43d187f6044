"""How much processor time learning gets: what predictions leave over, and a guaranteed share if that is too little.

A thread that learns at full speed makes a prediction wait for a processor, not for the interpreter. On Linux a thread may lower
its own priority, and only its own; then the scheduler runs predictions first, and learning keeps its speed while any processor
is idle. A thread may not raise its priority again without a privilege. So there are two threads, one of low and one of normal
priority, and one of them works at a time. On systems other than Linux both have the same priority.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from riata.base.priority import lower_priority

WINDOW_S: Final = 0.5  # whether processors are short is measured over such a stretch of uninterrupted work
SHARE_MIN: Final = 0.5  # of a processor's time over a window: with less, learning starves


class StarvationGauge:
    """Reports whether work starves: there was work through a whole window, and it got less than SHARE_MIN of a processor."""

    def __init__(self) -> None:
        self.starving = False
        self._since_s: float | None = None
        self._used_s = 0.0

    def note(self, now_s: float, used_s: Callable[[], float], waiting: bool) -> bool:
        """Return whether normal priority is needed.

        now_s : of a monotonic clock; used_s : processor time of the working thread; waiting : there is more to do
        """
        if not waiting:
            self.starving = False
            self._since_s = None
        elif self._since_s is None:
            self._since_s, self._used_s = now_s, used_s()
        elif not self.starving and now_s - self._since_s >= WINDOW_S:
            used = used_s()
            self.starving = used - self._used_s < SHARE_MIN * (now_s - self._since_s)
            self._since_s, self._used_s = now_s, used
        return self.starving


class TwoPriorityThread:
    """Calls `turn` repeatedly until it returns false, in one of two threads; then `end`, in the same thread.

    waiting : returns whether there is more to do already. The first thread has the lowest priority, the second that of the caller
    of `start`. The first hands over to the second while work starves, and gets it back when nothing waits.
    """

    def __init__(self, name: str, turn: Callable[[], bool], waiting: Callable[[], bool], end: Callable[[], None]) -> None:
        self._turn, self._waiting, self._end = turn, waiting, end
        self._pace = StarvationGauge()
        self._changed = threading.Condition()
        self._starving = False
        self._ended = False
        self._threads = [
            threading.Thread(target=self._run, args=(starving,), name=name + suffix, daemon=True)
            for starving, suffix in ((False, ""), (True, "-starving"))
        ]

    @property
    def starving(self) -> bool:
        """Whether the thread of normal priority is the one that works."""
        return self._starving

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _run(self, starving: bool) -> None:
        if not starving:
            lower_priority()
        while True:
            with self._changed:
                while self._starving != starving and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
            going_on = self._work(starving)
            if not going_on:
                self._end()
            with self._changed:
                self._starving, self._ended = not starving, not going_on
                self._changed.notify_all()

    def _work(self, starving: bool) -> bool:
        """Work until the other thread has to continue, then return true; return false at the end of all work."""
        while self._turn():
            if self._pace.note(time.monotonic(), time.thread_time, self._waiting()) != starving:
                return True
        return False
