"""Draws from the posterior of logistic regression against twins, and against an integral."""

from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.learn.particle_filter import Events, draw_posterior, labelled, mode_of
from riata.native.library import core
from tests.twins import metropolis as slow

CHANCE = (5, 2)


def events_of(n: int, d: int, seed: int = 0, importance: bool = False) -> Events:
    """An intercept and features in very different units, one of them far from zero."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(d, n)) * np.logspace(-2, 2, d)[:, np.newaxis] + np.linspace(0.0, 300.0, d)[:, np.newaxis]
    x[0] = 1.0
    sign = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-(x[-1] - 300.0) / 100.0)), 1.0, -1.0)
    return Events(x, sign, rng.random(n) * 3.0 if importance else np.ones(n))


@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63, 64, 65, 1500])  # the last: more rows than one logarithm takes
def test_log_likelihood_equals_the_twin(n: int, importance: bool) -> None:
    events = events_of(n, 2, importance=importance)
    margin = np.random.default_rng(1).normal(size=n) * 30.0
    found = core.log_likelihood(labelled(events), margin, np.empty(n), np.empty(n))
    assert found == pytest.approx(slow.log_likelihood(margin, events), rel=1e-12)


def test_mode_equals_the_twin() -> None:
    events, gamma = events_of(200, 3, importance=True), np.array([0.1, 1.0, 0.5])
    beta, lower, is_definite = mode_of(events, gamma)
    assert is_definite
    expected, factor = slow.mode_of(events, gamma)
    spread = np.sqrt(np.diag(np.linalg.inv(factor @ factor.T)))
    np.testing.assert_allclose((beta - expected) / spread, 0.0, atol=1e-3)
    np.testing.assert_allclose(lower @ lower.T, factor @ factor.T, rtol=1e-2)


def test_mode_exists_although_the_classes_are_separable() -> None:
    events = Events(np.array([[1.0, 1.0, 1.0, 1.0], [-2.0, -1.0, 1.0, 2.0]]), np.array([-1.0, -1.0, 1.0, 1.0]), np.ones(4))
    beta, _, is_definite = mode_of(events, np.array([0.1, 0.1]))
    assert is_definite
    assert beta[1] == pytest.approx(slow.mode_of(events, np.array([0.1, 0.1]))[0][1], rel=1e-3)


def test_columns_that_are_equal_up_to_rounding_leave_the_draws_alone() -> None:
    events, theta = Events(np.full((2, 5), 1e6), np.ones(5), np.ones(5)), np.full((2, 3), 7.0)
    assert draw_posterior(events, np.full(2, 1e-6), CHANCE, theta) == -1.0
    assert theta.tolist() == [[7.0] * 3] * 2


def test_draws_equal_the_twin() -> None:
    events, gamma, theta = events_of(40, 3, importance=True), np.array([0.1, 0.2, 0.3]), np.empty((3, 60))
    draw_posterior(events, gamma, CHANCE, theta)
    beta, lower, _ = mode_of(events, gamma)
    expected = slow.draw_posterior(events, gamma, (5, 2), (beta, lower), 60)
    np.testing.assert_allclose(theta, expected, rtol=1e-7)


def integral(events: Events, gamma: F64) -> tuple[F64, F64]:
    """Mean and standard deviation of two parameters, by a grid over eight standard deviations."""
    beta, lower, _ = mode_of(events, gamma)
    u = np.linspace(-8.0, 8.0, 161)
    grid = beta[:, np.newaxis] + np.linalg.inv(lower).T @ np.array(np.meshgrid(u, u)).reshape(2, -1)
    height = np.array([slow.log_likelihood(events.x.T @ at, events) for at in grid.T]) - gamma @ np.abs(grid)
    part = np.exp(height - height.max())
    part /= part.sum()
    mean = grid @ part
    return mean, np.sqrt((grid - mean[:, np.newaxis]) ** 2 @ part)


def test_draws_have_mean_and_spread_of_the_posterior() -> None:
    events, gamma, theta = events_of(25, 2, seed=4), np.array([0.5, 1.0]), np.empty((2, 40_000))
    acceptance = draw_posterior(events, gamma, CHANCE, theta)
    mean, spread = integral(events, gamma)
    assert acceptance == pytest.approx(0.44, abs=0.05)
    np.testing.assert_allclose((theta.mean(axis=1) - mean) / spread, 0.0, atol=0.06)
    np.testing.assert_allclose(theta.std(axis=1) / spread, 1.0, atol=0.05)
