"""The figures of the last minute. They depend on the clock, so they are no part of a state: a process has those of what it
learns.

The log has no ticks, so the sums of all events so far are noted at the steps of the clock; the figures of a minute are those of
their differences. A step without events is not noted: nothing had changed at it since the one before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from riata.watch.figures import Figures
from riata.watch.progressive import Progressive, Tally

STEP_MS: Final = 5000
SPAN_MS: Final = 60_000


class Noted(NamedTuple):
    """What was learnt up to one moment. known_ms : since when it is known; steps : how long ago, and what all events added up to
    then, oldest first; the last is the moment itself"""

    known_ms: int
    steps: tuple[tuple[int, Tally], ...]

    def figures(self, progressive: Progressive) -> Figures:
        """Return the figures from each step up to the moment, for `of_last_minute`: `known_ms`, and `steps`, each with `ago_ms`
        and figures. progressive : what was noted, or a copy of it"""
        now = self.steps[-1][1]
        steps = [{"ago_ms": ago_ms, **progressive.since(tally, now)} for ago_ms, tally in self.steps]
        return {"known_ms": self.known_ms, "steps": steps}


class Minute:
    """Notes what one model has learnt at the steps of the clock. For the thread that learns."""

    def __init__(self) -> None:
        self._of: Progressive | None = None
        self._began_ms = 0
        self._noted: deque[tuple[int, Tally]] = deque()
        self._before: Tally | None = None

    def note(self, progressive: Progressive, now_ms: int) -> Noted:
        """Note what was learnt up to now. Call it whenever events were learnt, with a clock that never goes back. Another object
        than before is another past, of which nothing is known."""
        now = progressive.tally()
        if progressive is not self._of or self._before is None:
            self._of, self._began_ms, self._before = progressive, now_ms, now
            self._noted.clear()
            self._noted.append((now_ms, now))
        elif (step_ms := now_ms - now_ms % STEP_MS) > self._noted[-1][0]:
            self._noted.append((step_ms, self._before))
        self._before = now
        while self._noted[0][0] < now_ms - SPAN_MS - STEP_MS:
            self._noted.popleft()
        return Noted(now_ms - self._began_ms, (*((now_ms - at_ms, tally) for at_ms, tally in self._noted), (0, now)))


def of_last_minute(told: Mapping[str, Any], age_ms: int) -> Figures:
    """Return the figures of the last 60 to 65 s.

    told   : of `Minute.figures`
    age_ms : how long ago that was; no event was learnt since
    """
    longest_ms = SPAN_MS + STEP_MS
    step = next((step for step in told["steps"] if step["ago_ms"] + age_ms <= longest_ms), told["steps"][-1])
    span_ms = min(max(step["ago_ms"] + age_ms, SPAN_MS), longest_ms, told["known_ms"] + age_ms)
    return {"seconds": span_ms / 1000, **{name: figure for name, figure in step.items() if name != "ago_ms"}}
