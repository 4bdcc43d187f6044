"""Slow, obvious twins of the norms of runs and of the descent over runs: matrices, and a general minimiser."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import toeplitz
from scipy.optimize import brentq, minimize

from riata.base.arrays import F64, I64
from riata.lab.batch.runs import Columns, Runs
from tests.twins.batch import log_p, slope

TWINS_OF = ("run_descent",)


def inverse_matrix(n: int, k: float) -> F64:
    """K^-1 of a run."""
    found: F64 = toeplitz(k ** np.arange(n)) if k else np.eye(n)
    return found


def norm(b: F64, k: float, dual: bool) -> float:
    """|b|_K, or its dual norm."""
    inverse = inverse_matrix(len(b), k)
    return math.sqrt(b @ inverse @ b if dual else b @ np.linalg.solve(inverse, b))


def run_norms(b: F64, start: I64, k: F64, dual: bool, out: F64) -> None:
    """The norm of each run."""
    for j in range(len(k)):
        out[j] = norm(b[start[j] : start[j + 1]], k[j], dual)


def shrink_group(h: F64, v: F64, penalty: float, a: F64, _work: F64) -> None:
    """By the size of a: a root of one equation."""
    a[:] = 0.0
    if np.linalg.norm(v) <= penalty:
        return

    def at(size: float) -> F64:
        return np.asarray(np.linalg.solve(h + penalty / size * np.eye(len(v)), v), np.float64)

    root = brentq(lambda size: float(np.linalg.norm(at(size))) / size - 1.0, 1e-9, 1e9, xtol=1e-14, rtol=1e-14)
    a[:] = at(root)


def objective(columns: Columns, link: int, runs: Runs, b: F64, intercept: float) -> float:
    """Minus log-likelihood plus penalties."""
    norms = np.empty(len(runs.k))
    run_norms(b, runs.start, runs.k, False, norms)
    margin = columns.label * (intercept + columns.x @ b)
    return float(runs.penalty @ norms - columns.weight @ log_p(link, margin))


def descend(
    columns: Columns, link: int, runs: Runs, b: F64, intercept: F64, _limits: tuple[float, int]
) -> tuple[float, float, int]:
    """The optimum by smoothing the norms less and less, from the start; the violation is not measured."""
    inverse = [inverse_matrix(end - first, k) for first, end, k in zip(runs.start[:-1], runs.start[1:], runs.k, strict=True)]
    matrices = [np.linalg.inv(one) for one in inverse]
    at: F64 = np.append(b, intercept)

    def smooth(at: F64, blur: float) -> tuple[float, F64]:
        margin = columns.label * (at[-1] + columns.x @ at[:-1])
        residual = -columns.weight * columns.label * slope(link, margin)
        total, gradient = -float(columns.weight @ log_p(link, margin)), np.append(residual @ columns.x, residual.sum())
        for j, matrix in enumerate(matrices):
            inside = slice(runs.start[j], runs.start[j + 1])
            pull = matrix @ at[inside]
            size = math.sqrt(at[inside] @ pull + blur)
            total += runs.penalty[j] * size
            gradient[inside] += runs.penalty[j] * pull / size
        return total, gradient

    for blur in (1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12):
        at = np.asarray(minimize(smooth, at, args=(blur,), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}).x)
    b[:], intercept[0] = at[:-1], at[-1]
    return objective(columns, link, runs, b, float(intercept[0])), math.nan, 0
