"""The thread that writes checkpoints: the smallest of those that wait first, so that a large model holds up no small one."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from concurrent.futures import Future

from riata.base.priority import BESIDE, lower_priority


class Saver:
    """Does one thing after another, at a low priority. An unfinished one never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Callable[[], None], Future[None]]] = []
        self._puts = 0  # makes the entries comparable
        self._size = 0  # of what is under way
        self._closed = False
        self._name = name
        self._thread: threading.Thread | None = None  # started when it is needed

    def submit(self, size: int, work: Callable[[], None]) -> Future[None]:
        """Do `work`, which must not raise, after what waits and is smaller than `size`. The future is set afterwards."""
        future: Future[None] = Future()
        with self._changed:
            self._puts += 1
            heapq.heappush(self._waiting, (size, self._puts, work, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return future

    def largest(self) -> int:
        """Return the size of the largest that waits or is under way; 0 if there is none."""
        with self._changed:
            return max(self._size, *(entry[0] for entry in self._waiting), 0)

    def close(self, wait_s: float | None = None) -> None:
        """Drop what has not begun, and wait for what has, at most `wait_s`."""
        with self._changed:
            self._closed = True
            dropped, self._waiting = self._waiting, []
            self._changed.notify_all()
        for *_, future in dropped:
            future.cancel()
        if self._thread is not None:
            self._thread.join(wait_s)

    def _run(self) -> None:
        lower_priority(BESIDE)
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                self._size, _, work, future = heapq.heappop(self._waiting)
            if future.set_running_or_notify_cancel():
                work()
                future.set_result(None)
            self._size = 0
