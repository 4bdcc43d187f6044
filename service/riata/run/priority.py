"""How much of the processors learning may take: what predictions leave over, and its share where that is too little.

A thread that learns at full speed makes a prediction wait for a processor, not for the interpreter. On Linux a thread may lower
its own priority and nobody else's; then the scheduler lets predictions by at once, and learning keeps its speed as long as any
processor is idle. It may not take that back without a privilege. So there are two threads, one of low and one of normal priority,
and one of them works at a time. Elsewhere than on Linux the two are alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from riata.base.priority import lower_priority

WINDOW_S: Final = 0.5  # work that has waited for so long without a break tells whether the processors are short
SHARE_MIN: Final = 0.5  # of a processor's time over a window: with less, learning starves


class StarvationGauge:
    """Says whether work starves: it has waited through a whole window, and got less than SHARE_MIN of a processor meanwhile."""

    def __init__(self) -> None:
        self.starving = False
        self._since_s: float | None = None
        self._used_s = 0.0

    def note(self, now_s: float, used_s: Callable[[], float], waiting: bool) -> bool:
        """Return whether normal priority is called for.

        now_s : of a monotonic clock; used_s : processor time of the thread that works; waiting : there is more to do
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
    """Calls `turn` again and again until it returns false, in one of two threads; then `end`, in the same.

    waiting : whether there is more to do already. The first thread has the lowest priority, the second that of whoever calls
    `start`; the first hands over to the second while work starves, and gets it back once nothing waits.
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
        """Whether the thread of normal priority is at work."""
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
        """Work until it is the other's turn: then true; false at the end of all work."""
        while self._turn():
            if self._pace.note(time.monotonic(), time.thread_time, self._waiting()) != starving:
                return True
        return False
