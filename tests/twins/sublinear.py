"""SLLR as its corrected pseudo-code says, on a dense matrix, with q as it is."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64
from riata.lab.batch.data import Rows
from riata.lab.batch.passes import Columns
from riata.lab.batch.sublinear import ACCESSES, DONE, INTERCEPT, TOTAL, Search, Terms
from tests.twins import philox as random
from tests.twins.batch import dense_rows

TWINS_OF = ("stochastic",)


def uniform(seed: int, stream: int, draw: int) -> float:
    return (random.philox(int(seed), stream, draw)[0] >> 11) / 2**53


def slack(p: F64, most: float, xi: F64) -> None:
    """Fill the largest first."""
    xi[:] = 0.0
    for i in sorted(range(len(p)), key=lambda i: (-p[i], i)):
        xi[i] = max(0.0, min(2.0, most))
        most -= xi[i]


def reweigh(log_q: F64, sigma: F64, eta: float) -> None:
    """The multiplicative update."""
    s = np.clip(sigma, -1.0 / eta, 1.0 / eta)
    log_q[:] = np.log(np.exp(log_q) * (1.0 - eta * s + (eta * s) ** 2))


def sublinear_rounds(rows: Rows, _columns: Columns, search: Search, terms: Terms, count: int) -> None:
    """Some rounds."""
    x, y, own = dense_rows(rows, len(search.u)), rows.label, search.own
    n = len(y)
    eta = np.sqrt(np.log(n) / terms.rounds)
    for _ in range(count):
        t = int(own[DONE])
        q = np.exp(search.log_q - search.log_q.max())
        search.p[:] = q / q.sum()
        i = min(int(np.searchsorted(np.cumsum(search.p), uniform(terms.seed, t, 0), side="right")), n - 1)
        v = search.w if terms.nu > 0.0 else search.total / max(t, 1)
        step = y[i] / (1.0 + np.exp(y[i] * (v @ x[i] + own[INTERCEPT]))) / np.sqrt(2.0 * terms.rounds)
        before = search.u.copy()
        search.u[:] += step * x[i]
        same = before * search.u > 0.0
        search.u[same] = (np.sign(search.u) * np.maximum(np.abs(search.u) - terms.pull, 0.0))[same]
        own[INTERCEPT] = np.sign(np.round(search.p @ y, 11)) if terms.free else 0.0
        search.w[:] = search.u / max(1.0, float(np.linalg.norm(search.u)))
        search.total[:] += search.w
        if terms.nu > 0.0:
            slack(search.p, terms.nu * n, search.xi)
        own[TOTAL] += own[INTERCEPT]
        own[DONE] += 1
        own[ACCESSES] += np.count_nonzero(x[i])
        size = float(search.w @ search.w)
        if size == 0.0:
            continue
        j = min(int(np.searchsorted(np.cumsum(search.w**2), uniform(terms.seed, t, 1) * size, side="right")), len(search.w) - 1)
        if search.w[j] == 0.0:
            continue
        search.base[:] = y * x[:, j] * size / search.w[j] + search.xi + y * own[INTERCEPT]
        own[ACCESSES] += np.count_nonzero(x[:, j])
        reweigh(search.log_q, search.base, eta)
