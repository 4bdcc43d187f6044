from __future__ import annotations

import math

import numpy as np
import pytest

from riata.learn.truncated_gradient import GRID, ROUND, SUBGRADIENT, TRUNCATE
from riata.native.library import core
from tests.twins import truncation as twin

INFINITE = math.inf
after_gap = core.after_gap


def shrink(beta: float, size: float, amount: float, ceiling: float) -> float:
    """After one event of that size."""
    return float(after_gap(TRUNCATE, beta, size, amount, 1.0, ceiling))


def gap_shrinkage(beta: float, unit: float, gap: float) -> float:
    return float(after_gap(SUBGRADIENT, beta, abs(beta), unit, gap, INFINITE))


def _dyadic(rng: np.random.Generator, largest: float) -> float:
    return float(np.rint(rng.uniform(-largest, largest) / GRID) * GRID)


def test_shrink_moves_towards_zero_and_stops_there() -> None:
    assert shrink(0.5, 0.5, 0.25, INFINITE) == 0.25
    assert shrink(-0.5, 0.5, 0.25, INFINITE) == -0.25
    assert shrink(-0.25, 0.25, 0.25, INFINITE) == 0.0
    assert math.copysign(1.0, shrink(-0.1, 0.1, 0.25, INFINITE)) == 1.0


def test_shrink_leaves_weights_above_the_ceiling_alone() -> None:
    assert shrink(0.5, 0.5, 0.25, 0.5) == 0.25
    above = math.nextafter(0.5, 1.0)
    assert shrink(above, above, 0.25, 0.5) == above
    assert shrink(-0.5, above, 0.25, 0.5) == -0.5  # what is held against the ceiling may be in other units


def test_round_keeps_the_large_and_removes_the_small() -> None:
    assert after_gap(ROUND, 0.3, 0.3, 1.0, 1.0, 0.2) == 0.3
    assert after_gap(ROUND, -0.3, 0.3, 1.0, 5.0, 0.2) == -0.3
    assert after_gap(ROUND, 0.2, 0.2, 1.0, 1.0, 0.2) == 0.0
    assert after_gap(ROUND, 0.1, 0.1, 1.0, 0.0, 0.2) == 0.1


@pytest.mark.parametrize("rule", [TRUNCATE, ROUND, SUBGRADIENT])
def test_one_gap_equals_its_events_one_by_one_to_the_last_bit_on_the_grid(rule: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(3000):
        beta, unit = _dyadic(rng, 2.0), abs(_dyadic(rng, 0.1)) + GRID
        gap, ceiling, scale = float(rng.integers(0, 60)), float(rng.choice([0.5, INFINITE])), float(rng.choice([1.0, 0.25]))
        if rule == ROUND:
            ceiling = 0.5
        found = after_gap(rule, beta, abs(beta) * scale, unit, gap, ceiling)
        assert found == twin.after_gap(rule, beta, scale, unit, gap, ceiling)


@pytest.mark.parametrize(("beta", "unit", "amount"), [(0.3, 0.1, 0.2), (-7.0, 0.5, 3.5), (0.0, 0.1, 1.0)])
def test_shrink_equals_its_twin(beta: float, unit: float, amount: float) -> None:
    for ceiling in (unit, 1.0, INFINITE):
        assert shrink(beta, 2.0 * abs(beta), amount, ceiling) == twin.shrink(beta, 2.0, amount, ceiling)


def test_swing_jumps_from_side_to_side_around_zero() -> None:
    assert [gap_shrinkage(0.75, 0.5, float(m)) for m in range(6)] == [0.75, 0.25, -0.25, 0.25, -0.25, 0.25]
    assert [gap_shrinkage(-0.75, 0.5, float(m)) for m in range(3)] == [-0.75, -0.25, 0.25]


def test_swing_stays_at_zero_once_it_is_exactly_there() -> None:
    assert [gap_shrinkage(1.0, 0.5, float(m)) for m in range(5)] == [1.0, 0.5, 0.0, 0.0, 0.0]


def test_swing_takes_steps_that_are_minute_beside_the_weight() -> None:
    assert gap_shrinkage(1.0, 1e-300, 5.0) == 1.0


def test_swing_equals_its_twin_on_the_grid() -> None:
    rng = np.random.default_rng(8)
    for _ in range(2000):
        beta, unit, gap = _dyadic(rng, 1.0), abs(_dyadic(rng, 0.2)), float(rng.integers(0, 40))
        assert gap_shrinkage(beta, unit, gap) == twin.gap_shrinkage(beta, unit, gap)
