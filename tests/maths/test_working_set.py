from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.maths.shooting import Quadratic, shoot_active
from tests.maths.test_shooting import PROBLEMS, assert_gradient, numbers, problem_of
from tests.twins import shooting as twins

WHOLE, PART = 64, 4  # of shooting.c: up to this size, or with more weights than one in so many, a problem is solved in place


def upper_only(problem: Quadratic) -> Quadratic:
    """A copy of the problem, with NaN below the diagonal."""
    beta, gradient, curvature, gamma = (vector.copy() for vector in problem[:4])
    return Quadratic(beta, gradient, curvature, gamma, np.triu(problem.cross) + np.tril(np.full_like(problem.cross, np.nan)))


def widened(psi: F64, theta: F64, gamma: F64, d: int) -> Quadratic:
    """The problem embedded in d coordinates; the penalty of the others is above every gradient that they can have."""
    rng, size = np.random.default_rng(d), len(theta)
    at = np.sort(rng.permutation(d - 1)[: size - 1]) + 1
    at = np.insert(at, 0, 0)
    x = rng.standard_normal((d, d)) / d
    whole = -0.5 * (x.T @ x)
    whole[np.ix_(at, at)] = psi
    large = 10.0 + 10.0 * np.abs(theta).max()
    slope, penalties = rng.standard_normal(d), np.full(d, large)
    slope[at], penalties[at] = theta, gamma
    return upper_only(problem_of(whole, slope, penalties))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_optimum_of_sixty_digits_is_found_among_weights_that_stay_zero(problem: dict[str, Any]) -> None:
    psi, theta, gamma = numbers(problem)
    found = widened(psi, theta, gamma, 100)
    slope = found.gradient.copy()
    _, worst, mirrored = shoot_active(found, 1e-11 * gamma.max(), 10_000, False)
    assert not mirrored
    assert np.isnan(found.cross[1, 0])
    assert worst <= 1e-9 * gamma.max()
    assert twins.violation(found) <= 1e-9 * gamma.max()
    inside = found.gamma < 10.0 + 10.0 * np.abs(theta).max()
    np.testing.assert_allclose(found.beta[inside], problem["beta_star"], rtol=0, atol=1e-10)
    assert not found.beta[~inside].any()
    assert_gradient(found, slope)


def sparse_problem(d: int, rank: int, share: float, seed: int) -> Quadratic:
    """Rows in which few features matter, and a penalty above most gradients. The first weight is not penalised."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rank, d)) + 0.3 * rng.standard_normal((rank, 1))
    x[:, 0] = 1.0
    theta = x.T @ (x @ np.where(np.arange(d) % 11 == 3, rng.standard_normal(d), 0.0) + rng.standard_normal(rank))
    gamma = np.full(d, share * np.abs(theta).max())
    gamma[0] = 0.0
    return problem_of(-0.5 * (x.T @ x), theta, gamma)


@settings(max_examples=30)
@given(d=st.integers(WHOLE + 1, 130), share=st.floats(0.05, 1.0), seed=st.integers(0, 999))
def test_the_weights_are_those_of_the_whole_problem(d: int, share: float, seed: int) -> None:
    found = upper_only(sparse_problem(d, 3 * d, share, seed))
    theta, other = found.gradient.copy(), twins.copied(found)
    slack = 1e-9 * float(np.abs(theta).max())
    _, worst, _ = shoot_active(found, slack, 10_000, False)
    assert worst <= slack
    assert twins.violation(found) == pytest.approx(worst, rel=1e-6, abs=1e-12)
    twins.shoot(other, slack, 10_000)
    np.testing.assert_allclose(found.beta, other.beta, rtol=0, atol=1e-6 * (1e-3 + np.abs(other.beta).max()))
    assert_gradient(found, theta)


def test_a_weight_that_other_moves_bring_over_its_penalty_joins_in() -> None:
    d = 100
    psi = np.diag(np.full(d, -0.5))
    psi[2, 50] = psi[50, 2] = 0.4  # H = -0.8: as weight 2 rises, so does gradient 50
    theta = np.zeros(d)
    theta[2] = 11.0
    found = upper_only(problem_of(psi, theta, np.ones(d)))
    sweeps, worst, mirrored = shoot_active(found, 1e-9, 1000, False)
    assert worst <= 1e-9
    assert not mirrored
    assert sweeps > 2
    assert np.flatnonzero(found.beta).tolist() == [2, 50]
    assert found.beta[[2, 50]] == pytest.approx(np.linalg.solve([[1.0, -0.8], [-0.8, 1.0]], [10.0, -1.0]))
    assert_gradient(found, theta)


def test_the_limit_of_sweeps_counts_all_rounds() -> None:
    whole = sparse_problem(200, 300, 0.3, seed=5)
    wanted, _, _ = shoot_active(upper_only(whole), 1e-12, 10_000, False)
    assert wanted > 5
    for limit in (1, 2, 5):
        found = upper_only(whole)
        sweeps, worst, _ = shoot_active(found, 1e-12, limit, False)
        assert sweeps == limit
        assert worst > 1e-12
        assert worst == pytest.approx(twins.violation(found))
        assert_gradient(found, whole.gradient)


@pytest.mark.parametrize(("d", "active"), [(WHOLE, 1), (2 * WHOLE, 2 * WHOLE // PART)])
def test_a_small_problem_or_a_large_working_set_is_mirrored_and_solved_in_place(d: int, active: int) -> None:
    theta = np.where(np.arange(d) < active, 3.0, 0.5)
    psi = -0.5 * (np.eye(d) + 0.001)
    found = upper_only(problem_of(psi, theta, np.ones(d)))
    assert shoot_active(found, 1e-9, 1000, False)[2] is True
    assert np.array_equal(np.tril(found.cross, -1), np.triu(found.cross, 1).T)
    assert np.count_nonzero(found.beta) == active
    fewer = theta.copy()
    fewer[: active // 2] = 0.5
    if d > WHOLE:
        assert shoot_active(upper_only(problem_of(psi, fewer, np.ones(d))), 1e-9, 1000, False)[2] is False
    again = problem_of(psi, fewer, np.ones(d))
    assert shoot_active(again, 1e-9, 1000, True)[2] is True  # it stays mirrored
