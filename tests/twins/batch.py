"""Slow, obvious twins of the kernels of `riata.lab.batch`, and of its certificate: dense rows, and definitions in numpy."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_ndtr

from riata.base.arrays import F64, I64, U32
from riata.lab.batch.data import Rows
from riata.lab.batch.passes import Weighted
from riata.maths.links import LOGISTIC

TWINS_OF = ("batch_pass",)


def dense_rows(rows: Rows, d: int) -> F64:
    """f64[n, d]"""
    x = np.zeros((len(rows.label), d))
    for i in range(len(rows.label)):
        for e in range(rows.indptr[i], rows.indptr[i + 1]):
            x[i, rows.rank[e]] += rows.value[e]
    return x


def log_p(link: int, m: F64) -> F64:
    """Log-likelihood of the signed margins."""
    found: F64 = log_expit(m) if link == LOGISTIC else log_ndtr(m)
    return found


def slope(link: int, m: F64) -> F64:
    """q = d log p / dm."""
    found: F64 = np.exp(log_expit(-m) if link == LOGISTIC else -0.5 * m * m - 0.5 * np.log(2.0 * np.pi) - log_ndtr(m))
    return found


def expand(rows: Rows, link: int, at: Weighted, sums: F64, moments: F64, cross: F64) -> None:
    """The sums of a pass."""
    x, s, w = dense_rows(rows, len(at.beta)), rows.label, rows.weight
    c = at.intercept + x @ at.beta
    q = slope(link, s * c)
    h = q * np.exp(log_expit(s * c)) if link == LOGISTIC else q * (q + s * c)
    r = w * s * q
    for y, label in enumerate((-1.0, 1.0)):
        of = s == label
        per_row = np.array([w, w * log_p(link, s * c), r, r * c, w * q * q / h, w * h])
        sums[y] += per_row[:, of].sum(axis=1)
        moments[y, :, 0] += r[of] @ x[of]
        moments[y, :, 1] += (w * h)[of] @ x[of] ** 2
    if len(cross) > 1:
        members = np.concatenate([[-1], np.argsort(at.position)[np.sort(at.position) > 0]])
        z = np.where(members == -1, 1.0, x[:, members])
        cross += np.triu((z.T * (w * h)) @ z, 1)


def add_block(cross: F64, start: I64, member: U32, x: F64, h: F64, n: int) -> None:
    """H += sum h x x', above the diagonal."""
    for i in range(n):
        z = np.zeros(len(cross))
        z[member[start[i] : start[i + 1]]] = x[start[i] : start[i + 1]]
        cross += np.triu(h[i] * np.outer(z, z), 1)


def likelihoods(rows: Rows, link: int, at: Weighted, toward: Weighted, shares: F64, out: F64) -> None:
    """The log-likelihood between two weights."""
    x = dense_rows(rows, len(at.beta))
    for a, share in enumerate(shares):
        c = at.intercept + share * (toward.intercept - at.intercept) + x @ (at.beta + share * (toward.beta - at.beta))
        out[a] = rows.weight @ log_p(link, rows.label * c)


def sides(rows: Rows, direction: F64, intercept: float, slack: float) -> tuple[int, int]:
    """Rows that a direction moves away from their label, and toward it."""
    m = rows.label * (dense_rows(rows, len(direction)) @ direction + intercept)
    return int((m < -slack).sum()), int((m > slack).sum())


def sort_rows(indptr: I64, rank: U32, value: F64) -> I64:
    """Sort rows and sum what repeats."""
    left = []
    for first, end in itertools.pairwise(indptr):
        total: dict[int, float] = {}
        for r, v in zip(rank[first:end].tolist(), value[first:end].tolist(), strict=True):
            total[r] = total.get(r, 0.0) + v
        left.append(len(total))
        for e, r in enumerate(sorted(total)):
            rank[first + e], value[first + e] = r, total[r]
    return np.array(left, np.int64)


def objective(x: F64, y: F64, weight: F64, link: int, gamma: F64, beta: F64, intercept: float) -> float:
    """Log-likelihood less penalties; the intercept has none."""
    m = (2.0 * y - 1.0) * (intercept + x @ beta)
    return float(weight @ log_p(link, m)) - float(gamma @ np.abs(beta))


def dual(x: F64, y: F64, weight: F64, link: int, gamma: F64, beta: F64, intercept: float) -> float:
    """A lower bound of the smallest -objective with a free intercept: the dual at the residuals, scaled until they are feasible.

    The conjugate of each row's loss is found by maximising it numerically.
    """
    s = 2.0 * y - 1.0
    u = weight * s * slope(link, s * (intercept + x @ beta))
    positive, negative = u[s > 0].sum(), -u[s < 0].sum()
    u = np.where(s > 0, u * min(1.0, negative / positive), u * min(1.0, positive / negative))
    u *= min(1.0, float(np.min(gamma / np.maximum(np.abs(u @ x), 1e-300))))
    total = 0.0
    for ui, wi in zip(u.tolist(), weight.tolist(), strict=True):
        q = abs(ui) / wi  # -f*(-u) = min over m of  q m - log p(m), times w
        if link == LOGISTIC:
            total -= wi * (q * np.log(q) + (1.0 - q) * np.log1p(-q))
        else:
            found = minimize_scalar(
                lambda m, q=q: q * m - float(log_ndtr(m)), bounds=(-40.0, 40.0), method="bounded", options={"xatol": 1e-11}
            )
            total += wi * found.fun
    return float(total)
