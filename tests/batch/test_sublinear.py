"""SLLR: golden pieces, rounds against a twin, an error that falls with T, feature accesses, notes and refusals."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.base.errors import BadInput, Conflict, TooLarge
from riata.lab.batch import sublinear
from riata.lab.batch.passes import columns_of, memory_bytes
from riata.lab.batch.pool import Serial, Threads
from riata.lab.batch.problem import Problem, Solution
from riata.lab.batch.rmmp import Rmmp
from riata.lab.batch.sublinear import SIZE, Search, Sublinear, Terms, gather_rows
from tests.batch.designs import data_of, dense, golden, sparse_design
from tests.twins import sublinear as slow

GOLDEN = golden("sllr.json")


def design(n: int, seed: int, d: int = 60) -> tuple[F64, F64]:
    """Dense rows of about unit length, and labels by a direction with noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) / np.sqrt(d)
    direction = np.random.default_rng(0).standard_normal(d) * (np.arange(d) < 15)
    y = (x @ direction + 0.05 * rng.standard_normal(n) > 0.0).astype(np.float64)
    return x, y


X, Y = design(400, 1)
FRESH_X, FRESH_Y = design(2000, 2)
DATA = data_of(X, Y)


def error(solution: Solution) -> float:
    """Share of new rows that are predicted wrongly."""
    margin = FRESH_X @ dense(solution.weights, X.shape[1]) + solution.weights.intercept
    return float(((margin > 0.0) != (FRESH_Y > 0.5)).mean())


def test_golden_slack_and_golden_update_are_those_of_the_twin() -> None:
    for one in GOLDEN["xi"]:
        p = np.array(one["p"])
        xi = np.empty(len(p))
        slow.slack(p, one["nu"] * len(p), xi)
        np.testing.assert_allclose(xi, one["xi"], rtol=1e-12)
    for one in GOLDEN["multiplicative_update"]:
        log_q = np.log(np.array(one["q"], np.float64))
        slow.reweigh(log_q, np.array(one["sigma"], np.float64), one["eta"])
        np.testing.assert_allclose(np.exp(log_q), one["q_next"], rtol=1e-12)


@settings(max_examples=20)
@given(seed=st.integers(0, 999), nu=st.sampled_from([0.0, 0.2, 0.5]), pull=st.sampled_from([0.0, 0.002]), free=st.booleans())
def test_rounds_are_those_of_the_twin(seed: int, nu: float, pull: float, free: bool) -> None:
    x, y = sparse_design(30, 10, seed, 0.5 if nu == 0.0 else 5.0)  # zeros would tie rows, whose order then is that of rounding
    data = data_of(0.2 * x, y)
    rows, columns, d = gather_rows(data), columns_of(data), data.features
    terms = Terms(200, pull, nu, free, seed)
    one = Search(*(np.zeros(size) for size in (d, d, d, 30, 30, 30, 30, SIZE)))
    two = copy.deepcopy(one)
    for count in (1, 40):
        sublinear.sublinear_rounds(rows, columns, one, terms, count)
        slow.sublinear_rounds(rows, columns, two, terms, count)
        for name in ("u", "w", "total", "p", "xi", "own"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("nu", [0.0, 0.1])
def test_the_error_falls_with_the_rounds(nu: float) -> None:
    problem = Problem(DATA, "logistic", 0.1)
    errors = [error(Sublinear(rounds=rounds, nu=nu).solve(problem, Serial())) for rounds in (300, 3000, 30_000)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < (0.15 if nu else 0.12)


def test_it_is_no_optimum_but_better_than_the_base_rate_and_counts_what_it_reads() -> None:
    problem = Problem(DATA, "logistic", 0.1)
    best = Rmmp(held_bytes_max=0).solve(problem, Serial())  # its first pass is at the base rate
    found = Sublinear(rounds=3000).solve(problem, Serial())
    assert best.certificate.objective > found.certificate.objective > best.trace[0].certificate.objective
    assert found.stopped == "passes"
    rows, columns = 3000 * X.shape[1], 3000 * len(X)
    assert found.trace[-1].accesses <= rows + columns + 6 * DATA.nnz  # the passes that measure are counted at their end
    assert found.trace[-1].accesses >= 0.99 * (rows + columns)
    assert found.notes == ()


def test_a_large_penalty_leaves_the_last_round_sparse_and_the_average_dense() -> None:
    problem = Problem(DATA, "logistic", 30.0)
    average, last = (Sublinear(rounds=2000, last=flag).solve(problem, Serial()) for flag in (False, True))
    assert len(last.weights.slot) < X.shape[1]
    assert len(average.weights.slot) in (0, X.shape[1])


def test_the_seed_decides_and_threads_do_not() -> None:
    problem = Problem(DATA, "logistic", 0.1)
    one = Sublinear(rounds=500).solve(problem, Serial())
    with Threads(2) as pool:
        assert Sublinear(rounds=500).solve(problem, pool).weights.beta.tobytes() == one.weights.beta.tobytes()
    assert Sublinear(rounds=500, seed=1).solve(problem, Serial()).weights.beta.tobytes() != one.weights.beta.tobytes()


def test_sparse_rows_are_answered_with_the_name_of_a_faster_method() -> None:
    x, y = sparse_design(200, 60, 1)
    found = Sublinear(rounds=100).solve(Problem(data_of(x, y), "logistic", 0.1), Serial())
    (note,) = found.notes
    assert note.code == "sparse_rows"
    assert "rmmp" in note.text


def test_it_stops_when_told_to() -> None:
    found = Sublinear(rounds=640).solve(Problem(DATA, "logistic", 0.1), Serial(), lambda _row: False)
    assert found.stopped == "cancelled"
    assert len(found.trace) == 1


def test_what_it_cannot_do_is_refused() -> None:
    problem = Problem(DATA, "logistic", 0.1)
    weight = np.where(np.arange(len(Y)) == 0, 2.0, 1.0)
    for wrong, code in (
        (Problem(DATA, "probit", 0.1), "not_for_this_link"),
        (Problem(DATA, "logistic", np.arange(60.0)), "one_penalty"),
        (Problem(data_of(X, Y, weight), "logistic", 0.1), "weights_differ"),
    ):
        with pytest.raises(BadInput) as caught:
            Sublinear(rounds=10).solve(wrong, Serial())
        assert caught.value.code == code
    with pytest.raises(Conflict):
        Sublinear(rounds=10).solve(Problem(data_of(X, np.ones(len(Y))), "logistic", 0.1), Serial())
    need = 2 * memory_bytes(DATA)
    assert Sublinear(rounds=10, memory_bytes_max=need).solve(problem, Serial()).spent.memory_bytes == need
    with pytest.raises(TooLarge, match="use rmmp"):
        Sublinear(rounds=10, memory_bytes_max=need - 1).solve(problem, Serial())
