"""Kernels on the columns of a working set, and what coordinate ascent on them finds, against their twins."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.batch import column_ascent, columns, data
from riata.batch.column_ascent import Quadratic, penalty_of
from riata.batch.columns import Columns, columns_of
from riata.maths.links import LOGISTIC, PROBIT
from tests.batch.designs import data_of, sparse_design
from tests.twins import batch_columns as slow

LINK = st.sampled_from([LOGISTIC, PROBIT])
DENSITY = st.sampled_from([0.05, 0.3, 10.0])  # the last: columns that have all rows


def drawn(seed: int, d: int, density: float, n: int = 80) -> Columns:
    """Columns of rows with weights."""
    x, y = sparse_design(n, d, seed, density)
    made = data_of(x, y, np.random.default_rng(seed).uniform(0.2, 2.0, n))
    return columns_of(made)


def both(kernel: str, of: ModuleType, made: Callable[[], tuple[Any, ...]]) -> tuple[Any, tuple[Any, ...], Any, tuple[Any, ...]]:
    """What a kernel and its twin return, and their arguments after it."""
    one, other = made(), made()
    return getattr(of, kernel)(*one), one, getattr(slow, kernel)(*other), other


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
    found, _, wanted, _ = both("keep_features", data, lambda: (rows, chosen, position))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    start = np.concatenate([[0], np.cumsum(np.bincount(rows.rank, minlength=d))])
    nnz = len(rows.rank)
    _, one, _, other = both(
        "fill_columns", columns, lambda: (rows, 7, start[:-1].copy(), np.zeros(nnz, np.uint32), np.zeros(nnz))
    )
    for a, b in zip(one[2:], other[2:], strict=True):
        np.testing.assert_array_equal(a, b)


@settings(max_examples=25)
@given(seed=st.integers(0, 9999), d=st.integers(1, 30), density=DENSITY, link=LINK)
def test_a_step_has_the_numbers_of_its_twin(seed: int, d: int, density: float, link: int) -> None:
    of, rng = drawn(seed, d, density), np.random.default_rng(seed)
    n, size = len(of.label), len(of.start)
    margin, gamma = 2.0 * rng.standard_normal(n), rng.uniform(0.1, 3.0, size)
    gamma[0] = rng.choice([0.0, 1.0])
    beta = np.where(rng.random(size) < 0.5, rng.standard_normal(size), 0.0)
    found, one, wanted, other = both("weigh", column_ascent, lambda: (of, link, margin, np.empty(n), np.empty(n)))
    assert found == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(one[3], other[3], rtol=1e-10)
    np.testing.assert_allclose(one[4], other[4], rtol=1e-8)
    r, h = other[3], other[4]
    found, one, wanted, other = both("slope", column_ascent, lambda: (of, r, beta, gamma, np.empty(size)))
    np.testing.assert_allclose(one[4], other[4], rtol=1e-11, atol=1e-11)
    assert found[0].tolist() == wanted[0].tolist()
    assert found[1] == pytest.approx(wanted[1], rel=1e-11)
    at, gradient = wanted[0], other[4]

    def quadratic() -> Quadratic:
        return Quadratic(gradient, np.zeros(size), np.zeros(size), gamma, np.zeros(len(of.value)))

    _, one, _, other = both("scale", column_ascent, lambda: (of, h, at, quadratic()))
    for a, b in zip(one[3], other[3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
    model = other[3]
    if np.any(model.curvature[at] < 1e-6):
        return  # the optimum of a flat weight is beyond comparison
    _, one, _, other = both("ascend", column_ascent, lambda: (of, model, at.copy(), 1e-12, beta.copy(), np.zeros(n)))
    x, found_beta, wanted_beta = slow.matrix(of), one[4], other[4]
    hessian = (x.T * h) @ x
    moving = np.concatenate([[0], at])
    if np.linalg.cond(hessian[np.ix_(moving, moving)]) > 1e4:
        return  # 100 sweeps may not be enough
    np.testing.assert_allclose(one[5], x @ (found_beta - beta), rtol=0, atol=1e-9)
    left = gradient - hessian @ (found_beta - beta)
    assert np.abs(left - gamma * np.sign(found_beta))[found_beta != 0.0].max(initial=0.0) <= 1e-6
    if np.array_equal(found_beta != 0.0, wanted_beta != 0.0):  # a weight that has reached 0 rests until the next step
        np.testing.assert_allclose(found_beta, wanted_beta, rtol=0, atol=1e-6)


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
    steps, reads = column_ascent.solve_columns(of, link, gamma, 1e-10, found)
    slow.solve_columns(of, link, gamma, 1e-10, wanted)
    assert steps < column_ascent.STEPS_MAX
    assert reads >= steps * len(of.value)

    def objective(beta: F64) -> float:
        r, h = np.empty(len(of.label)), np.empty(len(of.label))
        return slow.weigh(of, link, slow.matrix(of) @ beta, r, h) - penalty_of(gamma, beta)

    assert objective(found) == pytest.approx(objective(wanted), rel=1e-11)
    gradient = np.empty(size)
    r, h = np.empty(len(of.label)), np.empty(len(of.label))
    slow.weigh(of, link, slow.matrix(of) @ found, r, h)
    assert slow.slope(of, r, found, gamma, gradient)[1] <= 1e-8


def test_margins_that_overflow_have_no_likelihood() -> None:
    of = drawn(1, 3, 0.5, n=5)
    for one in (column_ascent, slow):
        assert one.weigh(of, LOGISTIC, np.array([0.0, np.inf, 0.0, 0.0, 0.0]), np.empty(5), np.empty(5)) == -np.inf
