"""IRLS-LARS: the path against a twin, golden values, ties and duplicates, bounds, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.base.errors import BadInput, TooLarge
from riata.lab.batch.data import in_memory
from riata.lab.batch.irls_lars import FEATURES_MAX, IrlsLars, lars
from riata.lab.batch.pool import Serial, Threads
from riata.lab.batch.problem import LinkName, Problem, Solution
from riata.lab.batch.rmmp import Rmmp, memory_bytes
from tests.batch.designs import NEVER, data_of, dense, golden, sparse_design
from tests.batch.test_solvers import parts_of
from tests.refused import refused
from tests.twins import lars as slow

GOLDEN = golden("irls_lars_shotgun.json")
SMALL = golden("online_mp_rmmp.json")
N, D = 400, 60
X, Y = sparse_design(N, D, 1)
DATA = data_of(X, Y)


@settings(max_examples=40)
@given(seed=st.integers(0, 9999), k=st.integers(1, 12), share=st.floats(0.01, 0.9), bounded=st.booleans())
def test_the_path_ends_where_its_twin_says(seed: int, k: int, share: float, bounded: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((30, k)) + 0.5 * rng.standard_normal((30, 1))
    a, c, allowed = x.T @ x, x.T @ rng.standard_normal(30), rng.random(k) < 0.9
    if not allowed.any():
        return
    lowest = share * float(np.abs(c[allowed]).max())
    most = 0.5 * float(np.abs(slow.penalised(a, c, allowed, lowest)).sum()) if bounded else np.inf
    beta, penalty, barred = lars(a, c, allowed, lowest, most)
    wanted, at, _ = slow.lars(a, c, allowed, lowest, most)
    np.testing.assert_allclose(beta, wanted, atol=1e-9)
    assert penalty == pytest.approx(at, rel=1e-8)
    assert not barred.any()


@settings(max_examples=40)
@given(seed=st.integers(0, 9999), groups=st.integers(1, 4))
def test_ties_and_combinations_of_columns_end_at_the_same_optimum(seed: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.hstack([np.eye(4)[np.arange(48) // 4**g % 4] for g in range(groups)])  # every level equally often: all are tied
    x = x - x.mean(axis=0)  # the levels of a factor sum to nothing
    y = np.round(rng.random(48) < 0.4).astype(float)
    a, c, allowed = x.T @ x, x.T @ (y - y.mean()), np.ones(x.shape[1], np.bool_)
    lowest = 0.05 * float(np.abs(c).max()) + 1e-3
    beta, _, _ = lars(a, c, allowed, lowest, np.inf)
    left = c - a @ beta
    assert np.abs(left).max() <= lowest * (1 + 1e-8)
    np.testing.assert_allclose(left[beta != 0.0], lowest * np.sign(beta[beta != 0.0]), rtol=1e-8)


@pytest.mark.parametrize("one", GOLDEN["constrained"])
@pytest.mark.parametrize("by_bound", [False, True])
def test_the_golden_optima(one: dict[str, Any], by_bound: bool) -> None:
    data = data_of(np.array(SMALL["X"])[:, :6], np.array(SMALL["y"], np.float64))
    solver = IrlsLars(1e-12, bound=one["C"] if by_bound else None)
    found = solver.solve(Problem(data, "logistic", one["equivalent_gamma"], NEVER), Serial())
    np.testing.assert_allclose(dense(found.weights, 6), one["theta_star"], rtol=0, atol=1e-9)
    assert found.stopped == "tolerance"
    assert len(found.trace) <= 8  # five to seven steps and the pass that certifies the last
    assert found.gamma == (pytest.approx(one["equivalent_gamma"], rel=1e-9) if by_bound else None)
    penalty = one["equivalent_gamma"] * one["C"]
    assert found.certificate.objective == pytest.approx(-one["nll"] - penalty, rel=1e-12)


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_the_optimum_is_that_of_rmmp_with_an_intercept_that_is_free(link: LinkName, gamma: float) -> None:
    problem = Problem(data_of(X, Y, np.random.default_rng(3).uniform(0.2, 3.0, N)), link, gamma)
    best, found = Rmmp(tolerance=1e-13).solve(problem, Serial()), IrlsLars(1e-11).solve(problem, Serial())
    assert found.stopped == "tolerance"
    np.testing.assert_allclose(dense(found.weights, D), dense(best.weights, D), rtol=0, atol=1e-9)
    assert found.weights.intercept == pytest.approx(best.weights.intercept, abs=1e-9)
    bound = float(np.abs(best.weights.beta).sum())
    same = IrlsLars(1e-11, bound=bound).solve(problem, Serial())
    np.testing.assert_allclose(dense(same.weights, D), dense(best.weights, D), rtol=0, atol=1e-8)
    assert same.gamma == pytest.approx(gamma, rel=1e-7)
    assert same.certificate.gap is not None
    assert same.certificate.gap < 1e-6


def test_weights_stay_within_the_bound_and_a_bound_of_nothing_leaves_the_intercept() -> None:
    problem = Problem(DATA, "logistic", 1.0)
    objectives = []
    for bound in (0.0, 0.5, 2.0, 8.0):
        found = IrlsLars(1e-9, bound=bound).solve(problem, Serial())
        assert found.stopped == "tolerance"
        assert np.abs(found.weights.beta).sum() == pytest.approx(bound, rel=1e-9, abs=1e-12)
        assert found.gamma is not None
        objectives.append(found.certificate.objective + found.gamma * bound)
    assert objectives == sorted(objectives)
    assert found.weights.intercept != 0.0
    share = Y.mean()
    nothing = IrlsLars(bound=0.0).solve(problem, Serial()).weights
    assert nothing.beta.tolist() == []
    assert nothing.intercept == pytest.approx(np.log(share / (1 - share)))


def test_a_bound_that_does_not_bind_gives_the_likelihood_its_maximum() -> None:
    x, y = X[:, :4], Y
    found = IrlsLars(1e-9, bound=1e3).solve(Problem(data_of(x, y), "logistic", 1.0), Serial())
    free = Rmmp(tolerance=1e-9).solve(Problem(data_of(x, y), "logistic", 0.0), Serial())
    np.testing.assert_allclose(dense(found.weights, 4), dense(free.weights, 4), atol=1e-5)


def factors() -> tuple[F64, F64]:
    """One-hot columns of three factors, and the first column of each once more."""
    rng = np.random.default_rng(8)
    levels = [rng.integers(0, 4, 300) for _ in range(3)]
    x = np.hstack([np.eye(4)[level] for level in levels])
    y = (rng.random(300) < 1 / (1 + np.exp(-(x @ rng.standard_normal(12))))).astype(np.float64)
    return np.hstack([x, x[:, [0, 4, 8]]]), y


def test_duplicate_columns_are_left_out_and_named_and_combinations_too() -> None:
    x, y = factors()
    problem = Problem(data_of(x, y), "logistic", 1.0)
    found, best = IrlsLars(1e-10).solve(problem, Serial()), Rmmp(tolerance=1e-11).solve(problem, Serial())
    assert found.stopped == "tolerance"
    assert found.certificate.objective == pytest.approx(best.certificate.objective, rel=1e-10)
    notes = {note.code: note for note in found.notes}
    named = notes["duplicate_columns"].slots
    assert len(named) == 3
    assert all({pair[0], pair[1]} & set(named) for pair in ((0, 12), (4, 13), (8, 14)))
    assert not set(found.weights.slot.tolist()) & set(named)
    assert {note.code for note in IrlsLars().solve(Problem(DATA, "logistic", 1.0), Serial()).notes} == set()


@pytest.mark.parametrize("workers", [2, 16])
def test_the_bits_do_not_depend_on_threads(workers: int) -> None:
    problem = Problem(parts_of(DATA, 29), "logistic", 1.0)
    alone = IrlsLars(bound=3.0).solve(problem, Serial())
    with Threads(workers) as pool:
        together = IrlsLars(bound=3.0).solve(problem, pool)
    assert together.weights.beta.tobytes() == alone.weights.beta.tobytes()
    assert together.certificate == alone.certificate


def test_it_stops_when_told_to() -> None:
    found: Solution = IrlsLars(1e-12).solve(Problem(DATA, "logistic", 0.3), Serial(), lambda row: row.number < 2)
    assert found.stopped == "cancelled"
    assert len(found.trace) == 2
    assert IrlsLars(1e-12, passes_max=2).solve(Problem(DATA, "logistic", 0.3), Serial()).stopped == "passes"


def test_what_it_cannot_do_is_refused() -> None:
    n = FEATURES_MAX + 1
    label = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    wide = in_memory(np.arange(n + 1), np.arange(n, dtype=np.uint32), np.ones(n), label, np.ones(n))
    with refused(TooLarge, "too_many_features", match=r"4001 features.*use rmmp"):
        IrlsLars().solve(Problem(wide, "logistic", 1.0), Serial())
    problem = Problem(DATA, "logistic", 1.0)
    need = memory_bytes(problem, D, 1)
    assert IrlsLars(memory_bytes_max=need).solve(problem, Serial()).spent.memory_bytes == need
    with pytest.raises(TooLarge, match=f"needs {need} bytes"):
        IrlsLars(memory_bytes_max=need - 1).solve(problem, Serial())
    for wrong in (
        Problem(DATA, "logistic", 0.0),
        Problem(DATA, "logistic", np.arange(1.0, D + 1)),
        Problem(DATA, "logistic", 1.0, 1.0),
    ):
        with refused(BadInput, "one_penalty"):
            IrlsLars().solve(wrong, Serial())
    with pytest.raises(BadInput, match="bound of at least 0"):
        IrlsLars(bound=-1.0).solve(problem, Serial())
