"""When something is due of each model, and how much may be done in a time: as quick with a thousand models as with one."""

from __future__ import annotations

import heapq
import threading


class Dues:
    """A moment for each model of which something will be due. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []  # an entry counts if it is in `_at`; others are removed when they are first

    def get(self, name: str, otherwise: int) -> int:
        """Return when something of a model is due."""
        return self._at.get(name, otherwise)

    def set(self, name: str, at_ms: int | None) -> None:
        """Set when something of a model is due; None for never."""
        with self._lock:
            if at_ms is None:
                self._at.pop(name, None)
            elif self._at.get(name) != at_ms:
                self._at[name] = at_ms
                heapq.heappush(self._heap, (at_ms, name))

    def first_ms(self) -> int | None:
        """Return when something is due next; None for never."""
        with self._lock:
            return self._first_ms()

    def take(self, now_ms: int) -> str | None:
        """Take the model of which something has been due for longest; None if nothing is due."""
        with self._lock:
            first_ms = self._first_ms()
            if first_ms is None or first_ms > now_ms:
                return None
            name = heapq.heappop(self._heap)[1]
            del self._at[name]
            return name

    def _first_ms(self) -> int | None:
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


class Share:
    """Work that may take one part in `parts` of the time. What it does not take is saved, up to `saved_ms` of time. Any thread
    may use it; of two at once one may not count.

    rest_ms_max : the longest rest after one piece of it
    """

    def __init__(self, parts: int, saved_ms: int = 0, rest_ms_max: int = 2**31) -> None:
        self._parts, self._saved_ms, self._rest_ms_max = parts, saved_ms, rest_ms_max
        self._full_ms = 0  # when as much as possible will have been saved

    def free_ms(self) -> int:
        """Return from when on it may go on."""
        return self._full_ms - self._saved_ms

    def spend(self, now_ms: int, took_ms: int) -> None:
        """Count processor time that a piece of it has taken."""
        self._full_ms = max(self._full_ms, now_ms) + min(self._parts * took_ms, self._rest_ms_max)
