"""Slow, obvious twin of `taylor_sketch.c`: nothing waits, every gradient is always current, H is a whole square."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riata.base.arrays import F64
from riata.learn.taylor_state import SIZE, Block, full_cross
from riata.maths.shooting import Quadratic
from tests.twins.rank_update import exact_fma
from tests.twins.shooting import shoot

TWINS_OF = ("taylor_sketch",)


@dataclass(slots=True)
class Plain:
    """The numbers of a block; cross is f64[size, size], symmetric, its diagonal zero."""

    beta: F64
    gradient: F64
    curvature: F64
    peak: F64
    gamma: F64
    cross: F64


def plain(block: Block) -> Plain:
    """The same numbers as those of a flushed block."""
    size = int(block.counts[SIZE])
    vectors = (block.beta, block.gradient, block.curvature, block.peak, block.gamma)
    beta, gradient, curvature, peak, gamma = (vector[:size].copy() for vector in vectors)
    return Plain(beta, gradient, curvature, peak, gamma, full_cross(block))


def empty(size: int) -> Plain:
    """No rows yet."""
    beta, gradient, curvature, peak, gamma = np.zeros((5, size))
    return Plain(beta, gradient, curvature, peak, gamma, np.zeros((size, size)))


def add_row(twin: Plain, row: dict[int, float], r: float, h: float) -> None:
    """Add an event's slope and curvature."""
    for j, x in row.items():
        twin.gradient[j] += r * x
        twin.curvature[j] += h * (x * x)
        twin.peak[j] = max(float(twin.peak[j]), x * x)
        for c, y in row.items():
            if j < c:
                twin.cross[j, c] = twin.cross[c, j] = exact_fma(h * x, y, float(twin.cross[j, c]))


def flush(twin: Plain) -> None:
    """Nothing waits."""
    del twin


def move(twin: Plain, j: int, delta: float, curvature: float) -> None:
    """One weight moves, and all gradients follow."""
    twin.beta[j] += delta
    twin.gradient -= twin.cross[j] * delta
    twin.gradient[j] -= curvature * delta


def problem_of(twin: Plain, prior: float, gamma: float) -> Quadratic:
    """The problem that Shooting has to solve. It shares weights and gradients with the block."""
    return Quadratic(twin.beta, twin.gradient, prior * twin.peak + twin.curvature, gamma * twin.gamma, twin.cross)


def solve(twin: Plain, prior: float, gamma: float, slack: float, sweeps_max: int) -> tuple[int, float]:
    """Solve the whole."""
    return shoot(problem_of(twin, prior, gamma), slack, sweeps_max)


def set_zero(twin: Plain, j: int, prior: float) -> None:
    """One weight goes to zero, and all gradients follow."""
    move(twin, j, -float(twin.beta[j]), float(prior * twin.peak[j] + twin.curvature[j]))


def clear(twin: Plain, j: int) -> None:
    """Nothing is left of one member."""
    for vector in (twin.beta, twin.gradient, twin.curvature, twin.peak, twin.gamma):
        vector[j] = 0.0
    twin.cross[j] = twin.cross[:, j] = 0.0


def rescale(twin: Plain, q: float) -> None:
    """Other units."""
    twin.gradient *= q
    twin.curvature *= q
    twin.cross *= q
