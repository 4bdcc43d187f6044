"""Rank-n update of the cross curvature: H_jl += sum_i h_i x_ij x_il for j < l, i in the order of the events.

There are two paths, dense and sparse, which give the same bits: an element gets the same fused multiply-adds in the same order in
both, and a row that lacks a feature adds fma(h 0, x, H) = H.

Dense: H is processed in tiles that stay in registers while all rows are added. Rows of one tile share h x_j, columns share x_l.
So both are first copied into panels in which the numbers of a tile are contiguous:

    panel_x   [columns / TILE_COLUMNS][row i][TILE_COLUMNS]    a column of tiles: stays in the L1 cache
    panel_hx  [lines / TILE_ROWS][row i][TILE_ROWS]            LINES_AT_ONCE lines of them: stay in the L2 cache

Sparse: every pair of features of every row. The rows are transposed twice, which sorts them by position, and then H is
processed line by line.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.fma import TILE_COLUMNS, TILE_ROWS, add_tile, fma

LINES_AT_ONCE: Final = 512
GAP: Final = 8  # numbers between two tiles of a panel: without them all tiles would compete for the same cache sets
_SQUARE: Final = 32
SPARSE_COST: Final = 16  # one addition to a single element takes as long as this many in a tile; measured; affects only the time


class Rows(NamedTuple):
    """Rows by columns of numbers: row i is start[i] : start[i + 1].

    start : i64[n + 1]
    at    : u32[nnz]   positions, distinct within a row
    x     : f64[nnz]
    h     : f64[n]
    """

    start: I64
    at: U32
    x: F64
    h: F64


@kernel
def pack(rows: Rows, n: int, size: int, panel_x: F64, panel_hx: F64) -> None:
    """Copy rows into the panels of the dense path.

    Parameters
    ----------
    rows : Rows        read only
    n : int            how many of them
    size : int         columns in use
    panel_x : f64[>= n * size, rounded up to whole tiles]  overwritten
    panel_hx : f64[likewise]                               overwritten

    Returns            nothing
    Cost               O(n size)
    Source             the layout in the module docstring
    """
    for i in range(n):
        first, end, h = rows.start[i], rows.start[i + 1], rows.h[i]
        if end - first == size and in_order(rows.at, first, end):
            deal(rows.x[first:end], 1.0, panel_x[i * TILE_COLUMNS :], TILE_COLUMNS, n * TILE_COLUMNS + GAP)
            deal(rows.x[first:end], h, panel_hx[i * TILE_ROWS :], TILE_ROWS, n * TILE_ROWS + GAP)
        else:
            blank(panel_x[i * TILE_COLUMNS :], size, TILE_COLUMNS, n * TILE_COLUMNS + GAP)
            blank(panel_hx[i * TILE_ROWS :], size, TILE_ROWS, n * TILE_ROWS + GAP)
            for e in range(first, end):
                j, x = np.int64(rows.at[e]), rows.x[e]
                panel_x[j // TILE_COLUMNS * (n * TILE_COLUMNS + GAP) + i * TILE_COLUMNS + j % TILE_COLUMNS] = x
                panel_hx[j // TILE_ROWS * (n * TILE_ROWS + GAP) + i * TILE_ROWS + j % TILE_ROWS] = h * x


@inline_kernel
def in_order(at: U32, first: int, end: int) -> bool:
    """Whether a row's features are at positions 0, 1, 2 and so on: then it can be copied at once.

    Source    the layout in the module docstring
    """
    right = 0
    for e in range(first, end):
        right += at[e] == e - first
    return right == end - first


@inline_kernel
def deal(x: F64, h: float, panel: F64, width: int, stride: int) -> None:
    """Copy h x, `width` numbers to each tile of a panel; tiles are `stride` numbers apart.

    Source    the layout in the module docstring
    """
    whole = len(x) // width
    for tile in range(whole):
        source, target = x[tile * width : (tile + 1) * width], panel[tile * stride : tile * stride + width]
        for c in range(width):
            target[c] = h * source[c]
    if whole * width < len(x):
        for c in range(width):
            at = whole * width + c
            panel[whole * stride + c] = h * x[at] if at < len(x) else 0.0


@inline_kernel
def blank(panel: F64, size: int, width: int, stride: int) -> None:
    """Write zeros where `deal` would write a row.

    Source    the layout in the module docstring
    """
    for tile in range(-(-size // width)):
        target = panel[tile * stride : tile * stride + width]
        for c in range(width):
            target[c] = 0.0


@kernel
def dense_update(cross: F64, size: int, n: int, panel_x: F64, panel_hx: F64) -> None:
    """Add n packed rows to the elements above the diagonal.

    Parameters
    ----------
    cross : f64[cap, cap]   overwritten above the diagonal, up to `size`
    size : int              lines and columns in use
    n : int                 packed rows
    panel_x, panel_hx       as written by `pack`

    Returns            nothing
    Cost               n size^2 / 2 fused multiply-adds
    Source             Goto & van de Geijn 2008, Anatomy of high-performance matrix multiplication
    """
    edge = np.zeros((TILE_ROWS, TILE_COLUMNS))
    for first in range(0, size, LINES_AT_ONCE):
        last = min(first + LINES_AT_ONCE, size)
        for column in range(first // TILE_COLUMNS * TILE_COLUMNS, size, TILE_COLUMNS):
            x = panel_x[column // TILE_COLUMNS * (n * TILE_COLUMNS + GAP) :]
            for line in range(first, min(last, column + TILE_COLUMNS), TILE_ROWS):
                hx = panel_hx[line // TILE_ROWS * (n * TILE_ROWS + GAP) :]
                if line + TILE_ROWS <= column and column + TILE_COLUMNS <= cross.shape[1]:
                    add_tile(cross[line:, column:], hx, x, n)
                else:  # the tile crosses the diagonal or the end of the matrix: elements outside H are dropped
                    lines, columns = min(TILE_ROWS, cross.shape[0] - line), min(TILE_COLUMNS, cross.shape[1] - column)
                    for a in range(lines):
                        edge[a, :columns] = cross[line + a, column : column + columns]
                    add_tile(edge, hx, x, n)
                    for a in range(lines):
                        for b in range(max(0, line + a + 1 - column), columns):
                            cross[line + a, column + b] = edge[a, b]


@kernel
def sparse_update(cross: F64, size: int, rows: Rows, n: int, mirrored: bool) -> None:
    """Add every pair of features of every row to its element above the diagonal, and to the one below it if those are kept.

    Parameters
    ----------
    cross : f64[cap, >= cap]   overwritten off the diagonal, up to `size`
    size : int                 lines and columns in use
    rows : Rows                read only
    n : int                    how many of them
    mirrored : bool            whether elements below the diagonal are kept too

    Returns            nothing
    Cost               O(size + pairs)
    Source             Gustavson 1978, Two fast algorithms for sparse matrices: transposing twice sorts
    """
    nnz = rows.start[n]
    begin = np.zeros(size + 1, np.int64)
    for a in range(nnz):
        begin[rows.at[a] + 1] += 1
    for j in range(size):
        begin[j + 1] += begin[j]
    row, x, place = np.empty(nnz, np.int64), np.empty(nnz), begin[:size].copy()
    for i in range(n):
        for a in range(rows.start[i], rows.start[i + 1]):
            e = place[rows.at[a]]
            row[e], x[e] = i, rows.x[a]
            place[rows.at[a]] = e + 1
    sorted_at, sorted_x, cursor = np.empty(nnz, np.uint32), np.empty(nnz), rows.start[:n].copy()
    for j in range(size):
        for e in range(begin[j], begin[j + 1]):
            a = cursor[row[e]]
            sorted_at[a], sorted_x[a] = j, x[e]
            cursor[row[e]] = a + 1
    cursor[:] = rows.start[:n]
    for j in range(size):
        for e in range(begin[j], begin[j + 1]):
            i = row[e]
            cursor[i] += 1
            hx = rows.h[i] * x[e]
            for b in range(cursor[i], rows.start[i + 1]):
                cross[j, sorted_at[b]] = fma(hx, sorted_x[b], cross[j, sorted_at[b]])
            if mirrored:
                for b in range(rows.start[i], cursor[i] - 1):
                    cross[j, sorted_at[b]] = fma(rows.h[i] * sorted_x[b], x[e], cross[j, sorted_at[b]])


@kernel
def mirror(cross: F64, size: int) -> None:
    """Copy the elements above the diagonal to those below it.

    Parameters
    ----------
    cross : f64[cap, >= cap]   overwritten below the diagonal, up to `size`
    size : int                 lines and columns in use

    Returns            nothing
    Cost               O(size^2), in squares that stay in the L1 cache
    Source             a matrix transposed by blocks
    """
    for top in range(0, size, _SQUARE):
        for left in range(0, top + 1, _SQUARE):
            for j in range(top, min(top + _SQUARE, size)):
                for c in range(left, min(left + _SQUARE, j)):
                    cross[j, c] = cross[c, j]


@kernel
def rank_update(cross: F64, size: int, rows: Rows, n: int, panels: tuple[F64, F64], mirrored: bool) -> bool:
    """Add rows to the cross curvature, by the faster of the two paths.

    Parameters
    ----------
    cross : f64[cap, >= cap]   overwritten off the diagonal, up to `size`
    size : int                 lines and columns in use
    rows : Rows                read only
    n : int                    how many of them
    panels : f64 x 2           panel_x, panel_hx: space for n times `size`, rounded up to whole tiles; overwritten
    mirrored : bool            whether elements below the diagonal are equal to those above it

    Returns            whether they are afterwards: the dense path does not update them
    Cost               n size^2 / 2, or the pairs of features of all rows, each of which takes longer
    Source             Balakrishnan & Madigan 2008, algorithm 2, step 3
    """
    pairs = 0
    for i in range(n):
        nnz = rows.start[i + 1] - rows.start[i]
        pairs += nnz * (nnz - 1)
    if SPARSE_COST * pairs < n * size * size:
        sparse_update(cross, size, rows, n, mirrored)
        return mirrored
    pack(rows, n, size, panels[0], panels[1])
    dense_update(cross, size, n, panels[0], panels[1])
    return False
