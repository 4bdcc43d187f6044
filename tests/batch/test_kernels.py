from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.lab.batch import passes as fast
from riata.lab.batch.data import PART_ROWS, Rows, in_memory, keep_features, native_rows, sort_rows
from riata.lab.batch.passes import SUMS, Columns, Weighted, columns_of
from riata.lab.batch.rmmp import solve_columns
from riata.maths.links import LOGISTIC, PROBIT
from riata.native.library import core
from tests.batch.designs import data_of, sparse_design
from tests.twins import batch as slow
from tests.twins import batch_columns as slow_columns


def drawn(seed: int, d: int, density: float, n: int = 60) -> tuple[Rows, Weighted]:
    """Rows with weights, and weights of the model with a working set."""
    rng = np.random.default_rng(seed)
    x, y = sparse_design(n, d, seed, density)
    rows = data_of(x, y, rng.uniform(0.1, 3.0, n)).parts[0].load()
    used = int(rows.rank.max(initial=0)) + 1
    members = np.sort(rng.permutation(used)[: rng.integers(0, used + 1)])
    position = np.full(used, -1, np.int32)
    position[members] = np.arange(1, len(members) + 1)
    return rows, Weighted(rng.standard_normal(used), 0.3, position)


def sums_of(rows: Rows, link: int, at: Weighted, expand: Callable[..., None]) -> list[F64]:
    size, d = int(at.position.max(initial=0)) + 1, len(at.beta)
    made = [np.zeros((2, SUMS)), np.zeros((2, d, 2)), np.zeros((max(size, 1), max(size, 1)))]
    expand(rows, link, at, *made)
    return made


@settings(max_examples=25)
@given(
    seed=st.integers(0, 9999),
    d=st.integers(1, 90),
    density=st.sampled_from([0.02, 0.1, 1.0]),
    link=st.sampled_from([LOGISTIC, PROBIT]),
)
def test_a_pass_has_the_sums_of_its_twin(seed: int, d: int, density: float, link: int) -> None:
    rows, at = drawn(seed, d, density)
    for found, wanted in zip(sums_of(rows, link, at, fast.expand), sums_of(rows, link, at, slow.expand), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_the_terms_of_a_row_are_exact_at_every_margin() -> None:
    for margin in [0.0, *np.geomspace(1e-300, 300.0, 40), *np.linspace(0.1, 40.0, 40)]:
        for m in (margin, -margin):
            rows = Rows(np.array([0, 1]), np.zeros(1, np.uint32), np.ones(1), np.ones(1), np.ones(1))
            at = Weighted(np.array([m]), 0.0, np.full(1, -1, np.int32))
            for found, wanted in zip(
                sums_of(rows, LOGISTIC, at, fast.expand), sums_of(rows, LOGISTIC, at, slow.expand), strict=True
            ):
                np.testing.assert_allclose(found, wanted, rtol=3e-15)


def test_rows_are_added_in_several_blocks_if_they_are_many_or_long() -> None:
    for rows, at in (drawn(1, 40, 0.1, n=9000), drawn(2, 300, 1.0, n=2000)):
        for found, wanted in zip(sums_of(rows, LOGISTIC, at, fast.expand), sums_of(rows, LOGISTIC, at, slow.expand), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("density", [0.05, 1.0])
@pytest.mark.parametrize("size", [2, 23, 24, 25, 70, 1100])
def test_a_block_adds_its_pairs_by_each_path(size: int, density: float) -> None:
    rng = np.random.default_rng(size)
    n = 60 if size > 1000 else 600
    held = rng.random((n, size)) < density
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(held.sum(axis=1))])
    member, x, h = np.nonzero(held)[1].astype(np.uint32), rng.standard_normal(int(held.sum())), rng.random(n)
    found, wanted = np.zeros((size, size)), np.zeros((size, size))
    fast.add_block(found, (start, member, x, h))
    slow.add_block(wanted, start, member, x, h, n)
    np.testing.assert_allclose(np.triu(found, 1), wanted, rtol=1e-10, atol=1e-10)


def test_the_likelihood_between_two_weights_is_that_of_the_twin() -> None:
    rows, at = drawn(5, 30, 0.2)
    toward = Weighted(-2.0 * at.beta, 1.0, at.position)
    for link in (LOGISTIC, PROBIT):
        found, wanted = np.ones(3), np.ones(3)
        for one, out in ((fast.likelihoods, found), (slow.likelihoods, wanted)):
            one(rows, link, at, toward, np.array([0.0, 0.5, 1.0]), out)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    far = Weighted(np.full(len(at.beta), 1e308), np.inf, at.position)
    fast.likelihoods(rows, LOGISTIC, at, far, np.array([1.0]), found[:1])
    assert found[0] == -np.inf


def test_sides_are_counted_like_the_twin_counts_them() -> None:
    rows, at = drawn(6, 20, 0.2)
    for slack in (0.0, 0.5, 100.0):
        assert fast.sides(rows, at.beta, 0.1, slack) == slow.sides(rows, at.beta, 0.1, slack)


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(-4, 4)), max_size=12), max_size=6))
def test_rows_are_sorted_and_what_repeats_is_summed(pairs: list[list[tuple[int, int]]]) -> None:
    indptr = np.cumsum([0, *(len(row) for row in pairs)]).astype(np.int64)
    rank = np.array([r for row in pairs for r, _ in row], np.uint32)
    value = np.array([v for row in pairs for _, v in row], np.float64)
    other = rank.copy(), value.copy()
    left = sort_rows(indptr, rank, value)
    assert left.tolist() == slow.sort_rows(indptr, *other).tolist()
    for first, count in zip(indptr[:-1], left, strict=True):
        assert rank[first : first + count].tolist() == other[0][first : first + count].tolist()
        assert value[first : first + count].tolist() == other[1][first : first + count].tolist()


def test_data_have_ranks_by_frequency_and_the_sum_of_slots_that_repeat() -> None:
    indptr, slot = np.array([0, 3, 3, 5]), np.array([8, 5, 8, 8, 2], np.uint32)
    data = in_memory(indptr, slot, np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([1.0, -1.0, 1.0]), np.ones(3), bits=4)
    rows = data.parts[0].load()
    assert data.slots.tolist() == [8, 2, 5]
    assert (data.rows, data.nnz, data.features, data.bits) == (3, 4, 3, 4)
    assert rows.indptr.tolist() == [0, 2, 2, 4]
    assert rows.rank.tolist() == [0, 2, 0, 1]
    assert rows.value.tolist() == [5.0, 2.0, 8.0, 16.0]


def test_parts_are_cut_by_rows() -> None:
    n = PART_ROWS + 3
    data = in_memory(np.arange(n + 1), np.zeros(n, np.uint32), np.arange(n, dtype=np.float64), np.ones(n), np.ones(n))
    first, last = (part.load() for part in data.parts)
    assert (len(first.label), len(last.label)) == (PART_ROWS, 3)
    assert last.indptr.tolist() == [0, 1, 2, 3]
    assert last.value.tolist() == [PART_ROWS, PART_ROWS + 1, PART_ROWS + 2]


# Kernels on the columns of a working set, and what coordinate ascent on them finds, against their twins.


READS_MAX = 150  # times that a value of columns that add up to one is read; without H up to 2,400
LINK = st.sampled_from([LOGISTIC, PROBIT])
DENSITY = st.sampled_from([0.05, 0.3, 10.0])  # the last: columns that have all rows


def drawn_columns(seed: int, d: int, density: float, n: int = 80) -> Columns:
    """Columns of rows with weights."""
    x, y = sparse_design(n, d, seed, density)
    made = data_of(x, y, np.random.default_rng(seed).uniform(0.2, 2.0, n))
    return columns_of(made)


@settings(max_examples=15)
@given(seed=st.integers(0, 9999), d=st.integers(1, 30), density=DENSITY)
def test_features_are_kept_and_put_into_columns_like_the_twin_does(seed: int, d: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = sparse_design(50, d, seed, density)
    rows = data_of(x, y).parts[0].load()
    d = int(rows.rank.max(initial=0)) + 1
    position = np.full(d, -1, np.int32)
    kept = np.flatnonzero(rng.random(d) < 0.6)
    position[kept] = np.arange(len(kept))
    chosen = np.flatnonzero(rng.random(50) < 0.7)
    found, wanted = keep_features(rows, chosen, position), slow_columns.keep_features(rows, chosen, position)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    start = np.concatenate([[0], np.cumsum(np.bincount(rows.rank, minlength=d))])
    nnz = len(rows.rank)
    one, other = ((start[:-1].copy(), np.zeros(nnz, np.uint32), np.zeros(nnz)) for _ in range(2))
    counts = np.zeros(d, np.int64)
    core.count_features(native_rows(rows), counts)
    assert counts.tolist() == np.bincount(rows.rank, minlength=d).tolist()
    core.fill_columns(native_rows(rows), 7, d, *one, np.empty(core.fill_columns_room(d)))
    slow_columns.fill_columns(rows, 7, *other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("n", "d", "density"), [(9000, 3, 0.9), (300, 400, 0.1), (40, 9000, 0.02)])
def test_many_rows_are_put_into_columns_in_their_order(n: int, d: int, density: float) -> None:
    rng = np.random.default_rng(n)
    held = rng.random((n, d)) < density
    x = rng.standard_normal((n, d))
    x[~held] = 0.0
    data = data_of(x, (np.arange(n) % 2).astype(np.float64))
    made = columns_of(data)
    for p, j in enumerate(data.slots):
        inside = slice(made.start[p], made.start[p + 1])
        np.testing.assert_array_equal(made.row[inside], np.flatnonzero(held[:, j]))
        np.testing.assert_array_equal(made.value[inside], x[held[:, j], j])


@settings(max_examples=15)
@given(
    seed=st.integers(0, 9999), d=st.integers(1, 25), density=DENSITY, link=LINK, own=st.sampled_from([0.0, 1.0, float("inf")]),
    far=st.booleans(),
)  # fmt: skip
def test_the_optimum_on_columns_is_that_of_the_twin(seed: int, d: int, density: float, link: int, own: float, far: bool) -> None:
    of, rng = drawn_columns(seed, d, density), np.random.default_rng(seed)
    size = len(of.start)
    gamma = np.append(own, rng.uniform(0.5, 3.0, size - 1))
    start = 5.0 * rng.standard_normal(size) if far else np.zeros(size)
    start[np.isinf(gamma)] = 0.0
    found, wanted = start.copy(), np.zeros(size)
    steps, reads = solve_columns(of, link, gamma, (1e-10, 0.0), found)
    slow_columns.solve_columns(of, link, gamma, 1e-10, wanted)
    assert steps < 100
    assert reads >= steps * len(of.value)

    def objective(beta: F64) -> float:
        r, h = np.empty(len(of.label)), np.empty(len(of.label))
        return slow_columns.weigh(of, link, slow_columns.matrix(of) @ beta, r, h) - float(
            gamma[beta != 0.0] @ np.abs(beta[beta != 0.0])
        )

    assert objective(found) == pytest.approx(objective(wanted), rel=1e-11)
    gradient = np.empty(size)
    r, h = np.empty(len(of.label)), np.empty(len(of.label))
    slow_columns.weigh(of, link, slow_columns.matrix(of) @ found, r, h)
    assert slow_columns.slope(of, r, found, gamma, gradient)[1] <= 1e-8


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
@pytest.mark.parametrize("own", [0.0, 0.5, float("inf")])
def test_columns_that_add_up_to_one_take_few_reads(link: int, own: float) -> None:
    rng = np.random.default_rng(3)
    fields, values, n = 8, 5, 2000
    chosen = rng.integers(0, values, (n, fields)) * (rng.random((n, fields)) < 0.8) + values * np.arange(fields)
    x = np.zeros((n, fields * values))
    np.put_along_axis(x, chosen, 1.0, axis=1)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(x @ rng.standard_normal(fields * values))))).astype(np.float64)
    of = columns_of(data_of(x, y, rng.uniform(0.2, 2.0, n)))
    gamma, beta = np.append(own, np.full(fields * values, 0.5)), np.zeros(1 + fields * values)
    _, reads = solve_columns(of, link, gamma, (1e-9, 0.0), beta)
    assert reads <= READS_MAX * len(of.value)
    r, h = np.empty(n), np.empty(n)
    slow_columns.weigh(of, link, slow_columns.matrix(of) @ beta, r, h)
    assert slow_columns.slope(of, r, beta, gamma, np.empty(len(beta)))[1] <= 1e-8


def test_a_penalised_intercept_takes_few_more_reads_than_a_free_one() -> None:
    rng = np.random.default_rng(0)
    n, d = 6000, 300
    x = np.where(rng.random((n, d)) < 0.06 * rng.random(d), rng.exponential(1.0, (n, d)), 0.0)
    margin = x @ np.where(rng.random(d) < 0.3, 3.0 * rng.standard_normal(d), 0.0) - 0.5
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)
    of = columns_of(data_of(x, y, np.ones(n)))
    free, penalised = (
        solve_columns(of, LOGISTIC, np.append(own, np.full(d, 2.0)), (1e-6, 0.0), np.zeros(d + 1))[1] for own in (0.0, 2.0)
    )
    assert len(of.start) == d + 1
    assert penalised <= 1.3 * free


@settings(max_examples=15)
@given(seed=st.integers(0, 9999), d=st.integers(2, 25), density=DENSITY, link=LINK, share=st.sampled_from([1e-2, 1e-4]))
def test_it_ends_where_the_gap_that_was_asked_for_is_reached(seed: int, d: int, density: float, link: int, share: float) -> None:
    of = drawn_columns(seed, d, density)
    gamma = np.append(np.inf, np.full(len(of.start) - 1, 1.0))
    near, best = np.zeros(len(gamma)), np.zeros(len(gamma))
    r, h = np.empty(len(of.label)), np.empty(len(of.label))

    def objective(beta: F64) -> float:
        return slow_columns.weigh(of, link, slow_columns.matrix(of) @ beta, r, h) - float(np.abs(beta).sum())

    loose, _ = solve_columns(of, link, gamma, (0.0, share), near)
    tight, _ = solve_columns(of, link, gamma, (1e-10, 0.0), best)
    assert objective(best) - objective(near) <= share * abs(objective(near))
    assert (near != 0.0).any() <= loose <= tight


def test_nothing_moves_from_weights_whose_margins_overflow() -> None:
    of = drawn_columns(1, 3, 0.5, n=5)
    beta = np.append(0.0, np.full(len(of.start) - 1, 1e308))
    assert solve_columns(of, LOGISTIC, np.zeros(len(beta)), (1e-6, 0.0), beta) == (0, 0)
    assert beta[1:].tolist() == [1e308] * (len(beta) - 1)
