"""One pass over rows: the log-likelihood at given weights, and its derivatives of first and second order.

    G_j = sum_i r_i x_ij        D_j = sum_i h_i x_ij^2        H_jl = sum_i h_i x_ij x_il, for members j, l of the working set S

with r and h of `maths/taylor.py` times the weight of the row. G and D are kept for all features, H only on S: memory is d + k^2
and does not depend on the number of rows. All sums are f64.

G and the sums are kept for both labels separately, [0] for -1 and [1] for 1. So a dual point in which the residuals sum to zero,
which the duality gap of a free intercept needs, costs no further pass (`certificate.py`).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I32, I64, U32
from riata.batch.data import Rows
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.fma import TILE_COLUMNS, TILE_ROWS, fma
from riata.maths import rank_update as update
from riata.maths.rank_update import SPARSE_COST, dense_update, pack, sparse_update
from riata.maths.taylor import log_likelihood, margin_terms

# Sums over the rows of one label.
WEIGHT: Final = 0  # w
LIKELIHOOD: Final = 1  # log p
RESIDUAL: Final = 2  # r
MOMENT: Final = 3  # r c: the residual times the margin
SPREAD: Final = 4  # w q^2 / h: the second derivative of the dual along the residuals, see `certificate.py`
CURVATURE: Final = 5  # h
SUMS: Final = 6

_BLOCK_ROWS: Final = 8192  # rows whose members are gathered before they are added to H
_BLOCK_ENTRIES: Final = 2**19  # and their features: 6 MiB
_SMALL: Final = 1024  # size up to which H stays in the cache while pairs are added to it: 8 MiB
_PANEL_ROWS: Final = 256  # rows that the dense path packs at once


class Weighted(NamedTuple):
    """Weights of all features, dense, and where the members of S are.

    beta      : f64[d]
    intercept : float
    position  : i32[d]   line of H of each feature, 1 .. k, increasing; -1 outside S. Line 0 is the intercept's
    """

    beta: F64
    intercept: float
    position: I32


@inline_kernel
def margin_of(rows: Rows, i: int, beta: F64, intercept: float) -> float:
    """Intercept plus weights times features.

    Source    Balakrishnan & Madigan 2008, section 2
    """
    first, end = rows.indptr[i], rows.indptr[i + 1]
    rank, x = rows.rank[first:end], rows.value[first:end]
    a, b = intercept, 0.0  # two sums: a single one would wait for each addition
    for e in range(len(x) // 2):
        a = fma(x[2 * e], beta[rank[2 * e]], a)
        b = fma(x[2 * e + 1], beta[rank[2 * e + 1]], b)
    if len(x) % 2:
        a = fma(x[-1], beta[rank[-1]], a)
    return a + b


@kernel
def expand(rows: Rows, link: int, at: Weighted, sums: F64, moments: F64, cross: F64) -> None:
    """Add the rows to the sums of a pass.

    Parameters
    ----------
    rows : Rows               read only
    link : int                LOGISTIC or PROBIT of `links`
    at : Weighted             read only
    sums : f64[2, SUMS]       overwritten, by label
    moments : f64[2, d, 2]    overwritten, by label: G and D of each feature, side by side as they are used
    cross : f64[k + 1, k + 1] overwritten above the diagonal: H. If k = 0 it is not written

    Returns                   nothing
    Cost                      three reads of the features, and the pairs of members of S in a row (dense: k^2 / 2 a row)
    Source                    Balakrishnan & Madigan 2008, algorithm 3, steps 3 and 4
    """
    size, longest = len(cross), 0
    for i in range(len(rows.label)):
        longest = max(longest, rows.indptr[i + 1] - rows.indptr[i])
    capacity = max(_BLOCK_ENTRIES, longest + 1) if size > 1 else 0
    start, h_of = np.zeros(_BLOCK_ROWS + 1, np.int64), np.empty(_BLOCK_ROWS)
    member, x_of = np.empty(capacity, np.uint32), np.empty(capacity)
    n, used = 0, 0
    for i in range(len(rows.label)):
        first, end = rows.indptr[i], rows.indptr[i + 1]
        c = margin_of(rows, i, at.beta, at.intercept)
        s, w = rows.label[i], rows.weight[i]
        y = 1 if s > 0.0 else 0
        q, h, likelihood = margin_terms(link, s * c)
        r, h_w = w * s * q, w * h
        sums[y, WEIGHT] += w
        sums[y, LIKELIHOOD] += w * likelihood
        sums[y, RESIDUAL] += r
        sums[y, MOMENT] += r * c
        sums[y, SPREAD] += w * (q * (q / h)) if h > 0.0 else (math.inf if q > 0.0 else 0.0)  # where h underflows, q may be 1
        sums[y, CURVATURE] += h_w
        total = moments[y]
        if size == 1:
            rank, value = rows.rank[first:end], rows.value[first:end]
            for e in range(len(value)):
                j, x = rank[e], value[e]
                total[j, 0] = fma(r, x, total[j, 0])
                total[j, 1] = fma(h_w * x, x, total[j, 1])
            continue
        if n == _BLOCK_ROWS or used + 1 + end - first > capacity:
            add_block(cross, start, member, x_of, h_of, n)
            n, used = 0, 0
        member[used], x_of[used] = 0, 1.0
        used += 1
        for e in range(first, end):
            j, x = rows.rank[e], rows.value[e]
            total[j, 0] = fma(r, x, total[j, 0])
            total[j, 1] = fma(h_w * x, x, total[j, 1])
            p = at.position[j]
            member[used], x_of[used] = p, x  # overwritten by the next unless it is a member
            used += p >= 0
        h_of[n] = h_w
        n += 1
        start[n] = used
    if n > 0:
        add_block(cross, start, member, x_of, h_of, n)


@kernel
def add_block(cross: F64, start: I64, member: U32, x: F64, h: F64, n: int) -> None:
    """Add h x x' of n rows to the elements of H above the diagonal, by the fastest of three paths.

    Dense tiles if rows have most members; pair by pair if H stays in the cache; otherwise line by line of H (`sparse_update`).

    Parameters
    ----------
    cross : f64[k, k]    overwritten above the diagonal
    start : i64[> n]     row i is start[i] : start[i + 1]
    member : u32[nnz]    lines of H, distinct within a row
    x : f64[nnz]
    h : f64[n]

    Returns              nothing
    Cost                 n k^2 / 2, or the pairs of features of all rows, each of which takes longer
    Source               `maths/rank_update.py`
    """
    size, pairs = len(cross), 0
    for i in range(n):
        pairs += (start[i + 1] - start[i]) * (start[i + 1] - start[i] - 1)
    sparse = SPARSE_COST * pairs < n * size * size
    if sparse and size <= _SMALL:
        for i in range(n):
            for a in range(start[i], start[i + 1]):
                hx, p = h[i] * x[a], member[a]
                line = cross[p]
                for b in range(a + 1, start[i + 1]):
                    if member[b] > p:
                        line[member[b]] += hx * x[b]
                    else:
                        cross[member[b], p] += hx * x[b]
        return
    if sparse:
        sparse_update(cross, size, update.Rows(start, member, x, h), n, False)
        return
    panel_x = np.empty((size // TILE_COLUMNS + 1) * (_PANEL_ROWS * TILE_COLUMNS + update.GAP))
    panel_hx = np.empty((size // TILE_ROWS + 1) * (_PANEL_ROWS * TILE_ROWS + update.GAP))
    for first in range(0, n, _PANEL_ROWS):
        few = min(_PANEL_ROWS, n - first)
        block = update.Rows(start[first : first + few + 1], member, x, h[first : first + few])
        pack(block, few, size, panel_x, panel_hx)
        dense_update(cross, size, few, panel_x, panel_hx)


@kernel
def likelihoods(rows: Rows, link: int, at: Weighted, toward: Weighted, shares: F64, out: F64) -> None:
    """The log-likelihood at several points between two weights.

    Parameters
    ----------
    rows : Rows           read only
    link : int            LOGISTIC or PROBIT of `links`
    at, toward : Weighted read only; their positions are not read
    shares : f64[m]       points: at + share (toward - at)
    out : f64[m]          overwritten

    Returns               nothing
    Cost                  one read of the features, m logarithms a row
    Source                Armijo 1966: the objective along a direction
    """
    out[:] = 0.0
    for i in range(len(rows.label)):
        c = margin_of(rows, i, at.beta, at.intercept)
        step = margin_of(rows, i, toward.beta, toward.intercept) - c
        for a in range(len(shares)):
            m = c + shares[a] * step
            out[a] += rows.weight[i] * (log_likelihood(link, m, rows.label[i]) if math.isfinite(m) else -math.inf)


@kernel
def sides(rows: Rows, direction: F64, intercept: float, slack: float) -> tuple[int, int]:
    """How many rows a direction moves away from their label by more than `slack`, and how many toward it.

    Parameters
    ----------
    rows : Rows           read only
    direction : f64[d]    a move of the weights
    intercept : float     and of the intercept
    slack : float         margins up to it count for neither

    Returns               rows moved away; rows moved toward
    Cost                  one read of the features
    Source                Albert & Anderson 1984: no optimum exists if a direction moves no row away and some toward
    """
    away, toward = 0, 0
    for i in range(len(rows.label)):
        m = rows.label[i] * margin_of(rows, i, direction, intercept)
        away += m < -slack
        toward += m > slack
    return away, toward
