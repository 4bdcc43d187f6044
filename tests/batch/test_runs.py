"""LAPS: norms, the optimum of given runs, the search for runs, and groups by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import BadInput, Conflict, TooLarge
from riata.lab.batch import runs as fast
from riata.lab.batch.data import DataInMemory
from riata.lab.batch.pool import Serial
from riata.lab.batch.problem import LinkName, Problem
from riata.lab.batch.rmmp import Mp
from riata.lab.batch.run_search import GridPoint, RunLasso, RunSolution, candidates
from riata.lab.batch.runs import (
    Columns,
    Layout,
    Point,
    Runs,
    check,
    columns_of,
    log_constant,
    partition,
    run_matrix,
    run_norms,
    shrink_group,
    solve_runs,
)
from riata.maths.links import LOGISTIC, PROBIT
from riata.wire.groups import Declared, Grouping, grouping_of, read_groups
from tests.batch.designs import data_of, dense, golden
from tests.refused import refused
from tests.twins import run_norm as slow

GOLDEN = golden("laps.json")
X, Y = np.array(GOLDEN["X"]), np.array(GOLDEN["y"])


def sequence(data: DataInMemory, runs: bool = True) -> Grouping:
    """All columns as one group, in their order."""
    rank_of = {f"x{slot}": rank for rank, slot in enumerate(data.slots.tolist())}
    return grouping_of([Declared("x", tuple(f"x{i}" for i in range(data.features)), True, runs)], rank_of)


def simulated(n: int, weights: F64, seed: int) -> tuple[F64, F64]:
    """Rows of standard normal columns, labels 0 or 1."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, len(weights)))
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-(x @ weights)))).astype(np.float64)


@pytest.mark.parametrize("one", GOLDEN["matrices"], ids=lambda one: f"{one['n']}-{one['k']}")
def test_matrices_and_constants_are_the_golden_ones(one: dict[str, Any]) -> None:
    n, k = one["n"], one["k"]
    np.testing.assert_allclose(run_matrix(n, k), one["K"], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(slow.inverse_matrix(n, k), one["K_inverse"], rtol=1e-12)
    assert log_constant(n) == pytest.approx(one["log_c"], rel=1e-14)
    assert -(n - 1) * math.log1p(-k * k) == pytest.approx(one["log_det_K"], abs=1e-12)


@pytest.mark.parametrize("one", GOLDEN["core"], ids=lambda one: f"{one['run_lengths']}-{one['k']}-{one['lambda']}")
def test_weights_objective_and_score_are_the_golden_ones(one: dict[str, Any]) -> None:
    data = data_of(X, (Y + 1.0) / 2.0)
    layout = Layout.of(sequence(data), data.features)
    columns, problem = columns_of(data, layout, 1), Problem(data, "logistic", one["lambda"])
    edges = np.ones(5, np.bool_)
    edges[np.cumsum(one["run_lengths"])[:-1] - 1] = False
    point = Point(edges, np.zeros(6), np.zeros(1))
    runs = layout.runs(edges, one["lambda"], one["k"])
    assert solve_runs(columns, problem, runs, point, 1e-13) <= 1e-12
    np.testing.assert_allclose(point.b, one["beta"], rtol=0, atol=1e-8)
    assert point.intercept[0] == pytest.approx(one["beta_0"], abs=1e-8)
    assert point.value == pytest.approx(one["g"], abs=1e-9)
    checked = check(problem, layout, runs, point, Serial())
    assert checked.score == pytest.approx(one["S"], abs=1e-7)
    assert checked.certificate.objective == pytest.approx(-one["g"], abs=1e-9)
    assert checked.certificate.kkt <= 1e-12
    assert checked.certificate.gap is not None
    assert 0.0 <= checked.certificate.gap <= 1e-9


@pytest.mark.parametrize("k", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("dual", [False, True])
def test_norms_of_runs_are_those_of_the_twin(k: float, dual: bool) -> None:
    b = np.random.default_rng(3).standard_normal(13)
    start, ks = np.array([0, 1, 4, 13]), np.array([k, k, 0.3])
    found, wanted = np.empty(3), np.empty(3)
    run_norms(b, start, ks, dual, found)
    slow.run_norms(b, start, ks, dual, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-11)


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("penalty", [1e-6, 0.5, 2.0, 1e9])
@pytest.mark.parametrize("rank", [1, 9])
def test_one_group_is_shrunk_as_by_the_twin(n: int, penalty: float, rank: int) -> None:
    rng = np.random.default_rng(n)
    z = rng.standard_normal((rank, n))
    h, v = z.T @ z, z.T @ rng.standard_normal(rank)
    found, wanted = rng.standard_normal(n), np.empty(n)
    shrink_group(h, v, penalty, found)
    slow.shrink_group(h, v, penalty, wanted, np.empty(0))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    size = float(np.linalg.norm(found))
    off = h @ found - v + penalty * found / size if size else np.zeros(n)
    assert np.abs(off).max() <= 1e-11 * max(1.0, float(np.linalg.norm(v)))


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
@pytest.mark.parametrize("k", [0.0, 0.9])
def test_descent_reaches_the_optimum_of_the_twin(link: int, k: float) -> None:
    rng = np.random.default_rng(11)
    x, y = simulated(60, np.array([1.0, 0.8, 0.0, 0.0, 0.0, -1.0, 0.5]), 4)
    columns = Columns(x, 2.0 * y - 1.0, rng.uniform(0.5, 2.0, 60))
    runs = Runs(np.array([0, 2, 5, 7]), np.array([k, 0.0, k]), np.array([4.0, 6.0, 5.0]))
    found, wanted = (np.zeros(7), np.zeros(1)), (np.full(7, 0.1), np.zeros(1))
    value, violation, _ = fast.descend(columns, link, runs, *found, (1e-11, 100))
    other, _, _ = slow.descend(columns, link, runs, *wanted, (0.0, 0))
    assert violation <= 1e-11
    assert value <= other + 1e-9
    assert other == pytest.approx(value, abs=1e-4)
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-3)
    assert value == pytest.approx(slow.objective(columns, link, runs, found[0], float(found[1][0])), rel=1e-12)


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_groups_of_one_are_the_lasso(link: LinkName) -> None:
    x, y = simulated(120, np.array([1.0, 0.0, 0.0, -0.7, 0.2, 0.0]), 1)
    x[:, 1] = x[:, 0]  # ties
    data = data_of(x, y, np.random.default_rng(0).uniform(0.5, 2.0, 120))
    for gamma in (0.3, 3.0, 30.0):
        lasso = Mp(1e-13).solve(Problem(data, link, gamma), Serial())
        found = RunLasso(Grouping(), (gamma,), (0.0,), 1e-12).solve(Problem(data, link, 1.0), Serial()).solution
        assert found.stopped == "tolerance"
        assert found.certificate.objective == pytest.approx(lasso.certificate.objective, abs=1e-10)
        np.testing.assert_allclose(x @ dense(found.weights, 6), x @ dense(lasso.weights, 6), atol=1e-8)
        assert found.weights.intercept == pytest.approx(lasso.weights.intercept, abs=1e-8)
        np.testing.assert_allclose(dense(found.weights, 6)[2:], dense(lasso.weights, 6)[2:], atol=1e-8)


def found_in(x: F64, y: F64, threads: int = 1, **grid: Any) -> RunSolution:
    data = data_of(x, y)
    return RunLasso(sequence(data), threads=threads, **grid).solve(Problem(data, "logistic", 1.0), Serial())


def test_the_search_finds_blocks_and_is_the_same_on_any_number_of_threads() -> None:
    weights = np.repeat([0.0, 0.7, 0.0, -0.6, 0.0], [4, 5, 3, 4, 4])
    x, y = simulated(900, weights, 7)
    found = found_in(x, y, gammas=(2.0, 4.0), ks=(0.0, 0.99))
    assert found.k == 0.99
    assert found.solution.certificate.kkt <= 1e-8
    assert found.solution.certificate.gap is not None
    assert found.solution.certificate.gap <= 1e-6
    beta = dense(found.solution.weights, 20)
    held = [run for run in found.runs if not run.is_zero]
    assert sum(len(run.features) for run in found.runs) == 20
    assert {name for run in held for name in run.names} >= {f"x{i}" for i in np.flatnonzero(weights)}
    assert np.abs(beta - weights).max() < 0.25
    alone = found_in(x, y, gammas=(found.problem.scale,), ks=(0.0,))
    joined = [len(run.features) for run in held]
    assert max(joined) >= 4
    assert found.score < alone.score
    again = found_in(x, y, threads=4, gammas=(2.0, 4.0), ks=(0.0, 0.99))
    assert np.array_equal(dense(again.solution.weights, 20), beta)
    assert [point.score for point in again.grid] == [point.score for point in found.grid]


def test_no_single_edge_lowers_the_objective_of_what_was_found() -> None:
    x, y = simulated(300, np.repeat([0.0, 1.0, 0.0], [3, 4, 3]), 3)
    data = data_of(x, y)
    layout = Layout.of(sequence(data), 10)
    columns, problem = columns_of(data, layout, 1), Problem(data, "logistic", 3.0)
    found = RunLasso(sequence(data), (3.0,), (0.8,)).solve(problem, Serial())
    edges = np.zeros(9, np.bool_)
    place = {rank: i for i, rank in enumerate(layout.rank.tolist())}
    for run in found.runs:
        if not run.is_zero:
            edges[place[run.features[0]] : place[run.features[-1]]] = True
    best = -found.solution.certificate.objective
    for edge in range(9):
        other = edges.copy()
        other[edge] = not other[edge]
        point = Point(other, np.zeros(10), np.zeros(1))
        solve_runs(columns, problem, layout.runs(other, 3.0, 0.8), point, 1e-9)
        assert point.value >= best * (1.0 - 1e-6)


def test_the_group_lasso_drops_a_group_as_a_whole_and_only_a_group_without_runs_is_tied() -> None:
    x, y = simulated(400, np.array([0.9, 0.4, -0.8, 0.0, 0.0, 0.0, 0.5]), 2)
    data = data_of(x, y)
    rank_of = {f"x{slot}": rank for rank, slot in enumerate(data.slots.tolist())}
    grouping = grouping_of(read_groups({"a": "x{0..2}", "b": {"features": ["x4", "x3", "x5"]}}), rank_of)
    assert grouping.is_runs == (True, False)
    found = RunLasso(grouping, (12.0,), (0.0,)).solve(Problem(data, "logistic", 1.0), Serial())
    beta = dense(found.solution.weights, 7)
    assert [run.group for run in found.runs if not run.is_zero][-1] == ""
    assert np.all(beta[3:6] == 0.0)
    assert next(run.names for run in found.runs if run.group == "b") == ("x4", "x3", "x5")
    weaker = RunLasso(grouping, (1.0,), (0.0,)).solve(Problem(data, "logistic", 1.0), Serial())
    assert np.all(dense(weaker.solution.weights, 7)[3:6] != 0.0)


def test_zero_runs_that_touch_are_one_and_candidates_agree() -> None:
    layout = Layout.of(Grouping(("g",), (np.arange(6),), (True,), (tuple("abcdef"),), (0,)), 6)
    runs = layout.runs(np.array([True, False, False, True, False]), 1.0, 0.0)
    b = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    assert partition(layout, runs, b) == [(0, 3), (3, 5), (5, 6)]
    assert candidates({1: (0, 4), 3: (2, 6), 8: (7, 10)}) == [(2, 6), (0, 3), (7, 10)]
    assert candidates({1: (0, 3), 2: (1, 4), 9: (9, 10)}) == [(0, 3), (1, 4)]


def test_a_watcher_ends_the_grid_and_the_best_point_so_far_is_returned() -> None:
    x, y = simulated(80, np.array([1.0, 1.0, 0.0]), 5)
    seen: list[GridPoint] = []

    def watch(point: GridPoint) -> bool:
        seen.append(point)
        return len(seen) < 2

    data = data_of(x, y)
    found = RunLasso(sequence(data), (1.0, 2.0, 3.0), (0.0, 0.5)).solve(Problem(data, "logistic", 1.0), Serial(), watch)
    assert len(seen) == len(found.grid) == 2
    assert found.solution.stopped == "cancelled"
    assert found.score == min(point.score for point in seen)


@pytest.mark.parametrize(
    ("groups", "code"),
    [
        ({"a": "x{0..2}", "b": ["x2"]}, "feature_in_two_groups"),
        ({"a": {"features": ["x0", "x1"], "runs": True}}, "unordered_runs"),
        ({"a": {"features": "x*", "ordered": True}}, "unordered_runs"),
        ({"a": "y{0..2}"}, "unnamed_group"),
        ({"a": "x{2..0}"}, "bad_groups"),
        ({"a": []}, "bad_groups"),
        ({"a": {"features": ["x0"], "order": True}}, "bad_groups"),
        ({"a": {"features": ["x0"], "runs": "yes"}}, "bad_groups"),
        ({}, "bad_groups"),
    ],
)
def test_groups_that_cannot_be_are_refused_by_name(groups: dict[str, Any], code: str) -> None:
    with pytest.raises(BadInput) as refused:
        grouping_of(read_groups(groups), {f"x{i}": i for i in range(4)})
    assert refused.value.code == code
    if groups and code != "feature_in_two_groups":
        assert "'a'" in refused.value.detail


def test_groups_that_can_be_are_taken() -> None:
    rank_of = {f"t{i:02d}": i for i in range(12)} | {"c=red": 12, "c=blue": 13, "jan": 14, "feb": 15}
    document = {"groups": {"t": "t{00..14}", "c": "c=*", "m": {"features": ["jan", "feb"], "ordered": True, "runs": True}}}
    grouping = grouping_of(read_groups(document), rank_of)
    assert grouping.ranks[0].tolist() == list(range(12))
    assert grouping.absent == (3, 0, 0)
    assert grouping.is_runs == (True, False, True)
    assert grouping.features[1:] == (("c=blue", "c=red"), ("jan", "feb"))


def test_what_cannot_be_solved_is_refused() -> None:
    x, y = simulated(30, np.array([1.0, 0.0]), 6)
    data = data_of(x, y)
    for grid in ({"gammas": (0.0,)}, {"ks": (1.0,)}, {"tolerance": 0.0}, {"gammas": ()}):
        with pytest.raises(BadInput):
            RunLasso(sequence(data), **grid)
    with refused(TooLarge, "memory_bound"):
        RunLasso(sequence(data), memory_bytes_max=1000).solve(Problem(data, "logistic", 1.0), Serial())
    with refused(Conflict, "one_class"):
        found_in(x, np.ones(30))
    with pytest.raises(BadInput, match="shares a slot"):
        grouping_of([Declared("a", ("p", "q"), True, True)], {"p": 0, "q": 0})
