"""What the batch solvers promise: certificates, weights, bits, starts, and the problems that they refuse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64, Arrays
from riata.base.errors import BadInput, Conflict, TooLarge
from riata.lab.batch.choose import auto
from riata.lab.batch.data import DataInMemory, Part, in_memory
from riata.lab.batch.passes import Job, columns_of
from riata.lab.batch.pool import Serial, Threads, summed
from riata.lab.batch.problem import LinkName, Problem, Solution, TraceRow
from riata.lab.batch.rmmp import FEATURES_MAX, SAMPLE, Mp, Rmmp, gather, memory_bytes, most_bytes, solve_path
from riata.learn.learner import Weights
from riata.maths.links import LINKS
from tests.batch.designs import NEVER, data_of, dense, sparse_design
from tests.refused import refused
from tests.twins import batch as slow

READS_MAX = 400  # times that a value of correlated columns is read; 1,500 without H, and by sweeps alone 40,000 were too few
N, D = 400, 60
X, Y = sparse_design(N, D, 1)
DATA = data_of(X, Y)


def solve(gamma: float | F64, link: LinkName = "logistic", data: DataInMemory = DATA, k: int = 3000, **more: float) -> Solution:
    return Rmmp(k, **{"tolerance": 1e-10, **more}).solve(Problem(data, link, gamma), Serial())  # type: ignore[arg-type]


def by_rank(values: F64) -> F64:
    """Values by column as values by rank."""
    return values[DATA.slots]


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("gamma", [0.3, 2.0, 8.0])
@pytest.mark.parametrize("passes", [4, 100])
def test_a_twin_finds_the_same_certificate(link: LinkName, gamma: float, passes: int) -> None:
    weight = np.random.default_rng(3).uniform(0.2, 3.0, N)
    data = data_of(X, Y, weight)
    solution = Rmmp(tolerance=1e-11, passes_max=passes).solve(Problem(data, link, gamma), Serial())
    beta, b0, penalties = dense(solution.weights, D), solution.weights.intercept, np.full(D, gamma)
    objective = slow.objective(X, Y, weight, LINKS[link].code, penalties, beta, b0)
    assert solution.certificate.objective == pytest.approx(objective, rel=1e-12)
    m = (2.0 * Y - 1.0) * (b0 + X @ beta)
    g = (weight * (2.0 * Y - 1.0) * slow.slope(LINKS[link].code, m)) @ X
    off = np.where(beta != 0.0, np.abs(g - gamma * np.sign(beta)), np.maximum(np.abs(g) - gamma, 0.0))
    residual = abs(float(weight @ ((2.0 * Y - 1.0) * slow.slope(LINKS[link].code, m))))
    assert solution.certificate.kkt * gamma == pytest.approx(max(off.max(), residual), rel=1e-9, abs=1e-9)
    gap = -objective - slow.dual(X, Y, weight, LINKS[link].code, penalties, beta, b0)
    found = solution.certificate.gap
    assert found is not None
    best = Rmmp(tolerance=1e-13).solve(Problem(data, link, gamma), Serial()).certificate.objective
    assert best - objective <= found + 1e-9  # it is a bound
    if passes == 100:
        assert found == pytest.approx(gap, abs=1e-7 if link == "probit" else 1e-10)


def test_the_gap_bounds_the_distance_from_the_optimum_on_every_pass_and_falls() -> None:
    for link in ("logistic", "probit"):
        solution = solve(1.0, link)
        best = solution.certificate.objective
        gaps = np.array([row.certificate.gap for row in solution.trace])
        objectives = np.array([row.certificate.objective for row in solution.trace])
        for row in solution.trace:
            assert row.certificate.gap is not None
            assert best - row.certificate.objective <= row.certificate.gap + 1e-9
        assert np.all(np.diff(gaps) <= 1e-9)
        assert np.all(np.diff(objectives) >= -1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 9999), gamma=st.floats(0.1, 5.0), k=st.integers(40, 80))
def test_mp_and_rmmp_end_at_the_same_optimum(seed: int, gamma: float, k: int) -> None:
    x, y = sparse_design(200, 40, seed)
    data = data_of(x, y)
    problem = Problem(data, "logistic", gamma)
    one, other = Mp(1e-11).solve(problem, Serial()), Rmmp(k, 1e-11).solve(problem, Serial())
    assert one.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-9)
    np.testing.assert_allclose(dense(one.weights, 40), dense(other.weights, 40), atol=1e-4)


def correlated(kind: str, n: int = 400, d: int = 120) -> DataInMemory:
    """Columns that differ little: far from zero, all alike, or each like the one before it."""
    rng = np.random.default_rng(7)
    own, x = rng.standard_normal((n, d)), np.empty((n, d))
    if kind == "chain":
        x[:, 0] = own[:, 0]
        for j in range(1, d):
            x[:, j] = 0.995 * x[:, j - 1] + 0.1 * own[:, j]
    else:
        x = rng.uniform(5.0, 40.0, d) * own + 480.0 if kind == "far from zero" else 10.0 * rng.standard_normal((n, 1)) + own
    margin = (x - x.mean(axis=0)) / x.std(axis=0) @ np.where(np.arange(d) % 10 == 0, rng.standard_normal(d), 0.0)
    return data_of(x, (rng.random(n) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64))


@pytest.mark.parametrize("kind", ["far from zero", "alike", "chain"])
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("share", [0.1, 0.003])
def test_correlated_columns_have_an_answer_in_few_reads(kind: str, free: bool, share: float) -> None:
    data = correlated(kind)
    rows = data.parts[0].load()
    x = rows.value.reshape(data.rows, -1)[:, np.argsort(rows.rank[: data.features])]
    gamma = share * float(np.abs((0.5 * (rows.label - rows.label.mean())) @ x).max())
    solution = Rmmp(tolerance=1e-7).solve(Problem(data, "logistic", gamma, 0.0 if free else gamma), Serial())
    beta = np.zeros(data.features)
    beta[solution.weights.slot] = solution.weights.beta
    beta = beta[data.slots]
    margin = solution.weights.intercept + x @ beta
    r = rows.label / (1.0 + np.exp(rows.label * margin))
    g = r @ x
    violation = np.where(beta != 0.0, np.abs(g - gamma * np.sign(beta)), np.maximum(np.abs(g) - gamma, 0.0)).max()
    assert solution.stopped == "tolerance"
    assert violation <= 1e-4 * gamma
    assert violation <= (solution.certificate.kkt + 1e-9) * gamma
    assert solution.certificate.gap is not None
    assert solution.certificate.gap <= 1e-7 * abs(solution.certificate.objective)
    assert solution.spent.accesses <= READS_MAX * data.nnz


def test_a_weight_of_two_is_the_row_twice() -> None:
    weight = np.where(np.arange(N) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(N), weight.astype(int))
    one = solve(1.0, data=data_of(X, Y, weight), tolerance=1e-13)
    other = solve(1.0, data=data_of(X[twice], Y[twice]), tolerance=1e-13)
    np.testing.assert_allclose(dense(one.weights, D), dense(other.weights, D), rtol=0, atol=1e-9)
    assert one.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-12)


def test_features_that_share_a_slot_are_one_feature_with_the_sum() -> None:
    held = X != 0.0
    indptr = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    slot = (np.nonzero(held)[1] // 2).astype(np.uint32)
    one = solve(1.0, data=in_memory(indptr, slot, X[held], 2.0 * Y - 1.0, np.ones(N)))
    other = solve(1.0, data=data_of(X[:, ::2] + X[:, 1::2], Y))
    np.testing.assert_allclose(dense(one.weights, D // 2), dense(other.weights, D // 2), rtol=0, atol=1e-9)


def test_features_may_have_penalties_of_their_own() -> None:
    gamma = np.where(np.arange(D) % 4 == 0, NEVER, np.where(np.arange(D) % 4 == 1, 0.0, 2.0))
    solution = solve(by_rank(gamma))
    beta = dense(solution.weights, D)
    g = ((2.0 * Y - 1.0) * slow.slope(0, (2.0 * Y - 1.0) * (solution.weights.intercept + X @ beta))) @ X
    assert not beta[gamma == NEVER].any()
    assert np.abs(g[gamma == 0.0]).max() <= 1e-7
    assert np.abs(g[gamma == 2.0]).max() <= 2.0 + 1e-7
    assert solution.certificate.gap is None
    assert solution.certificate.kkt <= 1e-8


def parts_of(data: DataInMemory, rows: int) -> DataInMemory:
    """The same data in smaller parts."""
    whole = data.parts[0].load()
    made = []
    for first in range(0, data.rows, rows):
        end = min(first + rows, data.rows)
        inside = slice(whole.indptr[first], whole.indptr[end])
        part = in_memory(
            whole.indptr[first : end + 1] - whole.indptr[first], data.slots[whole.rank[inside]], whole.value[inside],
            whole.label[first:end], whole.weight[first:end],
        )  # fmt: skip
        rank_of = {int(slot): rank for rank, slot in enumerate(data.slots)}
        held = part.parts[0].load()
        rank = np.array([rank_of[int(part.slots[r])] for r in held.rank], np.uint32)
        made.append(type(part.parts[0])(held._replace(rank=rank)))  # type: ignore[call-arg]
    return DataInMemory(data.rows, data.nnz, data.features, made, data.slots, data.bits)


@pytest.mark.parametrize("workers", [2, 16])
@pytest.mark.parametrize("held", [0, 10**6])
def test_the_bits_do_not_depend_on_threads(workers: int, held: int) -> None:
    data = parts_of(DATA, 29)
    assert len(data.parts) == 14
    problem = Problem(data, "logistic", 1.0)
    solver = Rmmp(held_bytes_max=held)
    alone = solver.solve(problem, Serial())
    with Threads(workers) as pool:
        together = solver.solve(problem, pool)
    assert together.weights.beta.tobytes() == alone.weights.beta.tobytes()
    assert together.certificate == alone.certificate
    assert together.sums is not None
    assert alone.sums is not None
    assert together.sums.cross.tobytes() == alone.sums.cross.tobytes()


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("own", [0.0, 1.0, NEVER])
def test_held_columns_and_sums_of_h_end_at_the_same_optimum(link: LinkName, own: float) -> None:
    x, y = sparse_design(6000, 400, 8, 0.03)
    data = data_of(x, y, np.random.default_rng(8).uniform(0.5, 2.0, len(y)))
    gamma = np.where(np.arange(400) % 50 == 3, NEVER, 6.0)
    problem = Problem(data, link, gamma[data.slots], own)
    need = memory_bytes(problem, 400, 1)
    held = Rmmp(tolerance=1e-11).solve(problem, Serial())
    for other in (Rmmp(tolerance=1e-11, held_bytes_max=0), Rmmp(400, 1e-11, memory_bytes_max=need), Mp(1e-11)):
        summed_h = other.solve(problem, Serial())
        assert held.stopped == summed_h.stopped == "tolerance"
        assert held.certificate.objective == pytest.approx(summed_h.certificate.objective, rel=1e-11)
        np.testing.assert_allclose(dense(held.weights, 400), dense(summed_h.weights, 400), rtol=0, atol=1e-6)
        assert not isinstance(other, Rmmp) or other.memory_bytes_max is None or summed_h.spent.memory_bytes <= need
    assert held.spent.memory_bytes == max(need, memory_bytes(problem, 0, 1) + most_bytes(data))
    assert not dense(held.weights, 400)[gamma == NEVER].any()


def test_columns_that_turn_out_not_to_fit_are_replaced_by_sums_of_h() -> None:
    problem = Problem(DATA, "logistic", 0.3)
    tight = Rmmp(tolerance=1e-11, held_bytes_max=most_bytes(DATA) // 3).solve(problem, Serial())
    assert tight.stopped == "tolerance"
    assert tight.sums is not None
    assert len(tight.sums.rank) > 0
    assert tight.certificate.objective == pytest.approx(solve(0.3, tolerance=1e-11).certificate.objective, rel=1e-11)


@pytest.mark.parametrize("workers", [1, 3])
def test_gathered_features_are_those_of_the_rows(workers: int) -> None:
    data, members = parts_of(DATA, 70), np.array([0, 3, 4, 17, D - 1])
    with Threads(workers) as pool:
        made = gather(data, pool, members, most_bytes(data))
        assert gather(data, pool, np.arange(D), most_bytes(data) - 1) is None
        few = gather(data, pool, np.arange(D), most_bytes(data), SAMPLE)
    assert made is not None
    columns = columns_of(made)
    wanted = X[:, data.slots[members]]
    found = np.zeros_like(wanted)
    for p in range(len(members)):
        inside = slice(columns.start[p], columns.start[p + 1])
        assert np.all(np.diff(columns.row[inside].astype(np.int64)) > 0)
        found[columns.row[inside], p] = columns.value[inside]
    np.testing.assert_array_equal(found, wanted)
    assert columns.label.tolist() == (2.0 * Y - 1.0).tolist()
    assert few is not None
    assert 0 < few.rows < N / 2


def test_an_error_of_a_part_is_raised_and_leaves_no_thread_at_work() -> None:
    class Broken:
        def load(self) -> None:
            raise ValueError("part 3")

    parts = [*DATA.parts, Broken()]
    with Threads(2) as pool, pytest.raises(ValueError, match="part 3"):
        pool.fold("labels", parts, {})  # type: ignore[arg-type]


class Text(str):
    """A text that is added in brackets."""

    def __add__(self, other: str) -> Text:
        return Text(f"({self!s}+{other!s})")


def tree(first: int, end: int) -> str:
    """The sum of the parts first : end."""
    if end - first == 1:
        return str(first)
    half = 1 << (end - first - 1).bit_length() - 1
    return f"({tree(first, first + half)}+{tree(first + half, end)})"


@pytest.mark.parametrize("parts", range(1, 20))
def test_a_sum_is_a_tree_over_the_numbers_of_the_parts(parts: int) -> None:
    made = summed({"text": np.array([Text(number)], object)} for number in range(parts))
    assert made["text"][0] == tree(0, parts)


def test_a_start_far_away_comes_back_by_halving_the_step() -> None:
    rng = np.random.default_rng(4)
    start = Weights(np.arange(D, dtype=np.uint32), 10.0 * rng.standard_normal(D), 5.0, "logistic", 32)
    best = solve(1.0).certificate.objective
    solution = Rmmp(tolerance=1e-10).solve(Problem(DATA, "logistic", 1.0, start=start), Serial())
    assert solution.stopped == "tolerance"
    assert solution.certificate.objective == pytest.approx(best, rel=1e-8)
    assert solution.spent.passes > len(solution.trace)  # line searches, and passes whose step was not accepted


def test_a_start_whose_objective_is_beyond_rounding_gives_no_false_gap() -> None:
    best = solve(1.0).certificate.objective
    for held in (0, 10**6):
        start = Weights(np.arange(D, dtype=np.uint32), np.full(D, 1e40), 0.0, "logistic", 32)
        solver = Rmmp(tolerance=1e-8, passes_max=30, held_bytes_max=held)
        solution = solver.solve(Problem(DATA, "logistic", 1.0, start=start), Serial())
        if solution.stopped == "tolerance":
            assert solution.certificate.objective == pytest.approx(best, rel=1e-6)
        else:
            assert solution.certificate.gap is not None
            assert solution.certificate.objective + solution.certificate.gap >= best


def test_a_penalty_so_weak_that_a_sample_is_separable_is_no_trap() -> None:
    x, y = sparse_design(4500, 900, 12, 0.01)
    data = data_of(np.where(x > 0.0, 0.1, 0.0), y)
    problem = Problem(data, "logistic", 0.02)
    held = Rmmp(tolerance=1e-9).solve(problem, Serial())
    summed_h = Rmmp(tolerance=1e-9, held_bytes_max=0).solve(problem, Serial())
    assert held.stopped == summed_h.stopped == "tolerance"
    assert held.certificate.objective == pytest.approx(summed_h.certificate.objective, rel=1e-8)


def test_the_optimum_as_a_start_takes_one_pass() -> None:
    first = solve(1.0)
    for held, summed_of in (
        (0, len(first.weights.beta)),
        (10**6, 0),
    ):  # the curvature of the support comes with it, if it is summed
        solver = Rmmp(tolerance=1e-9, held_bytes_max=held)
        again = solver.solve(Problem(DATA, "logistic", 1.0, start=first.weights), Serial())
        assert again.spent.passes == 1
        assert again.weights.beta.tobytes() == first.weights.beta.tobytes()
        assert again.sums is not None
        assert len(again.sums.rank) == summed_of


def test_a_working_set_below_the_support_runs_and_says_what_is_frozen() -> None:
    full = solve(0.3)
    few = solve(0.3, k=5, passes_max=12, held_bytes_max=0)
    assert len(full.weights.beta) > 20
    assert few.stopped == "passes"
    assert few.certificate.kkt > 1e-3
    start = Problem(DATA, "logistic", 0.3, start=full.weights)
    assert Rmmp(5, 1e-14, passes_max=2, held_bytes_max=0).solve(start, Serial()).trace[0].frozen == len(full.weights.beta) - 5


@pytest.mark.parametrize(("held", "numbers"), [(0, [1, 2]), (10**6, [2, 3])])  # pass 1 gathers the columns
def test_who_watches_sees_every_pass_and_can_stop(held: int, numbers: list[int]) -> None:
    seen: list[TraceRow] = []

    def stop(row: TraceRow) -> bool:
        seen.append(row)
        return len(seen) < 2

    solution = Rmmp(tolerance=1e-16, held_bytes_max=held).solve(Problem(DATA, "logistic", 0.3), Serial(), stop)
    assert solution.stopped == "cancelled"
    assert tuple(seen) == solution.trace
    assert [row.number for row in seen] == numbers
    assert seen[-1].certificate == solution.certificate


@pytest.mark.parametrize("held", [0, 10**6])
def test_penalties_of_a_path_share_their_passes_and_end_where_each_would_alone(held: int) -> None:
    gammas = [0.5, 4.0, 1.0, 8.0, 2.0]
    read = 0

    class Counting(Serial):
        def fold(self, job: Job, parts: Sequence[Part], given: Arrays) -> Arrays:
            nonlocal read
            read += 1
            return super().fold(job, parts, given)

    def keep(gamma: float, row: TraceRow) -> bool:
        seen.append((gamma, row.number))
        return True

    seen: list[tuple[float, int]] = []
    path = solve_path(Problem(DATA, "logistic", 1.0), gammas, Rmmp(tolerance=1e-11, held_bytes_max=held), Counting(), keep)
    assert [gamma for gamma, _ in path] == sorted(gammas, reverse=True)
    for gamma, solution in path:
        one = solve(gamma, tolerance=1e-11, held_bytes_max=held)
        assert solution.certificate.objective == pytest.approx(one.certificate.objective, rel=1e-10)
        np.testing.assert_allclose(dense(solution.weights, D), dense(one.weights, D), rtol=0, atol=1e-5)
        assert [number for seen_gamma, number in seen if seen_gamma == gamma] == [row.number for row in solution.trace]
    assert held or read < sum(solution.spent.passes for _, solution in path)  # with columns the first pass often suffices


def test_a_path_that_is_stopped_returns_what_it_has() -> None:
    path = solve_path(Problem(DATA, "logistic", 1.0), [2.0, 1.0, 0.5], Rmmp(), Serial(), lambda gamma, _row: gamma > 1.0)
    assert [(gamma, solution.stopped) for gamma, solution in path] == [(2.0, "tolerance"), (1.0, "cancelled")]


def test_a_path_refuses_too_many_penalties_and_too_little_memory() -> None:
    problem = Problem(DATA, "logistic", 1.0)
    for wrong in ([], [-1.0], [float(gamma) for gamma in range(1, 10)]):
        with pytest.raises(BadInput, match="gammas"):
            solve_path(problem, wrong, Rmmp(), Serial(), lambda _gamma, _row: True)
    need = 2 * memory_bytes(problem, 20, 1)
    with refused(TooLarge, "memory_bound", match=f"2 penalties with a working set of k = 20 need {need} bytes"):
        solve_path(problem, [1.0, 2.0], Rmmp(20, memory_bytes_max=need - 1), Serial(), lambda _gamma, _row: True)
    assert len(solve_path(problem, [1.0, 2.0], Rmmp(20, memory_bytes_max=need), Serial(), lambda _gamma, _row: True)) == 2


@pytest.mark.parametrize(("label", "named"), [(0.0, "-1"), (1.0, "1")])
def test_rows_of_one_label_are_refused(label: float, named: str) -> None:
    with refused(Conflict, "one_class", match=f"label {named};"):
        solve(1.0, data=data_of(X, np.full(N, label)))


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_separable_rows_without_a_penalty_are_refused_with_the_direction(link: LinkName) -> None:
    y = (X[:, 4] + 0.1 > 0.0).astype(np.float64)
    gamma = by_rank(np.where(np.arange(D) == 4, 0.0, 1.0))
    with refused(Conflict, "no_optimum", match="slots 4 "):
        solve(gamma, link, data_of(X, y))
    assert solve(1.0, link, data_of(X, y)).stopped == "tolerance"


def test_a_feature_of_one_label_only_is_refused_without_a_penalty() -> None:
    only = np.zeros(N)
    only[np.flatnonzero(Y > 0.0)[:20]] = 1.0
    x = np.column_stack([X[:, :5], only])
    data = data_of(x, Y)
    with refused(Conflict, "no_optimum", match="slots 5 "):
        solve(np.zeros(6), data=data)
    assert solve(0.1, data=data).stopped == "tolerance"
    assert solve(np.zeros(5), data=data_of(X[:, :5], Y)).stopped == "tolerance"


def test_a_bound_of_memory_is_stated_before_the_start() -> None:
    problem = Problem(DATA, "logistic", 1.0)
    need = memory_bytes(problem, 50, 1)
    assert Rmmp(50, memory_bytes_max=need).solve(problem, Serial()).spent.memory_bytes == need
    with refused(TooLarge, "memory_bound", match=f"k = 50 needs {need} bytes .* k = 49 fits"):
        Rmmp(50, memory_bytes_max=need - 1).solve(problem, Serial())
    with pytest.raises(TooLarge, match="even k = 1 needs"):
        Rmmp(50, memory_bytes_max=10).solve(problem, Serial())


def test_mp_refuses_more_features_than_it_can_hold_and_names_rmmp() -> None:
    n = FEATURES_MAX + 1
    label = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    wide = in_memory(np.arange(n + 1), np.arange(n, dtype=np.uint32), np.ones(n), label, np.ones(n))
    with refused(TooLarge, "too_many_features", match="use rmmp"):
        Mp().solve(Problem(wide, "logistic", 1.0), Serial())
    assert Rmmp().solve(Problem(wide, "logistic", 1.0), Serial()).stopped == "tolerance"


@pytest.mark.parametrize(("gamma", "own"), [(-1.0, 0.0), (float("nan"), 0.0), (np.ones(3), 0.0), (1.0, -1.0)])
def test_what_is_no_penalty_is_refused(gamma: float | F64, own: float) -> None:
    with pytest.raises(BadInput, match="gamma"):
        Problem(DATA, "logistic", gamma, own)


def test_no_rows_are_refused() -> None:
    none = np.empty(0)
    with refused(BadInput, "no_events"):
        Problem(in_memory(np.zeros(1, np.int64), np.empty(0, np.uint32), none, none, none), "logistic", 1.0)


def test_the_solver_is_chosen_by_shape_with_a_reason() -> None:
    small = auto(Problem(DATA, "logistic", 1.0), Serial())
    assert (small.name, small.reason) == ("mp", "mp: a working set of all 60 features is affordable")
    assert small.solver.solve(Problem(DATA, "logistic", 1.0), Serial()).stopped == "tolerance"
    n = 400
    wide = in_memory(np.arange(n + 1), np.arange(n, dtype=np.uint32), np.ones(n), 2.0 * Y - 1.0, np.ones(n))
    problem = Problem(wide, "logistic", 1.0)
    assert auto(problem, Serial()).reason == (
        "rmmp: 400 features; the columns of a working set are held if they fit, otherwise the curvature of up to 400"
    )
    bound = memory_bytes(problem, 100, 1)
    chosen = auto(problem, Serial(), memory_bytes_max=bound)
    assert chosen.name == "rmmp"
    assert chosen.solver.solve(problem, Serial()).spent.memory_bytes <= bound
