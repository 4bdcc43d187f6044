"""The path of an L1 penalty on a quadratic, by least angle regression (Efron, Hastie, Johnstone & Tibshirani 2004).

    minimise  b' A b / 2 - c' b + penalty * sum |b_j|      for all penalties from the largest that leaves a weight downwards

Along the path the gradients of the weights in the model are all equal to the penalty in size. Weights enter where their gradient
reaches it, all that are tied at once, and leave where they pass through zero. Between two such points the path is straight.

Columns that are a combination of others in the model are not let in: their gradient is tied to those as long as the model is the
same, and a combination of them would be as good. A weight that would move against the sign of its gradient, which happens among
ties, and one that has just left, waits until the penalty has fallen.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64
from riata.jit.kernel import inline_kernel, kernel

TIED: Final = 1e-11  # of the penalty
COLLINEAR: Final = 1e-10  # of the curvature: what others leave of a column that is a combination of them
STEPS: Final = 10  # at most for each column


class LarsPath(NamedTuple):
    """Where a path has come to.

    beta    : f64[k]      weights
    left    : f64[k]      c - A beta
    member  : i64[k]      the columns in the model, in the order of their entry
    sign    : f64[k]      of the gradient of each column in the model; 0: not in it
    held    : f64[k]      the penalty below which a column may enter
    barred  : bool[k]     combinations of columns in the model
    factor  : f64[k, k]   Cholesky factor of A on the model, in the order of entry
    """

    beta: F64
    left: F64
    member: I64
    sign: F64
    held: F64
    barred: BOOL
    factor: F64


@inline_kernel
def append(path: LarsPath, a: F64, j: int, size: int) -> bool:
    """Extend the factor by column j; false if the column is a combination of those in the model.

    Source    Golub & Van Loan 2013, section 4.2
    """
    rest = a[j, j]
    for p in range(size):
        total = a[j, path.member[p]]
        for q in range(p):
            total -= path.factor[p, q] * path.factor[size, q]
        path.factor[size, p] = total / path.factor[p, p]
        rest -= path.factor[size, p] ** 2
    if rest <= COLLINEAR * a[j, j]:
        path.barred[j] = True
        return False
    path.factor[size, size] = math.sqrt(rest)
    path.member[size] = j
    path.sign[j] = 1.0 if path.left[j] > 0.0 else -1.0
    return True


@inline_kernel
def remove(path: LarsPath, p: int, size: int, penalty: float) -> None:
    """Take the member at place p out of the model and of the factor.

    Source    Golub & Van Loan 2013, section 6.5: rotations after a row is deleted
    """
    path.sign[path.member[p]], path.held[path.member[p]] = 0.0, penalty * (1.0 - TIED)
    path.barred[:] = False
    for i in range(p, size - 1):
        path.member[i] = path.member[i + 1]
        path.factor[i, : i + 2] = path.factor[i + 1, : i + 2]
    for i in range(p, size - 1):
        x, y = path.factor[i, i], path.factor[i, i + 1]
        r = math.hypot(x, y)
        for e in range(i, size - 1):
            u, v = path.factor[e, i], path.factor[e, i + 1]
            path.factor[e, i], path.factor[e, i + 1] = (x * u + y * v) / r, (x * v - y * u) / r


@inline_kernel
def solved(path: LarsPath, right: F64, size: int) -> F64:
    """The solution of A w = right on the model.

    Source    Golub & Van Loan 2013, section 3.1
    """
    w = right[:size].copy()
    for p in range(size):
        for q in range(p):
            w[p] -= path.factor[p, q] * w[q]
        w[p] /= path.factor[p, p]
    for p in range(size - 1, -1, -1):
        for q in range(p + 1, size):
            w[p] -= path.factor[q, p] * w[q]
        w[p] /= path.factor[p, p]
    return w


@inline_kernel
def entered(path: LarsPath, a: F64, allowed: BOOL, size: int, penalty: float) -> int:
    """Let in the columns whose gradient has reached the penalty. Returns the size of the model.

    Source    Efron et al. 2004, section 3.1
    """
    for j in range(len(allowed)):
        reached = abs(path.left[j]) >= penalty * (1.0 - TIED) and penalty <= path.held[j]
        if reached and allowed[j] and path.sign[j] == 0.0 and not path.barred[j]:
            size += append(path, a, j, size)
    return size


@inline_kernel
def reach(path: LarsPath, allowed: BOOL, pull: F64, w: F64, size: int, limit: tuple[float, float]) -> tuple[float, int]:
    """How far the path is straight: to the limit, to a column that enters, or to a member that leaves, whose place is returned.

    Source    Efron et al. 2004, equations 2.13 and 3.4
    """
    penalty, step = limit
    leaves = -1
    for j in range(len(allowed)):
        if not allowed[j] or path.sign[j] != 0.0 or path.barred[j] or penalty > path.held[j]:
            continue
        if pull[j] < 1.0:
            step = min(step, max(0.0, (penalty - path.left[j]) / (1.0 - pull[j])))
        if pull[j] > -1.0:
            step = min(step, max(0.0, (penalty + path.left[j]) / (1.0 + pull[j])))
    for p in range(size):
        beta = path.beta[path.member[p]]
        if beta * w[p] < 0.0 and -beta / w[p] <= step:
            step, leaves = -beta / w[p], p
    return step, leaves


@kernel
def lars(a: F64, c: F64, allowed: BOOL, lowest: float, most: float) -> tuple[F64, float, BOOL]:
    """Follow the path down to a penalty, or to a sum of the sizes of the weights.

    Parameters
    ----------
    a : f64[k, k]       symmetric, positive semidefinite; read only
    c : f64[k]
    allowed : bool[k]   columns that may enter; those with a positive diagonal
    lowest : float      the penalty at which to stop
    most : float        the sum of |b_j| at which to stop; inf: any

    Returns             beta f64[k]; the penalty there; bool[k]: columns that would be tied but are combinations of others
    Cost                O(k m) for each step, of which there are little more than weights m at the end
    Source              Efron, Hastie, Johnstone & Tibshirani 2004, section 3.1, with the lasso's modification
    """
    k = len(c)
    path = LarsPath(
        np.zeros(k), c.copy(), np.empty(k, np.int64), np.zeros(k), np.full(k, np.inf), np.zeros(k, np.bool_), np.zeros((k, k))
    )
    penalty, size, length, right = 0.0, 0, 0.0, np.empty(k)
    for j in range(k):
        penalty = max(penalty, abs(c[j])) if allowed[j] else penalty
    for _ in range(STEPS * k + STEPS):
        if penalty <= lowest or length >= most:
            break
        size = entered(path, a, allowed, size, penalty)
        while True:
            for p in range(size):
                right[p] = path.sign[path.member[p]]
            w = solved(path, right, size)
            wrong = -1  # enters, but would move against its sign
            for p in range(size):
                if path.beta[path.member[p]] == 0.0 and w[p] * right[p] < 0.0 and (wrong < 0 or abs(w[p]) > abs(w[wrong])):
                    wrong = p
            if wrong < 0:
                break
            remove(path, wrong, size, penalty)
            size -= 1
        if size == 0:
            break
        pull = np.zeros(k)
        for p in range(size):
            pull += w[p] * a[path.member[p]]
        growth = (w * right[:size]).sum()
        limit = min(penalty - lowest, (most - length) / growth)
        step, leaves = reach(path, allowed, pull, w, size, (penalty, limit))
        for p in range(size):
            path.beta[path.member[p]] += step * w[p]
        path.left[:] -= step * pull
        penalty -= step
        if leaves >= 0:
            path.beta[path.member[leaves]] = 0.0
            remove(path, leaves, size, penalty)
            size -= 1
        length = np.abs(path.beta).sum()
        if step == limit:
            break
    return polished(path, c, size, penalty, most if length >= most * (1.0 - TIED) else np.inf)


@inline_kernel
def polished(path: LarsPath, c: F64, size: int, penalty: float, most: float) -> tuple[F64, float, BOOL]:
    """The end of the path, computed from its model alone: the rounding of the steps is gone.

    Source    Efron et al. 2004, equation 2.6, solved for the weights
    """
    signs, target = np.empty(size), np.empty(size)
    for p in range(size):
        signs[p], target[p] = path.sign[path.member[p]], c[path.member[p]]
    along, whole = solved(path, signs, size), solved(path, target, size)
    if size > 0 and most < np.inf:
        penalty = ((signs * whole).sum() - most) / (signs * along).sum()
    for p in range(size):
        beta = whole[p] - penalty * along[p]
        path.beta[path.member[p]] = beta if beta * signs[p] > 0.0 else 0.0
    return path.beta, penalty, path.barred
