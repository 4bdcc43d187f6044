from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.learn.taylor_state import stride_for, zeros
from riata.native.library import core, struct
from tests.twins import rank_update as slow
from tests.twins.rank_update import Rows

LINES_AT_ONCE = 512  # of rank_update.c


def some_rows(size: int, n: int, density: float, seed: int) -> Rows:
    """Unsorted rows, some without features, and every third one with all features in order."""
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(size)[: rng.binomial(size, density)] for _ in range(n)]
    if density > 0.5:
        chosen[::3] = [np.arange(size) for _ in chosen[::3]]
    start = np.concatenate([[0], np.cumsum([len(row) for row in chosen])])
    at = np.concatenate([*chosen, []]).astype(np.uint32)
    return Rows(start.astype(np.int64), at, rng.standard_normal(len(at)) * 10.0 ** rng.integers(-3, 4, len(at)), rng.random(n))


def start_with(size: int, cap: int, seed: int) -> F64:
    """A symmetric matrix with zeros on its diagonal and beyond `size`."""
    cross = zeros(cap, stride_for(cap))
    upper = np.triu(np.random.default_rng(seed).standard_normal((size, size)), 1)
    cross[:size, :size] = upper + upper.T
    return cross


def update(cross: F64, size: int, rows: Rows, mirrored: bool) -> bool:
    """Add rows by the native core, with work space that is not empty."""
    n = len(rows.h)
    matrix = struct("riata_matrix", cross=cross, stride=cross.shape[1], size=size)
    terms = struct("riata_terms", start=rows.start, at=rows.at, x=rows.x, h=rows.h, n=n)
    kept: bool = core.rank_update(matrix, terms, np.full(core.rank_update_room(size, n), np.nan), mirrored)
    return kept


@pytest.mark.parametrize("density", [0.0, 0.03, 0.2, 0.6, 1.0])
@settings(max_examples=30)
@given(
    size=st.sampled_from([1, 2, 3, 7, 8, 9, 23, 24, 25, 47, 63, 64, 65]),
    spare=st.integers(0, 9),
    n=st.sampled_from([0, 1, 5, 7, 8, 9]),
    mirrored=st.booleans(),
    seed=st.integers(0, 999),
)
def test_both_paths_and_their_twin_give_the_same_bits(
    density: float, size: int, spare: int, n: int, mirrored: bool, seed: int
) -> None:
    rows, before = some_rows(size, n, density, seed), start_with(size, size + spare, seed)
    expected, found = before.copy(), before.copy()
    slow.rank_update(expected, size, rows, n, mirrored=True)
    kept = update(found, size, rows, mirrored)
    assert mirrored or not kept
    assert np.array_equal(np.triu(found), np.triu(expected))
    assert np.array_equal(np.tril(found), np.tril(expected if kept else before))


@pytest.mark.parametrize(("density", "mirrored_after"), [(1.0, False), (0.05, True)])
def test_each_path_adds_up_a_matrix_of_many_blocks(density: float, mirrored_after: bool) -> None:
    size, n = LINES_AT_ONCE + 90, 40
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, size)) * (rng.random((n, size)) < density)
    row, at = np.nonzero(x)
    start = np.searchsorted(row, np.arange(n + 1))
    rows = Rows(start.astype(np.int64), at.astype(np.uint32), x[row, at], rng.random(n))
    cross = zeros(size, stride_for(size))
    assert update(cross, size, rows, True) is mirrored_after
    expected = np.triu((x * rows.h[:, None]).T @ x, 1)
    np.testing.assert_allclose(np.triu(cross[:size, :size]), expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    if mirrored_after:
        assert np.array_equal(cross[:size, :size], cross[:size, :size].T)
