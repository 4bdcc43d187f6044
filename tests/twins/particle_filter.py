"""1PFS, plainly: particles in a dictionary of columns, weights by logarithms of whole likelihoods."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from riata.base.arrays import F64
from riata.learn.particle_filter import Events, mode_of
from tests.twins.metropolis import draw_posterior
from tests.twins.particles import effective, rejuvenate, uniform, weigh
from tests.twins.truncated_step import Event

TWINS_OF = ("particle_filter",)
INTERCEPT = -1


@dataclass
class Filter:
    """Settings as those of the learner, and the state; `column` is by key, in the order of the first events."""

    particles: int
    most: int
    gamma: float = 1.0
    gamma_intercept: float = 0.2
    keep: float = 0.5
    start: int = 2000
    seed: int = 0
    column: dict[int, F64] = field(default_factory=dict)
    held: list[tuple[dict[int, float], float, float]] = field(default_factory=list)
    weight: F64 = field(default_factory=lambda: np.zeros(0))
    stream: int = 0
    moves: int = 0
    tempered: int = 0
    learnt: int = 0

    def __post_init__(self) -> None:
        self.weight = np.ones(self.particles)


def look_up(made: Filter, row: dict[int, float]) -> float:
    part = made.weight / made.weight.sum()
    known = {INTERCEPT: 1.0, **row}
    return float(sum(x * (made.column[key] @ part) for key, x in known.items() if key in made.column))


def add_column(made: Filter, key: int) -> None:
    line = np.zeros(made.particles)
    for k in range(0, made.particles, 2):
        u = uniform(made.seed, made.stream, k // 2) - 0.5
        gamma = made.gamma_intercept if key == INTERCEPT else made.gamma
        size = math.copysign(math.log(1.0 - 2.0 * abs(u)) / gamma, u)
        line[k : k + 2] = [size, -size][: made.particles - k]
    made.column[key] = line
    made.stream += 1


def move(made: Filter) -> None:
    d = len(made.column)
    b = min(0.95, 1.5 * (4.0 / ((d + 2) * made.particles)) ** (1.0 / (d + 4)))
    theta = rejuvenate(np.array(list(made.column.values())), made.weight, b, (made.seed, made.stream))
    made.column = dict(zip(made.column, theta, strict=True))
    made.weight = np.ones(made.particles)
    made.stream += 1
    made.moves += 1


def part_of(made: Filter, margin: F64, label: float, left: float, least: float) -> float:
    parts = (left * 0.5**k for k in range(1, 1000))
    return next(part for part in parts if effective(weigh(made.weight, margin, label, part)) >= least)


def take_row(made: Filter, row: dict[int, float], label: float, left: float) -> None:
    floor = max(min(0.1, 0.5 * made.keep) * made.particles, len(made.column) + 2)
    parts = 0
    while True:
        margin = sum((x * made.column[key] for key, x in {INTERCEPT: 1.0, **row}.items()), np.zeros(made.particles))
        after = weigh(made.weight, margin, label, left)
        if effective(after) >= floor:
            break
        least = min(0.5 * made.keep * made.particles, effective(made.weight))
        part = part_of(made, margin, label, left, least)
        made.weight = weigh(made.weight, margin, label, part)
        left -= part
        parts += 1
        move(made)
    made.weight = after
    made.tempered += parts > 0
    if effective(after) < made.keep * made.particles:
        move(made)
    made.weight = made.weight / made.weight.max()


def learn_rows(made: Filter, events: list[Event]) -> list[float]:
    """Learn the events in order; returns the margins before each. A row with too many features is left out."""
    margins = []
    for event in events:
        row: dict[int, float] = {}
        for key, x in event.features:
            row[key] = row.get(key, 0.0) + x
        margins.append(look_up(made, row))
        new = [key for key in sorted(row) if key not in made.column]
        if len(made.column) + len(new) + (not made.column) > made.most:
            continue
        for key in [INTERCEPT, *new] if not made.column else new:
            add_column(made, key)
        take_row(made, row, event.label, event.weight)
        made.learnt += 1
        if made.learnt <= made.start:
            made.held.append((row, event.label, event.weight))
            if made.learnt == made.start or (made.learnt >= 16 and made.learnt.bit_count() == 1):
                redraw(made)
    return margins


def redraw(made: Filter) -> None:
    rows: Any = [[{INTERCEPT: 1.0, **row}.get(key, 0.0) for row, _, _ in made.held] for key in made.column]
    sign = np.array([1.0 if label == 1.0 else -1.0 for _, label, _ in made.held])
    events = Events(np.array(rows), sign, np.array([weight for _, _, weight in made.held]))
    gamma = np.array([made.gamma_intercept if key == INTERCEPT else made.gamma for key in made.column])
    beta, lower, _ = mode_of(events, gamma)
    draws = draw_posterior(events, gamma, (made.seed, made.stream), (beta, lower), made.particles)
    made.stream += 1
    made.column = {key: draws[c].copy() for c, key in enumerate(made.column)}
    made.weight = np.ones(made.particles)
