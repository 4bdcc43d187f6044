"""Slow, obvious twins of the kernels that work on columns of a working set: dense matrices, and definitions in numpy."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64, I32, I64, U32
from riata.lab.batch.data import Rows
from riata.lab.batch.passes import Columns
from tests.twins.batch import log_p
from tests.twins.batch import slope as slope_of

FLAT = 1e-4  # least curvature of a row of weight 1
TWINS_OF = ("batch_pass", "coordinate_descent")


def keep_features(rows: Rows, chosen: I64, position: I32) -> Rows:
    """The features that have a position, of the chosen rows."""
    kept = [
        [
            (position[rows.rank[e]], rows.value[e])
            for e in range(rows.indptr[i], rows.indptr[i + 1])
            if position[rows.rank[e]] >= 0
        ]
        for i in chosen
    ]
    indptr = np.cumsum([0, *(len(row) for row in kept)])
    rank = np.array([p for row in kept for p, _ in row], np.uint32)
    return Rows(indptr, rank, np.array([x for row in kept for _, x in row]), rows.label[chosen], rows.weight[chosen])


def fill_columns(rows: Rows, first: int, end: I64, row: U32, value: F64) -> None:
    """Append rows to the columns."""
    number = np.repeat(np.arange(len(rows.label)), np.diff(rows.indptr))
    for j, i, x in zip(rows.rank, number, rows.value, strict=True):
        row[end[j]], value[end[j]] = first + i, x
        end[j] += 1


def matrix(columns: Columns) -> F64:
    """f64[n, k + 1]: a column of ones for the intercept, then the columns."""
    k = len(columns.start) - 1
    x = np.zeros((len(columns.label), k + 1))
    x[:, 0] = 1.0
    x[columns.row, 1 + np.repeat(np.arange(k), np.diff(columns.start))] = columns.value
    return x


def weigh(columns: Columns, link: int, margin: F64, r: F64, h: F64) -> float:
    """The derivatives by the margin, and the log-likelihood."""
    if not np.all(np.isfinite(margin)):
        return -np.inf
    m = columns.label * margin
    q = slope_of(link, m)
    r[:] = columns.weight * columns.label * q
    h[:] = columns.weight * np.maximum(q * ((1.0 - q) if link == 0 else (q + m)), FLAT)
    return float(columns.weight @ log_p(link, m))


def violations(gradient: F64, beta: F64, gamma: F64) -> F64:
    """By weight; at most 0 where a condition holds."""
    return np.where(beta != 0.0, np.abs(gradient - np.copysign(gamma, beta)), np.abs(gradient) - gamma)


def slope(columns: Columns, r: F64, beta: F64, gamma: F64, gradient: F64) -> tuple[I64, float]:
    """The gradient, the weights that may move, and the largest violation."""
    gradient[:] = r @ matrix(columns)
    with np.errstate(invalid="ignore"):
        off = np.where(np.isinf(gamma), 0.0, violations(gradient, beta, gamma))
    may = np.flatnonzero(np.isfinite(gamma) & ((beta != 0.0) | (off > 0.0)))
    return may[may > 0], float(max(off.max(), 0.0))


def optimum(gradient: F64, cross: F64, gamma: F64, beta: F64) -> F64:
    """The optimum of a quadratic under an L1 penalty, by plain coordinate ascent."""
    new = beta.copy()
    for _ in range(20_000):
        before = new.copy()
        for j in range(len(new)):
            g = gradient[j] - cross[j] @ (new - beta)
            omega = g + cross[j, j] * new[j]
            new[j] = 0.0 if abs(omega) <= gamma[j] else (omega - gamma[j] * np.sign(omega)) / cross[j, j]
        if np.abs(new - before).max() <= 1e-14:
            break
    return new


def solve_columns(columns: Columns, link: int, gamma: F64, slack: float, beta: F64) -> tuple[int, int]:
    """The optimum, by Newton's method with H of everything, and steps that are halved."""
    x, n = matrix(columns), len(columns.label)
    r, h, r_new, h_new = (np.empty(n) for _ in range(4))

    def objective(at: F64, r: F64, h: F64) -> float:
        used = at != 0.0
        return weigh(columns, link, x @ at, r, h) - float(gamma[used] @ np.abs(at[used]))

    for _ in range(200):
        before = objective(beta, r, h)
        gradient = r @ x
        if np.max(violations(gradient, beta, gamma), where=np.isfinite(gamma), initial=0.0) <= slack:
            break
        step = optimum(gradient, (x.T * h) @ x, gamma, beta) - beta
        while objective(beta + step, r_new, h_new) < before - 1e-12 * abs(before):
            step /= 2.0
        beta += step
    return 0, 0
