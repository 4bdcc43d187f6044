"""How late something comes: a histogram of seconds, of labels since their predictions and of rows since their events."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64

BOUNDS_S: Final = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)


@dataclass(slots=True)
class Delays:
    """Counts by delay. counts : of the delays up to each of BOUNDS_S, but above the one before; then of longer ones"""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one. A clock that was set back gives no negative delay."""
        seconds = max(seconds, 0.0)
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds += seconds

    def add_all(self, seconds: F64) -> None:
        """Count f64[n] delays."""
        late = np.maximum(seconds, 0.0)
        for at, count in enumerate(np.bincount(np.searchsorted(BOUNDS_S, late), minlength=len(self.counts)).tolist()):
            self.counts[at] += count
        self.seconds += float(late.sum())

    def document(self) -> dict[str, Any]:
        """Return the histogram as JSON; the mean is None if nothing was counted."""
        total = sum(self.counts)
        return {"bounds_s": list(BOUNDS_S), "counts": list(self.counts), "mean_s": self.seconds / total if total else None}
