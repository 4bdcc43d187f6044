"""Whether learning starves: it gets the processor time that predictions leave over, and that may be too little (`shifts.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

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
