"""Norms of runs: weights of neighbouring features that are in the model, or out of it, together.

Theory of operation
    |b|_K = sqrt(b'K b) of a run of n weights, with (K^-1)_il = k^|i - l|, 0 <= k < 1. K is tridiagonal:
        (1, 1 + k^2, ..., 1 + k^2, 1) / (1 - k^2) on the diagonal, -k / (1 - k^2) beside it; K = 1 if n = 1.
    k = 0 is the Euclidean norm, hence the group lasso; k near 1 asks neighbours to have weights alike.

    K^-1 = L L' is the covariance of an autoregressive sequence. So b = L a has |b|_K = |a|_2, and L and L' are recursions of n
    steps: no matrix is kept.
        b_1 = a_1,  b_i = k b_(i-1) + root a_i          root = sqrt(1 - k^2)
        (L'g)_i = root t_i,  (L'g)_1 = t_1,  with t_n = g_n, t_i = g_i + k t_(i+1)
    The dual norm of |.|_K is |L'g|_2.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel

NEWTON_MAX: Final = 100
NEWTON_TOLERANCE: Final = 1e-15


def size_factor(n: int) -> float:
    """s = sqrt((n + 1) / 2), by which the penalty of a run of n weights is multiplied; 1 if n = 1."""
    return math.sqrt(0.5 * (n + 1))


def log_constant(n: int) -> float:
    """log c(n) of the prior density  c |Sigma|^(-1/2) exp(-lambda s |b|_K),  Sigma^-1 = 2 (n + 1) lambda^2 K."""
    return math.lgamma(0.5 * n) - math.lgamma(n) - n * math.log(2.0) - math.log(2.0) - 0.5 * n * math.log(math.pi)


@inline_kernel
def unfold(a: F64, k: float, b: F64) -> None:
    """b := L a. a, b : f64[n], the same array or two. Source: this module's theory of operation."""
    root = math.sqrt(1.0 - k * k)
    b[0] = a[0]
    for i in range(1, len(a)):
        b[i] = k * b[i - 1] + root * a[i]


@inline_kernel
def fold(b: F64, k: float, a: F64) -> None:
    """a := L^-1 b. a, b : f64[n], two arrays. Source: this module's theory of operation."""
    root = math.sqrt(1.0 - k * k)
    a[0] = b[0]
    for i in range(1, len(b)):
        a[i] = (b[i] - k * b[i - 1]) / root


@inline_kernel
def fold_gradient(g: F64, k: float, out: F64) -> None:
    """out := L'g. g, out : f64[n], the same array or two. Source: this module's theory of operation."""
    root = math.sqrt(1.0 - k * k)
    t = 0.0
    for i in range(len(g) - 1, 0, -1):
        t = g[i] + k * t
        out[i] = root * t
    out[0] = g[0] + k * t


@kernel
def run_norms(b: F64, start: I64, k: F64, dual: bool, out: F64) -> None:
    """The norm of each run of a vector.

    Parameters
    ----------
    b : f64[p]            weights, or a gradient if `dual`; read only
    start : i64[m + 1]    run j is start[j] : start[j + 1], none is empty; read only
    k : f64[m]            read only
    dual : bool           the dual norm |.|_(K^-1) instead of |.|_K
    out : f64[m]          overwritten

    Returns               nothing
    Cost                  O(p)
    Source                Balakrishnan 2007, section 4.3; this module's theory of operation
    """
    a = np.empty(len(b))
    for j in range(len(k)):
        first, end = start[j], start[j + 1]
        if dual:
            fold_gradient(b[first:end], k[j], a[first:end])
        else:
            fold(b[first:end], k[j], a[first:end])
        total = 0.0
        for i in range(first, end):
            total += a[i] * a[i]
        out[j] = math.sqrt(total)


@kernel
def shrink_group(h: F64, v: F64, penalty: float, a: F64, work: F64) -> None:
    """Minimise  a'h a / 2 - v'a + penalty |a|_2.

    a = 0 if |v| <= penalty. Otherwise a = (h + t I)^-1 v where t = penalty / |a| solves  1/|a(t)| = t / penalty. The left side
    less the right side is concave in t and falls at the root, so Newton's method from above converges.

    Parameters
    ----------
    h : f64[n, n]        symmetric, positive semi-definite; read only
    v : f64[n]           read only
    penalty : float      > 0
    a : f64[n]           overwritten; what it holds is where t starts
    work : f64[n, n + 2] scratch

    Returns              nothing
    Cost                 some three Cholesky factors of n^3 / 3
    Source               Balakrishnan 2007, algorithm 4, with the test at a = 0 (Meier, van de Geer & Buehlmann 2008)
    """
    n = len(v)
    size, before, trace = 0.0, 0.0, 0.0
    for i in range(n):
        size += v[i] * v[i]
        before += a[i] * a[i]
        trace += h[i, i]
    size, before = math.sqrt(size), math.sqrt(before)
    if size <= penalty:
        a[:] = 0.0
        return
    if n == 1:
        a[0] = (v[0] - math.copysign(penalty, v[0])) / h[0, 0]
        return
    low, high = 0.0, penalty * trace / (size - penalty)
    t = penalty / before if before > 0.0 else high
    if not low < t < high:
        t = high
    for _ in range(NEWTON_MAX):
        for j in range(n):  # the lower Cholesky factor, with z = factor^-1 v in column n and factor^-1 a in column n + 1
            for i in range(j, n):
                total = h[i, j] + (t if i == j else 0.0)
                for e in range(j):
                    total -= work[i, e] * work[j, e]
                work[i, j] = math.sqrt(max(total, 1e-300)) if i == j else total / work[j, j]
        norm, bend = solve_factor(work, v, a)
        excess = 1.0 / norm - t / penalty
        if abs(t * norm - penalty) <= NEWTON_TOLERANCE * penalty:
            break
        if excess > 0.0:
            low = t
        else:
            high = t
        after = t - excess / (bend / (norm * norm * norm) - 1.0 / penalty)
        if not low < after < high:
            after = 0.5 * (low + high)
        if after == t:
            break
        t = after


@inline_kernel
def solve_factor(work: F64, v: F64, a: F64) -> tuple[float, float]:
    """a := (C C')^-1 v with the lower factor C in `work`, whose last columns are scratch. Returns |a| and |C^-1 a|^2.

    Source: forward and backward substitution."""
    n = len(v)
    norm, bend = 0.0, 0.0
    for i in range(n):
        total = v[i]
        for e in range(i):
            total -= work[i, e] * work[e, n]
        work[i, n] = total / work[i, i]
    for i in range(n - 1, -1, -1):
        total = work[i, n]
        for e in range(i + 1, n):
            total -= work[e, i] * a[e]
        a[i] = total / work[i, i]
        norm += a[i] * a[i]
    for i in range(n):
        total = a[i]
        for e in range(i):
            total -= work[i, e] * work[e, n + 1]
        work[i, n + 1] = total / work[i, i]
        bend += work[i, n + 1] * work[i, n + 1]
    return math.sqrt(norm), bend
