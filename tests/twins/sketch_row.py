"""One row of the Taylor sketch, plain: which of its features are in the block, and how those outside move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.twins.sketch_step import Feature, soft

TWINS_OF = ("learn/taylor_sketch/row",)

ROW_SHARE = 0.3


@dataclass
class Gathered:
    """The parts of a row, in the order of its features. room: whether each that should enter the block can."""

    members: list[tuple[int, float]]
    outside: list[tuple[int, float]] = field(default_factory=list)
    fresh: list[tuple[int, float]] = field(default_factory=list)
    room: bool = True
    margin: float = 0.0


def gather_row(
    pairs: Sequence[tuple[int, float]],
    position: Mapping[int, int],
    weight: Mapping[int, float],
    room: int,
    table: bool,
    intercept: float | None,
) -> Gathered:
    """Divide the features of a row. `position` of each key in the block; `room` for features that enter it; whether others have a
    `table`; weight of the `intercept`, None if there is none."""
    found = Gathered([] if intercept is None else [(0, 1.0)], margin=intercept or 0.0)
    x: dict[int, float] = {}
    for key, value in pairs:
        x[key] = x.get(key, 0.0) + value
        found.margin += weight.get(key, 0.0) * value
    for key, total in x.items():
        if key in position:
            found.members.append((position[key], total))
        elif len(found.fresh) < room:
            found.fresh.append((key, total))
        elif table:
            found.outside.append((key, total))
        else:
            found.room = False
    return found


def move_row(one: Feature, y: float, terms: tuple[float, float], prior: float, gamma: float, length: float) -> Feature:
    """A feature outside after a row in which it has the value y. terms: slope and curvature. length: the sum of the absolute
    values of the row if the prior depends on it, else 0."""
    r, h = terms
    size = ROW_SHARE * abs(y) ** 1.5 * math.sqrt(length) if length else y * y
    new = Feature(one.beta, one.gradient + r * y, one.curvature + h * y * y, max(abs(one.peak), size))
    total = prior * new.peak + new.curvature
    new.beta = soft(new.gradient + total * one.beta, gamma, total)
    new.gradient -= total * (new.beta - one.beta)
    return new
