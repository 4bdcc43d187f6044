"""Contiguous copies of the tracked members: their cross curvature, the waiting rows, and the numbers that change in a solve.

See `block_lazy` for what tracking is.
"""

from __future__ import annotations

from riata.jit.kernel import inline_kernel
from riata.jit.simd.fma import add_line, dot
from riata.maths.block_arrays import (
    BEND,
    COPIED,
    FINE,
    MIRRORED,
    PENDING,
    PULL,
    SIZE,
    STEP,
    TRACKED,
    WEIGHT,
    Block,
)


@inline_kernel
def copy_rows(block: Block) -> None:
    """Copy the features of tracked members of the rows that were added since the last call.

    Parameters
    ----------
    block : Block    lazy.x is overwritten

    Returns          nothing
    Cost             O(features of the rows + members tracked)
    Source           theory of operation
    """
    lazy = block.lazy
    for i in range(block.counts[COPIED], block.counts[PENDING]):
        lazy.x[i] = 0.0
        for e in range(block.row_start[i], block.row_start[i + 1]):
            a = lazy.place[block.row_at[e]]
            if a > 0:
                lazy.x[i, a - 1] = block.row_x[e]
    block.counts[COPIED] = block.counts[PENDING]


@inline_kernel
def bring_line(block: Block, a: int, lanes: int) -> None:
    """Fetch one line of `gram` if it is absent, and add the waiting rows that it does not include.

    Parameters
    ----------
    block : Block    lazy.gram is overwritten; its rows are copied
    a : int          which line
    lanes : int      members tracked, rounded up to whole vectors

    Returns          nothing
    Cost             O(lanes * rows that it did not include)
    Source           Balakrishnan & Madigan 2008, algorithm 2, step 3
    """
    lazy, n, j = block.lazy, block.counts[TRACKED], block.lazy.tracked[a]
    if lazy.upto[a] < 0:
        lazy.gram[a] = 0.0
        if block.counts[MIRRORED] == 1:
            for b in range(n):
                lazy.gram[a, b] = block.cross[j, lazy.tracked[b]]
        else:
            for b in range(n):
                lazy.gram[a, b] = block.cross[min(j, lazy.tracked[b]), max(j, lazy.tracked[b])]
        lazy.upto[a] = 0
    for i in range(lazy.upto[a], block.counts[PENDING]):
        hx = block.row_h[i] * lazy.x[i, a]
        if hx != 0.0:
            add_line(lazy.gram[a], hx, lazy.x[i], lanes)
    lazy.upto[a] = block.counts[PENDING]


@inline_kernel
def gather(block: Block, prior: float, gamma: float, lanes: int) -> None:
    """Copy weight, gradient, curvature and penalty of the tracked members to contiguous arrays.

    Parameters
    ----------
    block : Block    lazy.work is overwritten
    prior : float    curvature for each unit of peak
    gamma : float    penalty in force
    lanes : int      members tracked, rounded up to whole vectors

    Returns          nothing
    Cost             O(members tracked)
    Source           theory of operation
    """
    lazy, n = block.lazy, block.counts[TRACKED]
    lazy.work[:, n:lanes] = 0.0
    for a in range(n):
        j = lazy.tracked[a]
        lazy.work[WEIGHT, a] = block.beta[j]
        lazy.work[PULL, a] = block.gradient[j]
        lazy.work[BEND, a] = prior * block.peak[j] + block.curvature[j]
        lazy.work[FINE, a] = block.gamma[j] * gamma


@inline_kernel
def scatter(block: Block, lanes: int) -> None:
    """Write weights and gradients back, and add to the moves of the margins of the waiting rows.

    Parameters
    ----------
    block : Block    overwritten
    lanes : int      members tracked, rounded up to whole vectors

    Returns          nothing
    Cost             O(members tracked * (1 + waiting rows))
    Source           theory of operation
    """
    lazy, n = block.lazy, block.counts[TRACKED]
    moves = False
    for a in range(n):
        j = lazy.tracked[a]
        lazy.work[STEP, a] = lazy.work[WEIGHT, a] - block.beta[j]
        moves |= lazy.work[STEP, a] != 0.0
        block.beta[j] = lazy.work[WEIGHT, a]
        block.gradient[j] = lazy.work[PULL, a]
    if moves and n < block.counts[SIZE]:
        for i in range(block.counts[PENDING]):
            lazy.moved[i] += dot(lazy.x[i], lazy.work[STEP], lanes)
