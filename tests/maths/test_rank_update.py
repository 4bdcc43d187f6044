from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.jit.simd.fma import TILE_COLUMNS, TILE_ROWS
from riata.maths import rank_update as fast
from riata.maths.block_arrays import new_block
from riata.maths.rank_update import Rows
from tests.twins import rank_update as slow


def some_rows(size: int, n: int, density: float, seed: int) -> Rows:
    """Unsorted rows, some without features, and every third one with all features in order."""
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(size)[: rng.binomial(size, density)] for _ in range(n)]
    chosen[::3] = [np.arange(size) for _ in chosen[::3]]
    start = np.concatenate([[0], np.cumsum([len(row) for row in chosen])])
    at = np.concatenate(chosen).astype(np.uint32)
    return Rows(start.astype(np.int64), at, rng.standard_normal(len(at)) * 10.0 ** rng.integers(-3, 4, len(at)), rng.random(n))


def panels(size: int) -> tuple[F64, F64]:
    """Memory for 128 rows, not empty."""
    block = new_block(size)
    for panel in (block.panel_x, block.panel_hx):
        panel[:] = np.nan
    return block.panel_x, block.panel_hx


def start_with(size: int, cap: int, seed: int) -> F64:
    """A symmetric matrix with zeros on its diagonal and beyond `size`."""
    cross = new_block(cap).cross
    upper = np.triu(np.random.default_rng(seed).standard_normal((size, size)), 1)
    cross[:size, :size] = upper + upper.T
    return cross


@settings(max_examples=40)
@given(size=st.integers(1, 30), spare=st.integers(0, 9), n=st.integers(1, 5), density=st.floats(0, 1), seed=st.integers(0, 999))
def test_both_paths_and_their_twin_give_the_same_bits(size: int, spare: int, n: int, density: float, seed: int) -> None:
    rows, before = some_rows(size, n, density, seed), start_with(size, size + spare, seed)
    expected, dense, sparse, both = (before.copy() for _ in range(4))
    slow.rank_update(expected, size, rows, n, mirrored=True)
    panel_x, panel_hx = panels(size + spare)
    fast.pack(rows, n, size, panel_x, panel_hx)
    fast.dense_update(dense, size, n, panel_x, panel_hx)
    fast.sparse_update(sparse, size, rows, n, False)
    fast.sparse_update(both, size, rows, n, True)
    assert np.array_equal(both, expected)
    for cross in (dense, sparse):
        assert np.array_equal(np.triu(cross), np.triu(expected))
        assert np.array_equal(np.tril(cross), np.tril(before))
        fast.mirror(cross, size)
        assert np.array_equal(cross, expected)


@pytest.mark.parametrize("size", [TILE_ROWS, TILE_COLUMNS - 1, TILE_COLUMNS, TILE_COLUMNS + 1, 2 * TILE_COLUMNS, 67])
def test_panels_hold_what_their_twin_says_at_every_edge_of_a_tile(size: int) -> None:
    rows, n = some_rows(size, 7, 0.6, size), 7
    candidate, reference = panels(size), panels(size)
    fast.pack(rows, n, size, *candidate)
    slow.pack(rows, n, size, *reference)
    for one, other in zip(candidate, reference, strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    dense, expected = start_with(size, size, 0), start_with(size, size, 0)
    fast.dense_update(dense, size, n, *candidate)
    slow.dense_update(expected, size, n, *reference)
    assert np.array_equal(dense, expected)


@pytest.mark.parametrize(("density", "mirrored_after"), [(1.0, False), (0.05, True)])
def test_each_path_adds_up_a_matrix_of_many_blocks(density: float, mirrored_after: bool) -> None:
    size, n = fast.LINES_AT_ONCE + 90, 40
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, size)) * (rng.random((n, size)) < density)
    row, at = np.nonzero(x)
    start = np.searchsorted(row, np.arange(n + 1))
    rows = Rows(start.astype(np.int64), at.astype(np.uint32), x[row, at], rng.random(n))
    cross = new_block(size).cross
    assert fast.rank_update(cross, size, rows, n, panels(size), True) is mirrored_after
    expected = np.triu((x * rows.h[:, None]).T @ x, 1)
    np.testing.assert_allclose(np.triu(cross[:size, :size]), expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    if mirrored_after:
        assert np.array_equal(cross[:size, :size], cross[:size, :size].T)
