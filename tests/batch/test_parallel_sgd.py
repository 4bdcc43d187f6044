"""ParallelSGD: its kernels against twins, the same result for any number of threads, what machines gain, and refusals."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.errors import BadInput, TooLarge
from riata.lab.batch import passes
from riata.lab.batch.parallel_sgd import ParallelSgd
from riata.lab.batch.passes import Rates, Walk
from riata.lab.batch.pool import Serial, Threads
from riata.lab.batch.problem import Problem, Solution
from riata.lab.batch.rmmp import Rmmp
from riata.maths.links import LOGISTIC, PROBIT
from tests.batch.designs import NEVER, data_of, dense, sparse_design
from tests.batch.test_solvers import parts_of
from tests.refused import refused
from tests.twins import sgd as slow

N, D = 2000, 40
X, Y = sparse_design(N, D, 1, 0.4)
DATA = data_of(X, Y)
PROBLEM = Problem(DATA, "logistic", 5.0)
BEST = Rmmp(tolerance=1e-9).solve(PROBLEM, Serial()).certificate.objective


def gap(solution: Solution) -> float:
    """How much higher the optimum is, for each row."""
    return (BEST - solution.certificate.objective) / N


@settings(max_examples=25)
@given(seed=st.integers(0, 9999), link=st.sampled_from([LOGISTIC, PROBIT]), adaptive=st.booleans(), free=st.booleans())
def test_a_walk_is_that_of_its_twin(seed: int, link: int, adaptive: bool, free: bool) -> None:
    rng = np.random.default_rng(seed)
    x, y = sparse_design(40, 8, seed, 0.4)
    rows = data_of(x, y, rng.uniform(0.5, 2.0, 40)).parts[0].load()
    d = int(rows.rank.max(initial=0)) + 1
    one = passes.new_walk(rng.standard_normal(d) * (rng.random(d) < 0.5), 0.1)
    two, rates = copy.deepcopy(one), Rates(0.3, 0.02, adaptive, free)
    for order in (rng.permutation(40), rng.permutation(40)[:11]):
        passes.walk_rows(rows, link, one, rates, order)
        slow.walk_rows(rows, link, two, rates, order)
        passes.settle_walk(one, rates)
        slow.settle_walk(two, rates)
        for name in Walk._fields:
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("workers", [1, 2, 16])
def test_the_result_depends_on_the_machines_and_not_on_the_threads(workers: int) -> None:
    problem = Problem(parts_of(DATA, 290), "logistic", 5.0)
    alone = ParallelSgd(machines=5, passes_max=2).solve(problem, Serial())
    with Threads(workers) as pool:
        together = ParallelSgd(machines=5, passes_max=2).solve(problem, pool)
    assert together.weights.beta.tobytes() == alone.weights.beta.tobytes()
    assert together.certificate == alone.certificate
    other = ParallelSgd(machines=4, passes_max=2).solve(problem, Serial())
    assert other.weights.beta.tobytes() != alone.weights.beta.tobytes()


def test_machines_take_out_the_noise_of_a_constant_step() -> None:
    gaps = [gap(ParallelSgd(machines=k, eta=0.05, adaptive=False, whole=True).solve(PROBLEM, Serial())) for k in (1, 4, 16)]
    assert gaps[0] > 2.0 * gaps[1] > 2.0 * gaps[2] > 0.0


def test_rows_that_are_dealt_in_turn_are_as_good_sorted_by_label() -> None:
    x, y = sparse_design(20_000, D, 2, 0.4)
    by_label = np.argsort(y, kind="stable")
    sorted_rows = Problem(data_of(x[by_label], y[by_label]), "logistic", 5.0)
    one, eight = (ParallelSgd(machines=k).solve(sorted_rows, Serial()).certificate.objective for k in (1, 8))
    assert eight / one <= 1.02  # both are negative: at most 2 % worse
    assert eight / Rmmp().solve(sorted_rows, Serial()).certificate.objective <= 1.02


def test_the_average_is_truncated_and_rmmp_starts_from_it() -> None:
    problem = Problem(DATA, "logistic", 30.0)
    found = ParallelSgd().solve(problem, Serial())
    average, truncated = found.trace
    assert truncated.non_zeros < average.non_zeros
    assert truncated.certificate.objective > average.certificate.objective
    assert len(found.weights.slot) == truncated.non_zeros
    assert found.spent.passes == 3  # one that learns, one that truncates, one that certifies
    cold = Rmmp(tolerance=1e-6, held_bytes_max=0).solve(problem, Serial())
    warm = Rmmp(tolerance=1e-6).solve(Problem(DATA, "logistic", 30.0, start=found.weights), Serial())
    assert warm.certificate.objective == pytest.approx(cold.certificate.objective, rel=1e-6)
    assert warm.trace[0].certificate.objective > cold.trace[0].certificate.objective


def test_more_passes_come_nearer_and_it_stops_when_told_to() -> None:
    one, many = (ParallelSgd(passes_max=passes).solve(PROBLEM, Serial()) for passes in (1, 8))
    assert gap(many) < gap(one)
    assert one.stopped == "passes"
    stopped = ParallelSgd(passes_max=8).solve(PROBLEM, Serial(), lambda row: row.number < 3)
    assert stopped.stopped == "cancelled"
    assert len(stopped.trace) == 2


def test_without_an_intercept_and_with_features_that_stay_out() -> None:
    gamma = np.where(np.arange(D) % 4 == 0, NEVER, 2.0)[DATA.slots]
    found = ParallelSgd().solve(Problem(DATA, "logistic", gamma, NEVER), Serial())
    assert found.weights.intercept == 0.0
    assert not dense(found.weights, D)[np.arange(D) % 4 == 0].any()


def test_what_it_cannot_do_is_refused() -> None:
    with refused(BadInput, "too_many_machines", match="2001 machines, and only 2000 rows"):
        ParallelSgd(machines=N + 1).solve(PROBLEM, Serial())
    with refused(BadInput, "diverged", match="use a smaller eta"):
        ParallelSgd(eta=1e308, adaptive=False).solve(PROBLEM, Serial())
    with refused(BadInput, "one_penalty"):
        ParallelSgd().solve(Problem(DATA, "logistic", np.arange(1.0, D + 1)), Serial())
    need = ParallelSgd().solve(PROBLEM, Serial()).spent.memory_bytes
    assert ParallelSgd(memory_bytes_max=need).solve(PROBLEM, Serial()).stopped == "passes"
    with pytest.raises(TooLarge, match=r"machines need .* use fewer"):
        ParallelSgd(memory_bytes_max=need - 1).solve(PROBLEM, Serial())
