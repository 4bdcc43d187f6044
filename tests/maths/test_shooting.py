from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.maths import block as fast
from riata.maths.block import PENDING, SIZE, Block
from riata.maths.block_arrays import FOUNDED, TRACKED
from riata.maths.block_lazy import TRACK_ALL
from riata.maths.shooting import WEIGHT_MAX, solve, solve_plain, violation
from tests.maths.test_block import add, assert_close, flushed, some_rows
from tests.twins import block as slow
from tests.twins import shooting as twins

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "shooting.json").read_text())
PROBLEMS = [pytest.param(problem, id=problem["name"]) for problem in GOLDEN["problems"]]


def block_of(psi: F64, theta: F64, gamma: F64, tracked_max: int = 1024) -> Block:
    """The sketch beta' Psi beta + beta' theta at weights zero; penalties in force are those where `solve` is given 1."""
    d = len(theta)
    block = fast.new_block(d, tracked_max)
    block.counts[SIZE] = d
    block.cross[:, :d] = np.triu(-2.0 * psi, 1)
    block.curvature[:], block.gradient[:], block.gamma[:] = -2.0 * np.diag(psi), theta, gamma
    return block


def numbers(problem: dict[str, Any]) -> tuple[F64, F64, F64]:
    """Psi, theta and a penalty for each coordinate."""
    theta = np.array(problem["theta"])
    return np.array(problem["Psi"]), theta, np.broadcast_to(np.array(problem["gamma"], float), theta.shape).copy()


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", [solve, solve_plain])
def test_the_optimum_is_that_of_sixty_digits(problem: dict[str, Any], solver: Any) -> None:
    psi, theta, gamma = numbers(problem)
    block = block_of(psi, theta, gamma)
    _, worst = solver(block, 0.0, 1.0, 1e-11 * gamma.max(), 10_000)
    fast.flush(block)
    assert worst <= 1e-9 * gamma.max()
    assert violation(block, 0.0, 1.0) <= 1e-9 * gamma.max()
    np.testing.assert_allclose(block.beta, problem["beta_star"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(block.gradient + block.curvature * block.beta, problem["Omega_star"], rtol=0, atol=1e-8)
    assert twins.objective(slow.plain(block), 1.0) == pytest.approx(problem["objective"], rel=1e-12)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_first_sweeps_are_those_of_the_printed_algorithm(problem: dict[str, Any]) -> None:
    psi, theta, gamma = numbers(problem)
    printed = twins.printed_sweeps(psi, theta, gamma, 3)
    for sweep, golden in enumerate(problem["beta_after_sweeps_1_2_3_from_zero"]):
        np.testing.assert_allclose(printed[sweep], golden, rtol=0, atol=1e-12)
        for solver in (solve, solve_plain):
            block = block_of(psi, theta, gamma)
            solver(block, 0.0, 1.0, 0.0, sweep + 1)
            if gamma[0] > 0.0:  # else the first weight goes along with the others, which the printed algorithm does not do
                np.testing.assert_allclose(block.beta, golden, rtol=0, atol=1e-12)


@settings(max_examples=60)
@given(d=st.integers(1, 12), rank=st.integers(0, 12), empty=st.integers(0, 3), share=st.floats(0, 1.2), seed=st.integers(0, 999))
def test_any_sketch_is_solved_as_its_twin_solves_it(d: int, rank: int, empty: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rank, d)) * 10.0 ** rng.uniform(-2, 2, d)
    x[:, rng.permutation(d)[:empty]] = 0.0
    theta = x.T @ rng.standard_normal(rank)
    gamma = share * np.abs(theta).max(initial=0.0) * rng.choice([0.0, 0.5, 1.0], d)
    candidate = block_of(-0.5 * x.T @ x, theta, gamma)
    candidate.peak[:] = rng.random(d)
    reference = slow.plain(candidate)
    for solver, twin in ((solve, twins.solve), (solve_plain, twins.solve_plain)):
        one, other = fast.grown(candidate, d), slow.plain(candidate)
        assert solver(one, 0.5, 1.0, 1e-3, 30)[0] == twin(other, 0.5, 1.0, 1e-3, 30)[0]
        assert_close(slow.plain(one), other, share=1e-8)
        assert violation(one, 0.5, 1.0) == pytest.approx(twins.violation(other, 0.5, 1.0), rel=1e-6, abs=1e-9)
    assert twins.objective(slow.plain(one), 1.0) >= twins.objective(reference, 1.0) - 1e-9


def test_a_free_first_weight_goes_along_so_that_a_steep_valley_takes_few_sweeps() -> None:
    rng = np.random.default_rng(1)
    x = 1.0 + 0.1 * rng.standard_normal((400, 30))
    x[:, 0] = 1.0
    theta = x.T @ (x @ rng.standard_normal(30) + rng.standard_normal(400))
    free, penalised = np.ones(30), np.ones(30)
    free[0] = 0.0
    for solver in (solve, solve_plain):
        assert solver(block_of(-0.5 * x.T @ x, theta, free), 0.0, 1.0, 1e-3, 60)[1] <= 1e-3
        assert solver(block_of(-0.5 * x.T @ x, theta, penalised), 0.0, 1.0, 1e-3, 60)[1] > 1e-3


def test_a_copy_of_the_free_first_feature_keeps_its_weight_at_zero() -> None:
    x = np.random.default_rng(2).standard_normal((50, 3))
    x[:, 0] = x[:, 1] = 1.0
    theta = x.T @ np.ones(50) * 3.0
    for penalty in (1e-3, 0.0):
        block = block_of(-0.5 * x.T @ x, theta, np.array([0.0, penalty, penalty]))
        _, worst = solve(block, 0.0, 1.0, 1e-9, 1000)
        assert worst <= 1e-9
        assert block.beta[0] + block.beta[1] == pytest.approx(3.0, abs=1e-3)
        assert block.beta[1] == 0.0 or penalty == 0.0


def test_weights_without_curvature_stay_at_zero_and_do_not_keep_the_solver_busy() -> None:
    block = block_of(np.diag([0.0, -1.0, 0.0]), np.array([5.0, 3.0, 0.0]), np.array([1.0, 1.0, 0.0]))
    assert solve(block, 0.0, 1.0, 1e-12, 1000) == (1, 0.0)
    assert block.beta.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("solver", [solve, solve_plain])
@pytest.mark.parametrize("at", [0, 1])
def test_a_step_beyond_every_finite_weight_is_not_taken(solver: Any, at: int) -> None:
    curvature, theta = np.full(3, -1.0), np.full(3, 3.0)
    curvature[at], theta[at] = -4.0 / WEIGHT_MAX, 9.0
    block = block_of(np.diag(curvature), theta, np.zeros(3))
    _, worst = solver(block, 0.0, 1.0, 1e-12, 1000)
    assert worst == 0.0
    assert block.beta.tolist() == [0.0 if j == at else 1.5 for j in range(3)]


def test_a_solve_sweeps_once_even_where_the_violation_is_within_the_slack() -> None:
    block = block_of(np.diag([-1.0, -1.0]), np.array([2.0, 0.5]), np.ones(2))
    assert solve(block, 0.0, 1.0, 100.0, 1000)[0] == 1
    assert block.beta.tolist() == [0.5, 0.0]


STREAMS = {
    "every gradient tracked": (TRACK_ALL, 1.0, 1, 8.0, 1024),
    "dense": (200, 1.0, 1, 8.0, 1024),
    "every third row": (200, 1.0, 3, 8.0, 1024),
    "sparse": (300, 0.05, 1, 3.0, 1024),
    "more to track than there is room for": (200, 1.0, 1, 6.0, 40),
    "rows by the block": (200, 1.0, 50, 8.0, 1024),
    "rows by the block, few features, many weights": (200, 0.1, 40, 1.0, 1024),
}


@pytest.mark.parametrize(("size", "density", "every", "gamma", "tracked_max"), STREAMS.values(), ids=STREAMS.keys())
def test_no_gradient_is_over_its_penalty_unseen_between_two_flushes(
    size: int, density: float, every: int, gamma: float, tracked_max: int
) -> None:
    block, slack = fast.new_block(size, tracked_max), 1e-3 * gamma
    block.counts[SIZE], block.gamma[:], block.gamma[0] = size, 1.0, 0.0
    whole, late = fast.grown(block, size), 0
    truth = np.random.default_rng(2).standard_normal(size) * (np.arange(size) % 9 == 0)
    for i, row in enumerate(stream(size, 400, density, truth, block)):
        add(block, row)
        add(whole, row)
        if (i + 1) % every == 0:
            _, worst = solve(block, 0.5, gamma, slack, 1000)
            seen = flushed(block)
            assert worst <= slack
            assert twins.violation(seen, 0.5, gamma) <= slack * (1.0 + 1e-9)
            fast.flush(whole)
            solve_plain(whole, 0.5, gamma, slack, 1000)
            late += int(block.counts[TRACKED] - block.counts[FOUNDED])
    assert np.count_nonzero(block.beta) > 5
    assert np.array_equal(flushed(block).cross, flushed(whole).cross)
    assert size <= TRACK_ALL or every >= 40 or late > 0


def stream(size: int, n: int, density: float, truth: F64, block: Block) -> Any:
    """Rows of a logistic model, each linearised about the margin that the block gives it when it comes."""
    rng = np.random.default_rng(size)
    for at, x, _, _ in some_rows(size, n, seed=size + 1, density=density):
        x = np.sign(x) * np.minimum(np.abs(x), 3.0)
        label = float(rng.random() < 1.0 / (1.0 + np.exp(-x @ truth[at])))
        p = 1.0 / (1.0 + np.exp(-x @ block.beta[at]))
        yield at, x, label - p, max(p * (1.0 - p), 0.25 * abs(label - p))


@pytest.mark.parametrize("size", [40, 200])
def test_solving_after_every_row_gives_the_weights_of_adding_every_row_up_first(size: int) -> None:
    lazy, whole, gamma = fast.new_block(size), fast.new_block(size), 4.0
    for block in (lazy, whole):
        block.counts[SIZE], block.gamma[:] = size, 1.0
    truth = np.random.default_rng(3).standard_normal(size) * (np.arange(size) % 7 == 0)
    for row in stream(size, 150, 1.0, truth, lazy):
        for block in (lazy, whole):
            add(block, row)
        solve(lazy, 1.0, gamma, 1e-9, 10_000)
        fast.flush(whole)
        solve_plain(whole, 1.0, gamma, 1e-9, 10_000)
        np.testing.assert_allclose(lazy.beta, whole.beta, rtol=0, atol=1e-8)
    assert lazy.counts[PENDING] > 0
    assert np.count_nonzero(lazy.beta) > size // 20
