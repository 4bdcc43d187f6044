"""Shotgun: its kernels against twins, a published step, the optimum, the same bits for any number of threads, and its guard."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.base.errors import Conflict, TooLarge
from riata.lab.batch import passes, shotgun
from riata.lab.batch.data import in_memory
from riata.lab.batch.passes import Columns, Limits, Place, Rounds, columns_of, memory_bytes
from riata.lab.batch.pool import Serial, Threads
from riata.lab.batch.problem import LinkName, Problem, TraceRow
from riata.lab.batch.rmmp import Rmmp
from riata.lab.batch.shotgun import Shotgun
from riata.maths.links import LOGISTIC, PROBIT
from tests.batch.designs import NEVER, data_of, dense, golden, sparse_design
from tests.batch.test_solvers import parts_of
from tests.refused import refused
from tests.twins import shotgun as slow

N, D = 400, 60
X, Y = sparse_design(N, D, 1)
DATA = data_of(X, Y)
STEP = golden("irls_lars_shotgun.json")["shotgun"]
SMALL = golden("online_mp_rmmp.json")


def unit_columns() -> tuple[Columns, F64]:
    """The golden rows, columns scaled to unit norm, and the norms that they had."""
    x = np.array(SMALL["X"])[:, :6]
    norms = np.sqrt((x**2).sum(axis=0))
    start, row = np.arange(7) * len(x), np.tile(np.arange(len(x), dtype=np.uint32), 6)
    label = 2.0 * np.array(SMALL["y"], np.float64) - 1.0
    return Columns(start, row, (x / norms).T.ravel(), label, np.ones(len(x))), norms


def placed(columns: Columns, part: F64, link: int = LOGISTIC) -> Place:
    n, d = len(columns.label), len(columns.start) - 1
    margin = slow.dense_columns(columns) @ (part[:d] - part[d:])
    place = Place(part.copy(), margin, np.empty(n), np.empty(n), np.full(2 * d, np.inf), np.zeros(n, np.int32))
    Rounds(columns, link, place, Limits(*np.ones((3, d)))).settle(0.0)
    return place


def test_the_published_step_rho_and_number_at_once() -> None:
    columns, norms = unit_columns()
    np.testing.assert_allclose(norms, STEP["column_norms"], rtol=1e-12)
    place, limits = placed(columns, np.array(STEP["x"])), Limits(np.full(6, STEP["lambda"]), np.full(6, 0.25), np.ones(6))
    for step in STEP["steps"]:
        chosen = np.array(step["subset_1_based"]) - 1
        move = np.empty(len(chosen))
        Rounds(columns, LOGISTIC, place, limits).moves(chosen, move)
        wanted = [step["delta"][str(c + 1)] for c in chosen]
        np.testing.assert_allclose(move, wanted, rtol=1e-10)
    rho = passes.spectral_radius(columns, np.arange(6), np.ones(6), 200, 0)
    assert rho == pytest.approx(STEP["rho"], rel=1e-10)
    assert int(np.ceil(6 / rho)) == STEP["P_star"]


@settings(max_examples=25)
@given(seed=st.integers(0, 9999), link=st.sampled_from([LOGISTIC, PROBIT]), at_once=st.integers(1, 9))
def test_kernels_do_what_their_twins_do(seed: int, link: int, at_once: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = sparse_design(50, 20, seed, 0.3)
    columns = columns_of(data_of(x, y, rng.uniform(0.2, 2.0, 50)))
    d = len(columns.start) - 1
    place = placed(columns, np.where(rng.random(2 * d) < 0.3, rng.random(2 * d), 0.0), link)
    place.reach[:] = np.where(rng.random(2 * d) < 0.5, rng.exponential(size=2 * d), np.inf)
    other = copy.deepcopy(place)
    limits = Limits(rng.uniform(0.1, 2.0, d), np.where(rng.random(d) < 0.1, 0.0, 3.0), rng.uniform(0.5, 2.0, d))
    order = rng.permutation(2 * d)[: rng.integers(1, 2 * d)]
    rounds = Rounds(columns, link, place, limits)
    found = rounds.advance(order, at_once, 1)
    assert found == pytest.approx(slow.rounds(columns, link, other, limits, order, at_once, 1), rel=1e-9)
    for name in Place._fields:
        one, two = getattr(place, name), getattr(other, name)
        np.testing.assert_allclose(one, two, rtol=1e-6 if link == PROBIT else 1e-9, atol=1e-12)  # the twin's h cancels
    assert rounds.settle(0.3) == pytest.approx(slow.settle(columns, link, other, 0.3), rel=1e-9)
    np.testing.assert_allclose(place.residual, other.residual, rtol=1e-9, atol=1e-12)


def test_a_shuffle_is_that_of_its_twin() -> None:
    one, two = np.arange(50), np.arange(50)
    passes.shuffle(one, 7, 3)
    slow.shuffle(two, 7, 3)
    assert one.tolist() == two.tolist()
    assert sorted(one) == list(range(50))


def test_rho_comes_near_the_largest_eigenvalue_from_below() -> None:
    columns = columns_of(DATA)
    norm = np.array([(columns.value[columns.start[j] : columns.start[j + 1]] ** 2).sum() for j in range(D)])
    exact = slow.spectral_radius(columns, np.arange(D), norm, 0, 0)
    assert 0.9 * exact < passes.spectral_radius(columns, np.arange(D), norm, 20, 0) <= exact * (1 + 1e-12)


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("intercept", [0.0, NEVER])
def test_the_optimum_is_that_of_rmmp(link: LinkName, intercept: float) -> None:
    weight = np.random.default_rng(3).uniform(0.2, 3.0, N)
    problem = Problem(data_of(X, Y, weight), link, 1.0, intercept)
    best, found = Rmmp(tolerance=1e-12).solve(problem, Serial()), Shotgun(1e-10).solve(problem, Serial())
    assert found.stopped == "tolerance"
    assert found.certificate.objective == pytest.approx(best.certificate.objective, rel=1e-9)
    assert found.certificate.gap is not None
    np.testing.assert_allclose(dense(found.weights, D), dense(best.weights, D), atol=1e-4)
    assert found.weights.intercept == pytest.approx(best.weights.intercept, abs=1e-4)


def test_penalties_of_single_features_and_a_start() -> None:
    gamma = np.where(np.arange(D) % 4 == 0, NEVER, 2.0)[DATA.slots]
    best = Rmmp(tolerance=1e-12).solve(Problem(DATA, "logistic", gamma), Serial())
    found = Shotgun(1e-9).solve(Problem(DATA, "logistic", gamma), Serial())
    assert found.certificate.objective == pytest.approx(best.certificate.objective, rel=1e-8)
    again = Shotgun(1e-9).solve(Problem(DATA, "logistic", gamma, start=best.weights), Serial())
    assert len(again.trace) == 1


@pytest.mark.parametrize("workers", [2, 16])
def test_the_bits_do_not_depend_on_threads(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(parts_of(DATA, 29), "logistic", 1.0)
    alone = Shotgun(at_once=5).solve(problem, Serial())
    monkeypatch.setattr(shotgun, "LONG", 0)  # threads share every round
    with Threads(workers) as pool:
        together = Shotgun(at_once=5).solve(problem, pool)
    assert together.weights.beta.tobytes() == alone.weights.beta.tobytes()
    assert together.certificate == alone.certificate
    assert [row.accesses for row in together.trace] == [row.accesses for row in alone.trace]


def test_another_seed_draws_another_order_and_ends_at_the_same_optimum() -> None:
    problem = Problem(DATA, "logistic", 1.0)
    one, other = Shotgun(1e-9).solve(problem, Serial()), Shotgun(1e-9, seed=1).solve(problem, Serial())
    assert one.weights.beta.tobytes() != other.weights.beta.tobytes()
    assert one.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-8)


def test_too_many_at_once_are_halved_and_said() -> None:
    rng = np.random.default_rng(5)
    common = rng.standard_normal((300, 1))
    x = 0.3 * rng.standard_normal((300, 40)) + common  # all columns nearly the same: about one may move at a time
    y = (common[:, 0] + 0.5 * rng.standard_normal(300) > 0.0).astype(np.float64)
    problem = Problem(data_of(x, y), "logistic", 1.0)
    best = Rmmp(tolerance=1e-10).solve(problem, Serial())
    wild = Shotgun(at_once=64, tolerance=1e-6).solve(problem, Serial())
    assert {note.code for note in wild.notes} == {"p_halved"}
    assert wild.notes[0].text == "P was halved from 64 to 32: the objective had fallen"
    assert wild.certificate.objective == pytest.approx(best.certificate.objective, rel=1e-5)
    objectives = [row.certificate.objective for row in wild.trace]
    assert np.all(np.diff(objectives) >= -1e-9 * abs(objectives[0]))
    assert Shotgun(tolerance=1e-6).solve(problem, Serial()).notes == ()  # by its own estimate


def test_rounds_fall_in_proportion_to_the_number_at_once() -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((300, 64))
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(-x[:, :8].sum(axis=1)))).astype(np.float64)
    columns = columns_of(data_of(x, y))
    bound = 0.25 * np.array([(columns.value[columns.start[j] : columns.start[j + 1]] ** 2).sum() for j in range(64)])
    needed, limits = [], Limits(np.full(64, 5.0), bound, np.ones(64))
    for at_once in (1, 2, 4):
        place, order, number = placed(columns, np.zeros(128)), np.arange(128), 1
        worst, epoch = np.inf, 0
        while worst > 0.01:
            epoch += 1
            passes.shuffle(order, 0, epoch)
            worst, _ = Rounds(columns, LOGISTIC, place, limits).advance(order, at_once, number)
            number += -(-128 // at_once)
        needed.append(number - 1)
    assert needed[0] / needed[1] == pytest.approx(2.0, rel=0.1)
    assert needed[0] / needed[2] == pytest.approx(4.0, rel=0.1)


def test_a_feature_that_is_always_zero_keeps_weight_zero() -> None:
    x = np.column_stack([X[:, :5], np.zeros(N)])
    indptr = np.arange(N + 1) * 6
    data = in_memory(indptr, np.tile(np.arange(6, dtype=np.uint32), N), x.ravel(), 2.0 * Y - 1.0, np.ones(N))
    solution = Shotgun(1e-8).solve(Problem(data, "logistic", 0.5), Serial())
    assert solution.stopped == "tolerance"
    assert 5 not in solution.weights.slot


def test_it_stops_when_told_to_with_the_best_so_far() -> None:
    seen: list[TraceRow] = []

    def stop(row: TraceRow) -> bool:
        seen.append(row)
        return len(seen) < 2

    solution = Shotgun(1e-12).solve(Problem(DATA, "logistic", 0.3), Serial(), stop)
    assert solution.stopped == "cancelled"
    assert solution.certificate.objective == max(row.certificate.objective for row in seen)
    assert Shotgun(1e-12, passes_max=1).solve(Problem(DATA, "logistic", 0.3), Serial()).stopped == "passes"


def test_rows_of_one_label_and_rows_that_do_not_fit_are_refused() -> None:
    with refused(Conflict, "one_class"):
        Shotgun().solve(Problem(data_of(X, np.ones(N)), "logistic", 1.0), Serial())
    need = memory_bytes(DATA)
    assert Shotgun(memory_bytes_max=need).solve(Problem(DATA, "logistic", 1.0), Serial()).spent.memory_bytes == need
    with refused(TooLarge, "memory_bound", match=f"takes {need} bytes.*use rmmp"):
        Shotgun(memory_bytes_max=need - 1).solve(Problem(DATA, "logistic", 1.0), Serial())
