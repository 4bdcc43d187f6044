"""Slow, obvious twin of `riata.watch.drift`: each block is a list of events."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from riata.maths.links import REAL, WITH_PROBABILITY
from tests.twins.accumulate import score_event

TWINS_OF = ("figures",)

BLOCK, WARM, MEMORY, SLACK, CLIP, ALARM_AT = 100, 50, 500, 0.5, 4.0, 20.0
LEAST = (0.01, 0.002, 0.005)


@dataclass
class Twin:
    """Alarms (seq, signal, since, before, after), and what they are found with."""

    link: int
    rest: int
    seen: set[int] = field(default_factory=set)
    block: list[tuple[float, float, float, int, int]] = field(default_factory=list)
    alarms: list[tuple[int, int, int, float, float]] = field(default_factory=list)
    last: int = 0

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget every reference."""
        self.rested, self.blocks = 0, 0
        self.mean, self.variance = [0.0] * 3, [0.0] * 3
        self.since: list[list[list[float]]] = [[[], []] for _ in range(3)]  # values since the statistic was zero
        self.began, self.statistic = [[0, 0] for _ in range(3)], [[0.0, 0.0] for _ in range(3)]


def watch_rows(twin: Twin, rows: list[tuple[float, float, float, list[int], bool]], first: int) -> None:
    """Take (margin, label, weight, hashes, refused) of the events first, first + 1, ..."""
    for seq, (margin, label, weight, hashes, refused) in enumerate(rows, first):
        if refused:
            continue
        loss = score_event(twin.link, margin, label, 0.5)[1 if twin.link in WITH_PROBABILITY else 4]
        bits = [h >> 12 for h in hashes]
        new = len(set(bits) - twin.seen)
        twin.seen |= set(bits)
        twin.block.append((weight, loss, label, len(bits), new))
        twin.rested += 1
        if len(twin.block) == BLOCK:
            _end_block(twin, seq)


def _end_block(twin: Twin, seq: int) -> None:
    total = sum(one[0] for one in twin.block)
    values = [
        sum(one[0] * one[1] for one in twin.block) / total,
        sum(one[0] * one[2] for one in twin.block) / total,
        sum(one[4] for one in twin.block) / max(sum(one[3] for one in twin.block), 1),
    ]
    raised = []
    for signal, value in enumerate(values):
        mean = twin.mean[signal]
        departure = value - mean
        if twin.blocks >= WARM:
            least = LEAST[signal] * (abs(mean) if twin.link == REAL and signal < 2 else 1.0)
            spread = max(math.sqrt(twin.variance[signal]), least)
            departure = max(-CLIP * spread, min(CLIP * spread, departure))
            for side, sign in enumerate((1.0, -1.0)):
                if twin.rested < twin.rest or (side == 1 and signal != 1):
                    continue
                if twin.statistic[signal][side] == 0.0:
                    twin.since[signal][side], twin.began[signal][side] = [], twin.last
                twin.since[signal][side].append(value)
                grown = twin.statistic[signal][side] + sign * departure / spread - SLACK
                twin.statistic[signal][side] = max(0.0, grown)
                if grown > ALARM_AT:
                    after = sum(twin.since[signal][side]) / len(twin.since[signal][side])
                    raised.append((seq, signal, twin.began[signal][side], mean, after))
                    break
        share = 1.0 / min(twin.blocks + 1, MEMORY)
        twin.mean[signal] += share * departure
        twin.variance[signal] = (1.0 - share) * (twin.variance[signal] + share * departure**2)
    twin.blocks += 1
    if raised:
        twin.alarms.append(raised[0])
        twin.begin()
    twin.last, twin.block = seq, []
