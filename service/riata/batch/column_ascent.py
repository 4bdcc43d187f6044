"""The optimum on a working set whose columns are in memory: Newton's method, whose steps coordinate ascent finds.

    weigh   r and h of every row at its margin
    slope   G of every column, and the violation of the conditions on S. Stop if it is small enough
    ascend  the quadratic at these margins, on the weights that may move: those that are not zero or violate their condition.
            z = X (b - beta) is kept for every row, so the gradient of a weight is G_j - (h x_j) . z: one product with a column
    search  halve the step until the objective rises enough (Armijo). The margins move by z

Nothing of the size of S squared is kept. A sweep reads the columns of the weights that may move, and a weight that moves writes
z. The free intercept goes along with each weight (`maths/shooting.py`). The result is a proposal: a pass over all rows, which
sums in another order, certifies it.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.batch.columns import Columns
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.fma import fma
from riata.maths.shooting import aim, excess, leads, target
from riata.maths.taylor import margin_terms

STEPS_MAX: Final = 100
SWEEPS_MAX: Final = 100  # of a step
FORCING: Final = 0.1  # the violation that the sweeps of a step may leave, as a share of that before
LEAST: Final = 0.25  # share of it below which a weight is not moved
ARMIJO: Final = 1e-4
HALVINGS: Final = 40
ROUNDING: Final = 1e-12  # of the objective
FLAT: Final = 1e-4  # least curvature of a row of weight 1: without it, a weight whose rows are all sure would step without bound


class Quadratic(NamedTuple):
    """The quadratic about weights that do not change while it is ascended. Entry 0 is the intercept's, f64[k + 1] each.

    gradient  : G
    curvature : D
    lead      : H with the intercept
    gamma     : penalties
    scaled    : f64[nnz]   h x of the columns that may move
    """

    gradient: F64
    curvature: F64
    lead: F64
    gamma: F64
    scaled: F64


@inline_kernel
def product(x: F64, row: U32, v: F64) -> float:
    """Sum of the numbers of a column times those of its rows; a column that has all rows is read without their numbers.

    Source    partial sums: a single one would wait for each addition
    """
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    fours = len(x) // 4
    if len(x) == len(v):
        for f in range(fours):
            y, u = x[4 * f : 4 * f + 4], v[4 * f : 4 * f + 4]
            a, b, c, d = fma(y[0], u[0], a), fma(y[1], u[1], b), fma(y[2], u[2], c), fma(y[3], u[3], d)
    else:
        for f in range(fours):
            y, i = x[4 * f : 4 * f + 4], row[4 * f : 4 * f + 4]
            a, b, c, d = fma(y[0], v[i[0]], a), fma(y[1], v[i[1]], b), fma(y[2], v[i[2]], c), fma(y[3], v[i[3]], d)
    for e in range(4 * fours, len(x)):
        a = fma(x[e], v[row[e]], a)
    return (a + b) + (c + d)


@inline_kernel
def add(step: float, x: F64, row: U32, v: F64) -> None:
    """Add a multiple of a column.

    Source    the axpy of the basic linear algebra subprograms, sparse
    """
    if len(x) == len(v):
        for e in range(len(x)):
            v[e] = fma(step, x[e], v[e])
    else:
        for e in range(len(x)):
            v[row[e]] = fma(step, x[e], v[row[e]])


@kernel
def weigh(columns: Columns, link: int, margin: F64, r: F64, h: F64) -> float:
    """Compute r and h of every row; h is at least FLAT.

    Parameters
    ----------
    columns : Columns    read only
    link : int           LOGISTIC or PROBIT of `links`
    margin : f64[n]      read only
    r, h : f64[n]        overwritten

    Returns              the log-likelihood; -inf if a margin is not finite
    Cost                 an exponential and a logarithm for each row
    Source               Balakrishnan & Madigan 2008, appendix A
    """
    total = 0.0
    for i in range(len(margin)):
        if not math.isfinite(margin[i]):
            return -math.inf
        s, w = columns.label[i], columns.weight[i]
        q, curvature, likelihood = margin_terms(link, s * margin[i])
        r[i], h[i] = w * s * q, w * max(curvature, FLAT)
        total += w * likelihood
    return total


@inline_kernel
def penalty_of(gamma: F64, beta: F64) -> float:
    """The L1 penalty; that of a weight that is 0 is 0.

    Source    Balakrishnan & Madigan 2008, equation 4
    """
    total = 0.0
    for j in range(len(beta)):
        total += gamma[j] * abs(beta[j]) if beta[j] != 0.0 else 0.0
    return total


@kernel
def slope(columns: Columns, r: F64, beta: F64, gamma: F64, gradient: F64) -> tuple[I64, float]:
    """Compute G of every column and of the intercept.

    Parameters
    ----------
    columns : Columns        read only
    r : f64[n]               read only
    beta : f64[k + 1]        read only; entry 0 is the intercept
    gamma : f64[k + 1]       read only
    gradient : f64[k + 1]    overwritten

    Returns                  the entries that may move, the intercept not among them; the largest violation of an optimality
                             condition
    Cost                     one read of the columns
    Source                   Balakrishnan & Madigan 2008, algorithm 3: the active set
    """
    start = columns.start
    at, count = np.empty(len(beta), np.int64), 0
    gradient[0] = r.sum()
    worst = excess(beta[0], gradient[0], gamma[0], 1.0)
    for j in range(1, len(beta)):
        inside = slice(start[j - 1], start[j])
        gradient[j] = product(columns.value[inside], columns.row[inside], r)
        off = abs(gradient[j] - math.copysign(gamma[j], beta[j])) if beta[j] != 0.0 else abs(gradient[j]) - gamma[j]
        if math.isfinite(gamma[j]) and (beta[j] != 0.0 or off > 0.0):
            worst = max(worst, off)
            at[count] = j
            count += 1
    return at[:count], worst


@kernel
def scale(columns: Columns, h: F64, at: I64, quadratic: Quadratic) -> None:
    """Compute D, H with the intercept, and h x, of the columns that may move.

    Parameters
    ----------
    columns : Columns        read only
    h : f64[n]               read only
    at : i64[m]              entries, read only
    quadratic : Quadratic    overwritten at these entries and at the intercept

    Returns                  nothing
    Cost                     one read of the columns, and a write
    Source                   Balakrishnan & Madigan 2008, algorithm 3, steps 3 and 4
    """
    start = columns.start
    quadratic.curvature[0] = h.sum()
    for a in range(len(at)):
        inside = slice(start[at[a] - 1], start[at[a]])
        x, row, scaled = columns.value[inside], columns.row[inside], quadratic.scaled[inside]
        first, second = 0.0, 0.0
        for e in range(len(x)):
            scaled[e] = h[row[e]] * x[e]
            first += scaled[e]
            second = fma(scaled[e], x[e], second)
        quadratic.lead[at[a]], quadratic.curvature[at[a]] = first, second


@kernel
def ascend(columns: Columns, quadratic: Quadratic, at: I64, slack: float, beta: F64, z: F64) -> int:
    """Coordinate ascent of a quadratic. A weight that reaches 0 and satisfies its condition rests until the next step.

    Parameters
    ----------
    columns : Columns        read only
    quadratic : Quadratic    read only
    at : i64[m]              entries that may move; overwritten
    slack : float            the largest violation that may remain
    beta : f64[k + 1]        overwritten
    z : f64[n]               overwritten: 0, then how far the margins have moved

    Returns                  sweeps made
    Cost                     for each sweep one read of the columns that may move, and a write of those that do
    Source                   Yuan, Ho & Lin 2012, An improved GLMNET for L1-regularized logistic regression; Balakrishnan &
                             Madigan 2008, algorithm 1
    """
    start, gamma, curvature, lead = columns.start, quadratic.gamma, quadratic.curvature, quadratic.lead
    g, led = quadratic.gradient[0], leads(beta[0], quadratic.gradient[0], gamma[0], curvature[0])
    left, sweeps, worst = len(at), 0, math.inf
    while sweeps < SWEEPS_MAX and worst > slack:
        worst, kept = 0.0, 0
        for a in range(left):
            j = at[a]
            inside = slice(start[j - 1], start[j])
            row = columns.row[inside]
            own = quadratic.gradient[j] - product(quadratic.scaled[inside], row, z)
            beside = (lead[j], g, curvature[0]) if led else (0.0, 0.0, 1.0)
            along = own - beside[0] / beside[2] * beside[1]
            off = abs(along - math.copysign(gamma[j], beta[j])) if beta[j] != 0.0 else abs(along) - gamma[j]
            new = aim(beta[j], own, gamma[j], curvature[j], beside, LEAST * slack)
            if new != beta[j]:
                worst = max(worst, off)
                add(new - beta[j], columns.value[inside], row, z)
                g -= (new - beta[j]) * lead[j]
                beta[j] = new
            if new != 0.0 or off > 0.0:
                at[kept] = j
                kept += 1
        left = kept
        new = target(g + curvature[0] * beta[0], gamma[0], curvature[0])
        if new != beta[0]:
            worst = max(worst, 0.0 if led else excess(beta[0], g, gamma[0], curvature[0]))
            z += new - beta[0]
            g -= (new - beta[0]) * curvature[0]
            beta[0] = new
        sweeps += 1
    return sweeps


@kernel
def solve_columns(columns: Columns, link: int, gamma: F64, slack: float, beta: F64) -> tuple[int, int]:
    """Find the optimum on the columns.

    Parameters
    ----------
    columns : Columns    read only
    link : int           LOGISTIC or PROBIT of `links`
    gamma : f64[k + 1]   penalties; entry 0 is the intercept's
    slack : float        the largest violation that may remain
    beta : f64[k + 1]    overwritten: where to begin, then the optimum

    Returns              steps; reads of a feature value in them
    Cost                 for each step a read of the columns, and `ascend`
    Source               Friedman, Hastie & Tibshirani 2010, Regularization paths for generalized linear models
    """
    n, size, start = len(columns.label), len(beta), columns.start
    margin, z, r, h = np.full(n, beta[0]), np.empty(n), np.empty(n), np.empty(n)
    for j in range(1, size):
        if beta[j] != 0.0:
            add(beta[j], columns.value[start[j - 1] : start[j]], columns.row[start[j - 1] : start[j]], margin)
    quadratic = Quadratic(np.empty(size), np.zeros(size), np.zeros(size), gamma, np.empty(len(columns.value)))
    objective = weigh(columns, link, margin, r, h) - penalty_of(gamma, beta)
    steps, reads, last, flat = 0, 0, math.inf, False
    while steps < STEPS_MAX:
        at, worst = slope(columns, r, beta, gamma, quadratic.gradient)
        reads += len(columns.value)
        if worst <= slack or (flat and worst >= last):
            break
        last = worst
        scale(columns, h, at, quadratic)
        before, moving = beta.copy(), 0
        for a in range(len(at)):
            moving += start[at[a]] - start[at[a] - 1]
        z[:] = 0.0
        sweeps = ascend(columns, quadratic, at, max(FORCING * worst, 0.5 * slack), beta, z)
        steps, reads = steps + 1, reads + (sweeps + 1) * moving
        step = beta - before
        rise = penalty_of(gamma, before) - penalty_of(gamma, beta)
        for j in range(size):
            if step[j] != 0.0:
                rise += quadratic.gradient[j] * step[j]
        share, taken, found = 1.0, 0.0, -math.inf
        least = -ROUNDING * abs(objective)
        for _ in range(HALVINGS):
            for i in range(n):
                margin[i] += (share - taken) * z[i]
            taken = share
            beta[:] = before + share * step
            found = weigh(columns, link, margin, r, h) - penalty_of(gamma, beta)
            if found - objective >= ARMIJO * share * rise + least:
                break
            share *= 0.5
        if not found - objective >= least:  # no share of the step is better
            beta[:] = before
            break
        flat = found <= objective + ROUNDING * abs(objective)  # what is left is seen in the violation only
        objective = found
    return steps, reads
