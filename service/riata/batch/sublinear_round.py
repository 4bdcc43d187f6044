"""Rounds of SLLR: each reads one row and one column (Peng et al. 2012, with corrections).

A distribution q over the rows finds those with the least margin: multiplicative updates, with one column as an estimate of all
margins. Gradient steps on rows drawn from q find the direction. q is kept as logarithms, since its factors overflow.

Corrections of the printed algorithms: labels multiply rows (y_i x_i), eta is sqrt(log n / T) in both, the intercept is that of
the round before, and no column is drawn while w = 0.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64
from riata.batch.columns import Columns
from riata.batch.data import Rows
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.philox import uniform

# Entries of `own` of `Search`: the intercept of the last round, the sum of all, rounds so far, and feature values read.
INTERCEPT, TOTAL, DONE, ACCESSES, SIZE = 0, 1, 2, 3, 4
_EVEN: Final = 1e-12  # a sum of labels that is rounding
_MOST: Final = 2.0  # most that a row may have of xi


class Search(NamedTuple):
    """Where the solver is.

    u, w  : f64[d]      the sum of steps, and its projection to |w| <= 1
    total : f64[d]      sum of w over the rounds
    log_q : f64[n]
    p     : f64[n]      q / sum q
    xi    : f64[n]      slack of each row; 0 in SLLR-L1
    base  : f64[n]      scratch
    own   : f64[SIZE]
    """

    u: F64
    w: F64
    total: F64
    log_q: F64
    p: F64
    xi: F64
    base: F64
    own: F64


class Terms(NamedTuple):
    """T; the penalty of one step (SLLR-L1); nu (SLLR-L2), 0 for SLLR-L1; whether there is an intercept; the seed."""

    rounds: int
    pull: float
    nu: float
    free: bool
    seed: np.uint64


@inline_kernel
def drawn(p: F64, at: float) -> int:
    """The place where the running sum of p exceeds `at`.

    Source    inversion of a distribution function
    """
    total, place = 0.0, len(p) - 1
    for i in range(len(p)):
        total += p[i]
        if total > at:
            place = i
            break
    return place


@kernel
def slack(p: F64, most: float, xi: F64) -> None:
    """xi = argmax of p . xi over 0 <= xi <= 2, sum xi <= most; among equal p the first.

    Parameters
    ----------
    p : f64[n]     read only
    most : float   nu n
    xi : f64[n]    overwritten

    Returns        nothing
    Cost           O(n log n)
    Source         Peng et al. 2012, algorithm 1, line 12
    """
    xi[:] = 0.0
    for i in np.argsort(-p, kind="mergesort"):
        xi[i] = min(_MOST, most)
        most -= xi[i]
        if most <= 0.0:
            break


@kernel
def reweigh(log_q: F64, sigma: F64, eta: float) -> None:
    """q_i <- q_i (1 - eta s + (eta s)^2), s = sigma_i clipped to [-1 / eta, 1 / eta], in the log domain.

    Parameters
    ----------
    log_q : f64[n]   overwritten
    sigma : f64[n]   read only
    eta : float

    Returns          nothing
    Cost             one logarithm for each row
    Source           Peng et al. 2012, algorithm 1, line 15; Clarkson, Hazan & Woodruff 2012
    """
    for i in range(len(log_q)):
        s = eta * min(max(sigma[i], -1.0 / eta), 1.0 / eta)
        log_q[i] += math.log(1.0 - s + s * s)


@inline_kernel
def step_on_row(rows: Rows, search: Search, terms: Terms, i: int, t: int) -> float:
    """Move u by the gradient of a row; SLLR-L1 shrinks what keeps its sign. Returns |u|.

    Source    Peng et al. 2012, algorithm 1, lines 5 to 8, and algorithm 2, lines 5 to 12
    """
    average, c = terms.nu == 0.0, search.own[INTERCEPT]
    for e in range(rows.indptr[i], rows.indptr[i + 1]):
        j = rows.rank[e]
        c += rows.value[e] * (search.total[j] / max(t, 1) if average else search.w[j])
    y = rows.label[i]
    step = y / (1.0 + math.exp(min(y * c, 700.0))) / math.sqrt(2.0 * terms.rounds)
    if terms.pull > 0.0:
        search.w[:] = search.u  # until w is set, the u before the step
    for e in range(rows.indptr[i], rows.indptr[i + 1]):
        search.u[rows.rank[e]] += step * rows.value[e]
    length = 0.0
    for j in range(len(search.u)):
        u = search.u[j]
        if terms.pull > 0.0 and u * search.w[j] > 0.0:
            u = math.copysign(max(abs(u) - terms.pull, 0.0), u)
            search.u[j] = u
        length += u * u
    return math.sqrt(length)


@inline_kernel
def distribution(search: Search, label: F64) -> float:
    """p from log q. Returns p . y.

    Source    Peng et al. 2012, algorithm 1, line 4
    """
    top, total, side = -math.inf, 0.0, 0.0
    for i in range(len(label)):
        top = max(top, search.log_q[i])
    for i in range(len(label)):
        search.p[i] = math.exp(search.log_q[i] - top)
        total += search.p[i]
    for i in range(len(label)):
        search.p[i] /= total
        side += search.p[i] * label[i]
    return side


@kernel
def sublinear_rounds(rows: Rows, columns: Columns, search: Search, terms: Terms, count: int) -> None:
    """Do some rounds.

    Parameters
    ----------
    rows : Rows         read only; no row is longer than 1
    columns : Columns   the same by feature; read only
    search : Search     overwritten
    terms : Terms
    count : int         rounds

    Returns             nothing
    Cost                one row and one column, and O(n + d), for each round; SLLR-L2 sorts the rows
    Source              Peng et al. 2012, algorithms 1 (SLLR-L2) and 2 (SLLR-L1), corrected as this module says
    """
    n, d, own = len(rows.label), len(search.u), search.own
    eta = math.sqrt(math.log(n) / terms.rounds)
    for _ in range(count):
        t = int(own[DONE])
        side = distribution(search, rows.label)
        i = drawn(search.p, uniform(terms.seed, np.uint64(t), np.uint64(0)))
        length = step_on_row(rows, search, terms, i, t)
        own[ACCESSES] += rows.indptr[i + 1] - rows.indptr[i]
        own[INTERCEPT] = (1.0 if side > _EVEN else -1.0 if side < -_EVEN else 0.0) if terms.free else 0.0
        size = 0.0
        for j in range(d):
            search.w[j] = search.u[j] / max(1.0, length)
            search.total[j] += search.w[j]
            size += search.w[j] * search.w[j]
        if terms.nu > 0.0:
            slack(search.p, terms.nu * n, search.xi)
        own[TOTAL] += own[INTERCEPT]
        own[DONE] = t + 1
        if size == 0.0:
            continue
        at, j = uniform(terms.seed, np.uint64(t), np.uint64(1)) * size, d - 1
        for k in range(d):
            at -= search.w[k] * search.w[k]
            if at < 0.0:
                j = k
                break
        if search.w[j] == 0.0:
            continue
        for a in range(n):
            search.base[a] = search.xi[a] + rows.label[a] * own[INTERCEPT]
        for e in range(columns.start[j], columns.start[j + 1]):
            a = columns.row[e]
            search.base[a] += rows.label[a] * columns.value[e] * size / search.w[j]
        own[ACCESSES] += columns.start[j + 1] - columns.start[j]
        reweigh(search.log_q, search.base, eta)
