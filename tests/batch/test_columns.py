"""Kernels on the columns of a working set, and what coordinate ascent on them finds, against their twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.lab.batch.data import keep_features, native_rows
from riata.lab.batch.passes import Columns, columns_of
from riata.lab.batch.rmmp import solve_columns
from riata.maths.links import LOGISTIC, PROBIT
from riata.native.library import core
from tests.batch.designs import data_of, sparse_design
from tests.twins import batch_columns as slow

LINK = st.sampled_from([LOGISTIC, PROBIT])
DENSITY = st.sampled_from([0.05, 0.3, 10.0])  # the last: columns that have all rows


def drawn(seed: int, d: int, density: float, n: int = 80) -> Columns:
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
    found, wanted = keep_features(rows, chosen, position), slow.keep_features(rows, chosen, position)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    start = np.concatenate([[0], np.cumsum(np.bincount(rows.rank, minlength=d))])
    nnz = len(rows.rank)
    one, other = ((start[:-1].copy(), np.zeros(nnz, np.uint32), np.zeros(nnz)) for _ in range(2))
    core.fill_columns(native_rows(rows), 7, *one)
    slow.fill_columns(rows, 7, *other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 9999), d=st.integers(1, 25), density=DENSITY, link=LINK, own=st.sampled_from([0.0, 1.0, float("inf")]),
    far=st.booleans(),
)  # fmt: skip
def test_the_optimum_on_columns_is_that_of_the_twin(seed: int, d: int, density: float, link: int, own: float, far: bool) -> None:
    of, rng = drawn(seed, d, density), np.random.default_rng(seed)
    size = len(of.start)
    gamma = np.append(own, rng.uniform(0.5, 3.0, size - 1))
    start = 5.0 * rng.standard_normal(size) if far else np.zeros(size)
    start[np.isinf(gamma)] = 0.0
    found, wanted = start.copy(), np.zeros(size)
    steps, reads = solve_columns(of, link, gamma, 1e-10, found)
    slow.solve_columns(of, link, gamma, 1e-10, wanted)
    assert steps < 100
    assert reads >= steps * len(of.value)

    def objective(beta: F64) -> float:
        r, h = np.empty(len(of.label)), np.empty(len(of.label))
        return slow.weigh(of, link, slow.matrix(of) @ beta, r, h) - float(gamma[beta != 0.0] @ np.abs(beta[beta != 0.0]))

    assert objective(found) == pytest.approx(objective(wanted), rel=1e-11)
    gradient = np.empty(size)
    r, h = np.empty(len(of.label)), np.empty(len(of.label))
    slow.weigh(of, link, slow.matrix(of) @ found, r, h)
    assert slow.slope(of, r, found, gamma, gradient)[1] <= 1e-8


def test_nothing_moves_from_weights_whose_margins_overflow() -> None:
    of = drawn(1, 3, 0.5, n=5)
    beta = np.append(0.0, np.full(len(of.start) - 1, 1e308))
    assert solve_columns(of, LOGISTIC, np.zeros(len(beta)), 1e-6, beta) == (0, 0)
    assert beta[1:].tolist() == [1e308] * (len(beta) - 1)
