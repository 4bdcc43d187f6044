from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.learn.learner import Sketch
from riata.predict.uncertainty import FLOOR, Path, Point, regularisation_path
from tests.predict.sketches import random_sketch


def optimum(sketch: Sketch, gamma: float) -> tuple[F64, F64]:
    """Weights inside and outside by plain cyclic ascent from the current ones, far beyond the tolerance of a path."""
    curvature = sketch.cross + np.diag(sketch.curvature)
    slope = sketch.gradient + curvature @ sketch.beta
    penalties = np.where(sketch.gamma != sketch.penalty, sketch.gamma, gamma)
    beta = sketch.beta.copy()
    for _ in range(500):
        for j in range(len(beta)):
            omega = slope[j] - curvature[j] @ beta + curvature[j, j] * beta[j]
            beta[j] = math.copysign(max(abs(omega) - penalties[j], 0.0), omega) / curvature[j, j]
    outside = sketch.outside_gradient + sketch.outside_curvature * sketch.outside_beta
    own = np.where(sketch.outside_gamma != sketch.penalty, sketch.outside_gamma, gamma)
    return beta, np.sign(outside) * np.maximum(np.abs(outside) - own, 0.0) / sketch.outside_curvature


def objective(sketch: Sketch, gamma: float, beta: F64, outside: F64) -> float:
    """The value of the sketch by its definition, minus its value at weights 0."""

    def likelihood(b: F64, z: F64) -> float:
        d, e = b - sketch.beta, z - sketch.outside_beta
        inside = sketch.gradient @ d - d @ (sketch.cross + np.diag(sketch.curvature)) @ d / 2
        return float(inside + sketch.outside_gradient @ e - e @ (sketch.outside_curvature * e) / 2)

    penalties = np.where(sketch.gamma != sketch.penalty, sketch.gamma, gamma)
    own = np.where(sketch.outside_gamma != sketch.penalty, sketch.outside_gamma, gamma)
    gain = likelihood(beta, outside) - likelihood(np.zeros_like(beta), np.zeros_like(outside))
    return gain - float(penalties @ np.abs(beta)) - float(own @ np.abs(outside))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("outside", [0, 5])
def test_every_point_is_the_optimum_under_its_penalty(intercept: bool, outside: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(3):
        sketch = random_sketch(rng, members=8, outside=outside, intercept=intercept)
        for point in regularisation_path(sketch, 12):
            beta, z = optimum(sketch, point.gamma)
            assert point.objective == pytest.approx(objective(sketch, point.gamma, beta, z), rel=1e-6, abs=1e-9)
            free = int(intercept)
            assert point.non_zeros == np.count_nonzero(np.abs(beta[free:]) > 1e-12) + np.count_nonzero(z)


def test_the_path_begins_at_the_smallest_penalty_that_leaves_no_weight_and_ends_at_a_share_of_the_one_in_force() -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        sketch = random_sketch(rng)
        points = regularisation_path(sketch, 10)
        assert points[0].non_zeros == 0
        assert Path(sketch).solve(points[0].gamma * 0.999).non_zeros == 1
        assert points[-1].gamma == pytest.approx(FLOOR * min(sketch.penalty, points[0].gamma))
        assert points[-1].non_zeros == len(sketch.slot) - 1 + len(sketch.outside_slot)


def test_the_penalty_in_force_and_those_asked_for_are_points_of_a_decreasing_grid_in_equal_ratios() -> None:
    sketch = random_sketch(np.random.default_rng(3), gamma=0.5)
    gammas = [point.gamma for point in regularisation_path(sketch, 7, 8.0, 0.125, also=(0.7, 100.0, 0.5))]
    assert gammas == sorted(gammas, reverse=True)
    assert {0.5, 0.7, 100.0} <= set(gammas)
    grid = [gamma for gamma in gammas if gamma not in (0.5, 0.7, 100.0)]
    assert (grid[0], grid[-1]) == (8.0, 0.125)
    np.testing.assert_allclose(np.diff(np.log([*grid, 0.5])[np.argsort([*grid, 0.5])]), math.log(2.0))


def test_a_point_does_not_depend_on_the_points_before_it() -> None:
    sketch = random_sketch(np.random.default_rng(4), members=20, outside=9)
    for point in regularisation_path(sketch, 15):
        alone = Path(sketch).solve(point.gamma)
        assert alone.non_zeros == point.non_zeros
        assert alone.objective == pytest.approx(point.objective, rel=1e-6)


def test_features_with_penalties_of_their_own_keep_them() -> None:
    sketch = random_sketch(np.random.default_rng(5), members=6, outside=4)
    own, outside_own = sketch.gamma.copy(), sketch.outside_gamma.copy()
    own[3], own[4], outside_own[0], outside_own[1] = 0.0, 1e9, 0.0, 1e9
    sketch = dataclasses.replace(sketch, gamma=own, outside_gamma=outside_own)
    points = regularisation_path(sketch, 10)
    assert points[0].non_zeros == 2  # the two that are free
    assert points[-1].non_zeros == 5 + 4 - 2  # all but the two that never may
    for point in points:
        assert point.objective == pytest.approx(objective(sketch, point.gamma, *optimum(sketch, point.gamma)), rel=1e-6)


def test_fewer_weights_and_a_lower_objective_under_a_larger_penalty() -> None:
    points = regularisation_path(random_sketch(np.random.default_rng(6), members=15, outside=15), 30)
    values = [point.objective for point in points]
    assert values == sorted(values)
    assert points[0].non_zeros < points[10].non_zeros < points[-1].non_zeros


def test_a_sketch_without_a_penalty_still_has_a_path() -> None:
    sketch = random_sketch(np.random.default_rng(7), gamma=0.5)
    free = dataclasses.replace(sketch, penalty=0.0, gamma=np.zeros(6), outside_gamma=np.zeros(4))
    points = regularisation_path(free, 5)
    assert (points[0].non_zeros, points[-1].gamma) == (0, 0.0)
    assert points[-1].non_zeros == 9


def test_a_sketch_of_nothing_has_the_penalty_in_force_only() -> None:
    sketch = random_sketch(np.random.default_rng(8), members=1, outside=0)
    nothing = dataclasses.replace(sketch, beta=np.zeros(1), gradient=np.zeros(1), curvature=np.zeros(1), cross=np.zeros((1, 1)))
    assert regularisation_path(nothing, 5) == [Point(0.5, 0, 0.0)]
    assert regularisation_path(random_sketch(np.random.default_rng(9), members=0, outside=0, intercept=False), 5) == [
        Point(0.5, 0, 0.0)
    ]


def test_a_grid_may_end_at_the_smallest_number() -> None:
    """Its ratio to the largest penalty underflows."""
    path = Path(random_sketch(np.random.default_rng(5)))
    grid = path.grid(5, None, 5e-324)
    assert grid[-1] == 5e-324
    assert grid == sorted(grid, reverse=True)
    assert path.grid(5, 8.0, 0.5) == pytest.approx([8.0, 4.0, 2.0, 1.0, 0.5])
