from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64, I64, U32
from riata.maths.shooting import Quadratic, shoot, shoot_active
from riata.native.library import core, struct
from riata.native.rows import features_of
from tests.predict.rows import batch_of, random_rows, random_weights
from tests.twins import dot as twin
from tests.twins import shooting as twins
from tests.twins.shooting import WEIGHT_MAX

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "shooting.json").read_text())
PROBLEMS = [pytest.param(problem, id=problem["name"]) for problem in GOLDEN["problems"]]


def problem_of(psi: F64, theta: F64, gamma: F64) -> Quadratic:
    """The problem beta' Psi beta + beta' theta at weights zero. The diagonal of H, which must not be read, is NaN."""
    cross = -2.0 * psi
    np.fill_diagonal(cross, np.nan)
    return Quadratic(np.zeros(len(theta)), theta.copy(), -2.0 * np.diag(psi), gamma.copy(), cross)


def numbers(problem: dict[str, Any]) -> tuple[F64, F64, F64]:
    """Psi, theta and a penalty for each coordinate."""
    theta = np.array(problem["theta"])
    return np.array(problem["Psi"]), theta, np.broadcast_to(np.array(problem["gamma"], float), theta.shape).copy()


def random_problem(rng: np.random.Generator, d: int, rank: int, share: float, empty: int = 0) -> Quadratic:
    """A problem of `rank` rows with features in different units, some of them without values; penalties are zero, or a share of
    the largest gradient.
    """
    x = rng.standard_normal((rank, d)) * 10.0 ** rng.uniform(-2, 2, d)
    x[:, rng.permutation(d)[:empty]] = 0.0
    theta = x.T @ rng.standard_normal(rank)
    return problem_of(-0.5 * x.T @ x, theta, share * np.abs(theta).max(initial=0.0) * rng.choice([0.0, 0.5, 1.0], d))


def assert_gradient(problem: Quadratic, theta: F64) -> None:
    """The gradient is that at the weights."""
    whole = twins.copied(problem)
    matrix = whole.cross + np.diag(problem.curvature)
    scale = 1.0 + float(np.abs(theta).max(initial=0.0))
    np.testing.assert_allclose(problem.gradient, theta - matrix @ problem.beta, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_optimum_is_that_of_sixty_digits(problem: dict[str, Any]) -> None:
    psi, theta, gamma = numbers(problem)
    found = problem_of(psi, theta, gamma)
    _, worst = shoot(found, 1e-11 * gamma.max(), 10_000)
    assert worst <= 1e-9 * gamma.max()
    assert twins.violation(found) <= 1e-9 * gamma.max()
    np.testing.assert_allclose(found.beta, problem["beta_star"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.gradient + found.curvature * found.beta, problem["Omega_star"], rtol=0, atol=1e-8)
    assert twins.objective(twins.copied(found)) == pytest.approx(problem["objective"], rel=1e-12)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_first_sweeps_are_those_of_the_printed_algorithm(problem: dict[str, Any]) -> None:
    psi, theta, gamma = numbers(problem)
    printed = twins.printed_sweeps(psi, theta, gamma, 3)
    for sweep, golden in enumerate(problem["beta_after_sweeps_1_2_3_from_zero"]):
        np.testing.assert_allclose(printed[sweep], golden, rtol=0, atol=1e-12)
        found = problem_of(psi, theta, gamma)
        assert shoot(found, 0.0, sweep + 1)[0] == sweep + 1
        if gamma[0] > 0.0:  # else the first weight goes along with the others, which the printed algorithm does not do
            np.testing.assert_allclose(found.beta, golden, rtol=0, atol=1e-12)


@settings(max_examples=60)
@given(d=st.integers(1, 12), rank=st.integers(0, 12), empty=st.integers(0, 3), share=st.floats(0, 1.2), seed=st.integers(0, 999))
def test_any_problem_is_solved_as_its_twin_solves_it(d: int, rank: int, empty: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = random_problem(rng, d, rank, share, empty)
    found.curvature[:] += 0.5 * rng.random(d)
    theta, other = found.gradient.copy(), twins.copied(found)
    before = twins.objective(other)
    sweeps, worst = shoot(found, 1e-3, 30)
    assert sweeps == twins.shoot(other, 1e-3, 30)[0]
    for name in ("beta", "gradient"):
        expected = getattr(other, name)
        np.testing.assert_allclose(getattr(found, name), expected, rtol=0, atol=1e-8 * max(1.0, np.abs(expected).max()))
    assert worst == pytest.approx(twins.violation(other), rel=1e-6, abs=1e-9)
    assert twins.objective(other) >= before - 1e-9
    assert_gradient(found, theta)


def test_a_solve_goes_on_from_the_weights_it_finds() -> None:
    rng = np.random.default_rng(4)
    warm = random_problem(rng, 20, 30, 0.1)
    beta, gradient, curvature, gamma, cross = (array.copy() for array in warm[:5])
    cold = Quadratic(beta, gradient, curvature, gamma, cross)
    shoot(warm, 1e-10, 1000)
    warm.gamma[:] *= 0.9
    cold.gamma[:] *= 0.9
    few, _ = shoot(warm, 1e-8, 10_000)
    many, _ = shoot(cold, 1e-8, 10_000)
    assert few < many
    np.testing.assert_allclose(warm.beta, cold.beta, rtol=0, atol=1e-6 * np.abs(cold.beta).max())


def test_a_free_first_weight_goes_along_so_that_a_steep_valley_takes_few_sweeps() -> None:
    rng = np.random.default_rng(1)
    x = 1.0 + 0.1 * rng.standard_normal((400, 30))
    x[:, 0] = 1.0
    theta = x.T @ (x @ rng.standard_normal(30) + rng.standard_normal(400))
    free, penalised = np.ones(30), np.ones(30)
    free[0] = 0.0
    assert shoot(problem_of(-0.5 * x.T @ x, theta, free), 1e-3, 60)[1] <= 1e-3
    assert shoot(problem_of(-0.5 * x.T @ x, theta, penalised), 1e-3, 60)[1] > 1e-3


def test_a_copy_of_the_free_first_feature_keeps_its_weight_at_zero() -> None:
    x = np.random.default_rng(2).standard_normal((50, 3))
    x[:, 0] = x[:, 1] = 1.0
    theta = x.T @ np.ones(50) * 3.0
    for penalty in (1e-3, 0.0):
        found = problem_of(-0.5 * x.T @ x, theta, np.array([0.0, penalty, penalty]))
        _, worst = shoot(found, 1e-9, 1000)
        assert worst <= 1e-9
        assert found.beta[0] + found.beta[1] == pytest.approx(3.0, abs=1e-3)
        assert found.beta[1] == 0.0 or penalty == 0.0


def test_weights_without_curvature_stay_at_zero_and_do_not_keep_the_solver_busy() -> None:
    found = problem_of(np.diag([0.0, -1.0, 0.0]), np.array([5.0, 3.0, 0.0]), np.array([1.0, 1.0, 0.0]))
    assert shoot(found, 1e-12, 1000) == (1, 0.0)
    assert found.beta.tolist() == [0.0, 1.0, 0.0]


def test_an_infinite_penalty_keeps_a_weight_at_zero() -> None:
    found = problem_of(np.diag([-1.0, -1.0]), np.array([5.0, 3.0]), np.array([np.inf, 1.0]))
    assert shoot(found, 1e-12, 1000) == (1, 0.0)
    assert found.beta.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("at", [0, 1])
def test_a_step_beyond_every_finite_weight_is_not_taken(at: int) -> None:
    curvature, theta = np.full(3, -1.0), np.full(3, 3.0)
    curvature[at], theta[at] = -4.0 / WEIGHT_MAX, 9.0
    found = problem_of(np.diag(curvature), theta, np.zeros(3))
    _, worst = shoot(found, 1e-12, 1000)
    assert worst == 0.0
    assert found.beta.tolist() == [0.0 if j == at else 1.5 for j in range(3)]


def test_a_solve_sweeps_once_even_where_the_violation_is_within_the_slack() -> None:
    found = problem_of(np.diag([-1.0, -1.0]), np.array([2.0, 0.5]), np.ones(2))
    assert shoot(found, 100.0, 1000)[0] == 1
    assert found.beta.tolist() == [0.5, 0.0]


# Working set.


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


# Dot.


def indexed(slot: U32, bits: int, bucket_bits: int) -> U32:
    bucket = np.zeros(2**bucket_bits + 1, np.uint32)
    core.index_slots(slot, len(slot), bits - bucket_bits, bucket, 2**bucket_bits)
    return bucket


@pytest.mark.parametrize(
    ("bits", "bucket_bits", "non_zeros"),
    [(1, 0, 1), (1, 1, 2), (6, 3, 9), (10, 10, 700), (22, 5, 40), (4, 2, 0), (32, 0, 1), (32, 6, 40)],
)
def test_bucket_starts_equals_its_twin(bits: int, bucket_bits: int, non_zeros: int) -> None:
    slot = random_weights(np.random.default_rng(bits), non_zeros, bits).slot
    expected = np.zeros(2**bucket_bits + 1, np.uint32)
    twin.bucket_starts(slot, bits - bucket_bits, expected)
    np.testing.assert_array_equal(indexed(slot, bits, bucket_bits), expected)


@pytest.mark.parametrize(
    ("bits", "bucket_bits", "non_zeros"),
    [(1, 0, 1), (6, 0, 20), (6, 5, 20), (10, 10, 700), (26, 9, 500), (32, 0, 1), (32, 6, 40)],
)
def test_margins_equals_its_twin_bit_for_bit(bits: int, bucket_bits: int, non_zeros: int) -> None:
    rng = np.random.default_rng(100 + bits)
    weights = random_weights(rng, non_zeros, bits)
    known = [(int(slot) << (32 - bits)) + int(rng.integers(0, 2 ** (32 - bits))) for slot in weights.slot[:40]]
    rows = random_rows(rng, 200 - len(known), 12) + [[(h, 1.5)] for h in known]
    batch = batch_of(rows)
    bucket = indexed(weights.slot, bits, bucket_bits)
    found: tuple[F64, I64] = (np.empty(200), np.empty(200, np.int64))
    expected: tuple[F64, I64] = (np.empty(200), np.empty(200, np.int64))
    inputs = (batch.indptr, batch.hash, batch.value, weights.slot, weights.beta, bucket, bits, weights.intercept)
    native = struct("riata_weights", slot=weights.slot, beta=weights.beta, bucket=bucket, buckets=2**bucket_bits, bits=bits)
    native.intercept = weights.intercept
    assert core.margins(native, *features_of(batch), *found)
    twin.margins(*inputs, *expected)
    np.testing.assert_array_equal(found[0].view(np.uint64), expected[0].view(np.uint64))
    np.testing.assert_array_equal(found[1], expected[1])
    assert (found[1][200 - len(known) :] == 1).all()
