from __future__ import annotations

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.jit.simd import fma as fused
from riata.maths.block import zeros
from tests.twins.rank_update import exact_fma

NUMBER = st.floats(-1e6, 1e6)


@numba.njit  # type: ignore[untyped-decorator]
def one(a: float, b: float, c: float) -> float:
    return fused.fma(a, b, c)


@numba.njit  # type: ignore[untyped-decorator]
def tile(h: F64, hx: F64, x: F64, n: int) -> None:
    fused.add_tile(h[3:, 5:], hx[2:], x[7:], n)


@given(NUMBER, NUMBER, NUMBER)
def test_a_fused_multiply_add_rounds_once(a: float, b: float, c: float) -> None:
    assert one(a, b, c) == exact_fma(a, b, c)
    assert fused._plain_fma(a, b, c) == exact_fma(a, b, c)


def test_a_tile_has_the_bits_of_its_plain_form_and_nothing_around_it_changes() -> None:
    rng = np.random.default_rng(3)
    n = 9
    h = zeros(fused.TILE_ROWS + 5, fused.TILE_COLUMNS + 9)
    h[:] = rng.standard_normal(h.shape)
    hx, x = rng.standard_normal(n * fused.TILE_ROWS + 2), rng.standard_normal(n * fused.TILE_COLUMNS + 7)
    for rows in (0, 1, n):
        fast, plain = h.copy(), h.copy()
        tile(fast, hx, x, rows)
        fused._plain_tile(plain[3:, 5:], hx[2:], x[7:], rows)
        assert np.array_equal(fast, plain)
    assert np.count_nonzero(fast != h) == fused.TILE_ROWS * fused.TILE_COLUMNS
