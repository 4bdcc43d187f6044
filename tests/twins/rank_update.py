"""Slow, obvious twin of `riata.maths.rank_update`: one pair of features of one row after another, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from riata.base.arrays import F64
from riata.jit.simd.fma import TILE_COLUMNS, TILE_ROWS
from riata.maths.rank_update import GAP, Rows

TWINS_OF = ("maths/rank_update",)

Features = dict[int, float]


def exact_fma(a: float, b: float, c: float) -> float:
    """a b + c, rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def features(rows: Rows, i: int) -> Features:
    """Row i by position."""
    part = slice(int(rows.start[i]), int(rows.start[i + 1]))
    return dict(zip(rows.at[part].tolist(), rows.x[part].tolist(), strict=True))


def rank_update(cross: F64, size: int, rows: Rows, n: int, panels: object = None, mirrored: bool = False) -> bool:
    """Add (h x_j) x_c to H_jc for every pair j < c; below the diagonal too where it is kept."""
    del panels
    for i in range(n):
        row, h = features(rows, i), float(rows.h[i])
        for j in range(size):
            for c in range(j + 1, size):
                if j in row and c in row:
                    cross[j, c] = exact_fma(h * row[j], row[c], float(cross[j, c]))
    if mirrored:
        mirror(cross, size)
    return mirrored


def sparse_update(cross: F64, size: int, rows: Rows, n: int, mirrored: bool) -> None:
    """The same."""
    rank_update(cross, size, rows, n, mirrored=mirrored)


def dense_update(cross: F64, size: int, n: int, panel_x: F64, panel_hx: F64) -> None:
    """The same, from panels."""
    for i in range(n):
        for j in range(size):
            for c in range(j + 1, size):
                hx = panel_hx[j // TILE_ROWS * (n * TILE_ROWS + GAP) + i * TILE_ROWS + j % TILE_ROWS]
                x = panel_x[c // TILE_COLUMNS * (n * TILE_COLUMNS + GAP) + i * TILE_COLUMNS + c % TILE_COLUMNS]
                cross[j, c] = exact_fma(float(hx), float(x), float(cross[j, c]))


def pack(rows: Rows, n: int, size: int, panel_x: F64, panel_hx: F64) -> None:
    """Write each number to its place; the rest of every tile is zero."""
    for panel, width, scale in ((panel_x, TILE_COLUMNS, np.ones(n)), (panel_hx, TILE_ROWS, rows.h)):
        for i in range(n):
            row = features(rows, i)
            for j in range(-(-size // width) * width):
                panel[j // width * (n * width + GAP) + i * width + j % width] = scale[i] * row.get(j, 0.0)


def mirror(cross: F64, size: int) -> None:
    """Copy one triangle to the other."""
    for j in range(size):
        for c in range(j):
            cross[j, c] = cross[c, j]
