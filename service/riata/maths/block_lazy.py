"""Lazy gradients: only those that matter are current, so that solving after every event does not cost size^2.

Theory of operation
    After an event only some weights move: those that are not zero, and those whose gradient exceeds their penalty. Their effect
    on the gradients of all others matters only if it could take one of these over its penalty. So some members are tracked:
    those with a weight, and those whose gradient is near their penalty. Between two flushes

        tracked      `gradient` is current. Their cross curvature, waiting rows included, is in a small square matrix, `gram`.
                     A line of it is fetched, and brought up to date, when its member moves.
        all others   `gradient` lacks the effect of moves since the last moment when all were current (`settle`):

                         true G_l = G_l - sum_i h_i x_il v_i - sum_j H_lj (beta_j - settled_j)

                     over waiting rows i, where v_i = x_i . (move of the weights since row i came), and tracked j.

    By Cauchy and Schwarz, applied to the two sums and with flushed_j as weights of the second,

        |true G_l - G_l| <= root(sum_i h_i x_il^2) root(sum_i h_i v_i^2) + reach_l root(sum_j flushed_j (beta_j - settled_j)^2)

    No x_il is needed for that: the first root is that of the curvature added since the last flush. After every solve the bound
    is compared with the penalty, for all members in one short loop. If it does not clear a member, the member's gradient is
    computed and it is tracked from then on. A member that was added to the tracked ones later is not in reach_l; for it
    |H_lj| <= root(flushed_l flushed_j) is used. So the result of `solve` is the same as with every gradient current.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from riata.base.arrays import F64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.fma import fma
from riata.maths.block_arrays import COPIED, FOUNDED, MIRRORED, PENDING, SIZE, TRACKED, Block
from riata.maths.block_bound import doubtful, factors_now, weighed_squares
from riata.maths.block_gram import bring_line

TRACK_ALL: Final = 128  # up to this size all members are tracked: choosing which ones to track would cost more
NEAR: Final = 0.85  # share of its penalty above which a gradient is tracked


@inline_kernel
def append(block: Block, j: int) -> None:
    """Track one more member, whose gradient is current. There is space for it.

    Source    theory of operation
    """
    lazy, n = block.lazy, block.counts[TRACKED]
    lazy.tracked[n] = j
    lazy.settled[n] = block.beta[j]
    lazy.place[j] = n + 1
    lazy.upto[n] = -1
    block.counts[TRACKED] = n + 1


@inline_kernel
def choose(block: Block, gamma: float) -> bool:
    """Choose the tracked members, at a moment when every gradient is current.

    Parameters
    ----------
    block : Block    counts and lazy are overwritten; nothing is tracked
    gamma : float    penalty in force

    Returns          false if too many have to be tracked
    Cost             O(size * (1 + members tracked))
    Source           theory of operation
    """
    lazy, size = block.lazy, block.counts[SIZE]
    room = len(lazy.tracked)
    if block.counts[PENDING] == 0:
        lazy.flushed[:] = block.curvature
    lazy.moved[: block.counts[PENDING]] = 0.0
    least, near = 0, 0
    for j in range(size):
        g, own = abs(block.gradient[j]), block.gamma[j] * gamma
        least += block.beta[j] != 0.0 or g > own
        near += block.beta[j] != 0.0 or g > NEAR * own
    if least > room:
        return False
    all_of_them = size <= min(room, TRACK_ALL)
    share = NEAR if 4 * near <= 3 * room else 1.0
    for j in range(size):
        if all_of_them or block.beta[j] != 0.0 or abs(block.gradient[j]) > share * (block.gamma[j] * gamma):
            append(block, j)
    block.counts[FOUNDED] = block.counts[TRACKED]
    block.counts[COPIED] = 0
    if block.counts[TRACKED] < size:
        squares = weighed_squares(block, lazy.tracked[: block.counts[TRACKED]])
        for j in range(size):
            lazy.reach[j] = math.sqrt(squares[j])
    return True


@inline_kernel
def pulled(block: Block, step: F64) -> F64:
    """Sum H_lj step_j over all j, for every l: f64[size]. Most steps are 0. The order of summation is that of the positions.

    Source    Balakrishnan & Madigan 2008, algorithm 1: the update of Omega, for many coordinates
    """
    cross, size = block.cross, block.counts[SIZE]
    sums, movers = np.zeros(size), np.nonzero(step)[0]
    if block.counts[MIRRORED] == 1:
        for a in range(len(movers)):
            for c in range(size):
                sums[c] = fma(step[movers[a]], cross[movers[a], c], sums[c])
        return sums
    after = 0
    for j in range(size):
        if after < len(movers) and movers[after] == j:
            for c in range(j + 1, size):
                sums[c] = fma(step[j], cross[j, c], sums[c])
            after += 1
        total = sums[j]
        for a in range(after, len(movers)):
            mover = np.uint64(movers[a])
            total = fma(step[mover], cross[j, mover], total)
        sums[j] = total
    return sums


@kernel
def settle(block: Block) -> None:
    """Bring every gradient up to date and track no member.

    Parameters
    ----------
    block : Block    gradients, counts and lazy are overwritten

    Returns          nothing
    Cost             O(size * members that moved), and O(features) of the rows that wait
    Source           theory of operation
    """
    lazy, n, size = block.lazy, block.counts[TRACKED], block.counts[SIZE]
    if 0 < n < size:
        step = np.zeros(size)
        for a in range(n):
            step[lazy.tracked[a]] = block.beta[lazy.tracked[a]] - lazy.settled[a]
        sums = pulled(block, step)
        for i in range(block.counts[PENDING]):
            share = block.row_h[i] * lazy.moved[i]
            if share != 0.0:
                for e in range(block.row_start[i], block.row_start[i + 1]):
                    sums[block.row_at[e]] += share * block.row_x[e]
        for j in range(size):
            if lazy.place[j] == 0:
                block.gradient[j] -= sums[j]
    for a in range(n):
        lazy.place[lazy.tracked[a]] = 0
    for count in (TRACKED, FOUNDED, COPIED):
        block.counts[count] = 0


@inline_kernel
def value_at(block: Block, i: int, j: int) -> float:
    """Value of feature j in waiting row i; 0 if it has none. In a row that has every feature, j is likely to be at index j.

    Source    theory of operation
    """
    start, end = block.row_start[i], block.row_start[i + 1]
    if start + j < end and block.row_at[start + j] == j:
        return float(block.row_x[start + j])
    for e in range(start, end):
        if block.row_at[e] == j:
            return float(block.row_x[e])
    return 0.0


@inline_kernel
def promote(block: Block, gamma: float) -> int:
    """Track the members that the bound does not clear, with their gradients computed.

    Parameters
    ----------
    block : Block    overwritten
    gamma : float    penalty in force

    Returns          how many, or -1 if there is no space for them
    Cost             O(size), and for each of them O(waiting rows * their features + members tracked * waiting rows)
    Source           theory of operation
    """
    lazy, n = block.lazy, block.counts[TRACKED]
    factors = factors_now(block)
    count = 0
    for j in range(block.counts[SIZE]):  # no branch and no list, so it is vectorized; nearly always the count is 0
        count += doubtful(block, j, gamma, factors)
    if n + count > len(lazy.tracked):
        return -1
    if count > 0:
        for a in range(n):
            if lazy.upto[a] >= 0:
                bring_line(block, a, -(-n // 8) * 8)
        for j in range(block.counts[SIZE]):
            if doubtful(block, j, gamma, factors):
                track_late(block, j)
    return count


@inline_kernel
def track_late(block: Block, j: int) -> None:
    """Track one member that was not tracked, and add its column to the lines of `gram` that are present and up to date.

    Parameters
    ----------
    block : Block    overwritten; there is space
    j : int          position of the member

    Returns          nothing
    Cost             O(waiting rows * their features + members tracked * waiting rows)
    Source           theory of operation
    """
    lazy, n = block.lazy, block.counts[TRACKED]
    pending = block.counts[PENDING]
    total = 0.0
    for i in range(pending):
        x = value_at(block, i, j)
        lazy.x[i, n] = x
        total += block.row_h[i] * x * lazy.moved[i]
    column = np.zeros(n)
    for a in range(n):
        c = lazy.tracked[a]
        column[a] = block.cross[min(j, c), max(j, c)]
        total = fma(column[a], block.beta[c] - lazy.settled[a], total)
    for i in range(pending):
        for a in range(n):
            column[a] = fma(block.row_h[i] * lazy.x[i, a], lazy.x[i, n], column[a])
    for a in range(n):
        lazy.gram[a, n] = column[a]
    block.gradient[j] -= total
    append(block, j)
