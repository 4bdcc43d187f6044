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

import numpy as np

from riata.base.arrays import F64, I64
from riata.native.library import core, struct


def size_factor(n: int) -> float:
    """s = sqrt((n + 1) / 2), by which the penalty of a run of n weights is multiplied; 1 if n = 1."""
    return math.sqrt(0.5 * (n + 1))


def log_constant(n: int) -> float:
    """log c(n) of the prior density  c |Sigma|^(-1/2) exp(-lambda s |b|_K),  Sigma^-1 = 2 (n + 1) lambda^2 K."""
    return math.lgamma(0.5 * n) - math.lgamma(n) - n * math.log(2.0) - math.log(2.0) - 0.5 * n * math.log(math.pi)


def run_norms(b: F64, start: I64, k: F64, dual: bool, out: F64) -> None:
    """Write the norm of each run of a vector: of weights, or the dual norm of a gradient. See `riata_run_norms`."""
    runs = struct("riata_runs", start=start, k=k, n=len(k))
    core.run_norms(runs, b, dual, out, np.empty(int(np.diff(start).max(initial=0))))


def shrink_group(h: F64, v: F64, penalty: float, a: F64) -> None:
    """Move a to the minimum of  a'h a / 2 - v'a + penalty |a|_2. See `riata_shrink_group`."""
    core.shrink_group(h, v, len(v), penalty, a, np.empty((len(v), len(v) + 2)))
