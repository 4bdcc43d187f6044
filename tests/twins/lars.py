"""The end of a path of least angle regression by another method: coordinate descent, and bisection for a bound."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import BOOL, F64

TWINS_OF = ("shooting",)
SWEEPS = 5000


def penalised(a: F64, c: F64, allowed: BOOL, penalty: float) -> F64:
    """Coordinate descent from zero."""
    beta = np.zeros(len(c))
    for _ in range(SWEEPS):
        before = beta.copy()
        for j in np.flatnonzero(allowed):
            omega = c[j] - a[j] @ beta + a[j, j] * beta[j]
            beta[j] = math.copysign(max(abs(omega) - penalty, 0.0), omega) / a[j, j]
        if np.abs(beta - before).max() < 1e-14:
            break
    return beta


def lars(a: F64, c: F64, allowed: BOOL, lowest: float, most: float) -> tuple[F64, float, BOOL]:
    """The weights, and the penalty."""
    barred = np.zeros(len(c), np.bool_)
    beta = penalised(a, c, allowed, lowest)
    if np.abs(beta).sum() <= most:
        return beta, lowest, barred
    low, high = lowest, float(np.abs(c[allowed]).max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.abs(penalised(a, c, allowed, middle)).sum() > most else (low, middle)
    return penalised(a, c, allowed, high), high, barred
