"""Shooting on the few weights that move, when most are zero and stay zero.

A sweep needs the gradients of the weights that may move, and of no others. These weights are the working set: those that are not
zero, and those whose gradient exceeds their penalty. Their numbers are copied to a small problem, which is solved. Then the
gradients of all others are updated once for all moves together. If a gradient exceeds its penalty now, there is another round.

H is needed only above the diagonal. Where the working set is a large part of the problem, H is mirrored and solved in place.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.fma import fma
from riata.maths.rank_update import mirror
from riata.maths.shooting import Quadratic, shoot, violation

WHOLE: Final = 64  # up to this size a problem is solved in place: mirroring costs less than copying
PART: Final = 4  # a working set of more than one weight in this many is solved in place


@inline_kernel
def working_set(problem: Quadratic) -> I64:
    """The weights that may move, increasing: the first, those that are not zero, and those whose gradient exceeds their penalty.

    Source    Balakrishnan & Madigan 2008, algorithm 3: the active set
    """
    p = problem
    at, count = np.empty(len(p.beta), np.int64), 0
    for j in range(len(p.beta)):
        at[count] = j
        count += j == 0 or p.beta[j] != 0.0 or abs(p.gradient[j]) > p.gamma[j]
    return at[:count]


@inline_kernel
def reduced(problem: Quadratic, at: I64) -> Quadratic:
    """A copy of the problem in which all weights but those at `at` are fixed. H is read only above the diagonal.

    Source    Balakrishnan & Madigan 2008, algorithm 3: the reduced problem
    """
    cross = np.empty((len(at), len(at)))
    for a in range(len(at)):
        cross[a, a] = 0.0
        for b in range(a + 1, len(at)):
            cross[a, b] = cross[b, a] = problem.cross[at[a], at[b]]
    return Quadratic(problem.beta[at], problem.gradient[at], problem.curvature[at], problem.gamma[at], cross, problem.halt)


@kernel
def pull(cross: F64, at: I64, step: F64, gradient: F64) -> None:
    """Update the gradients of weights that did not move, for the moves of others. The gradients at `at` become meaningless.

    Parameters
    ----------
    cross : f64[>= d, >= d]   H, read only above the diagonal
    at : i64[k]               the weights that moved, increasing
    step : f64[k]             how far
    gradient : f64[d]         overwritten

    Returns                   nothing
    Cost                      O(d k)
    Source                    Balakrishnan & Madigan 2008, algorithm 1: the update of Omega, for many coordinates
    """
    size, after = len(gradient), 0  # `after`: the first mover after line j
    for j in range(size):
        line = cross[j]
        if after < len(at) and at[after] == j:
            for c in range(j + 1, size):
                gradient[c] = fma(-step[after], line[c], gradient[c])
            after += 1
        total = gradient[j]
        for a in range(after, len(at)):
            total = fma(-step[a], line[np.uint64(at[a])], total)
        gradient[j] = total


@kernel
def shoot_active(problem: Quadratic, slack: float, sweeps_max: int, mirrored: bool) -> tuple[int, float, bool]:
    """Do what `shoot` does, on the working set where that is faster.

    Parameters
    ----------
    problem : Quadratic    beta and gradient are overwritten; H below the diagonal too, unless it is mirrored
    slack : float          largest violation that may remain
    sweeps_max : int       limit of the sweeps, >= 1; at least one is made
    mirrored : bool        whether H below the diagonal equals H above it

    Returns                sweeps made; the violation that remains; whether H is mirrored now
    Cost                   O(d k) for each round with a working set of k, and k for each sweep and each weight moved
    Source                 Balakrishnan & Madigan 2008, algorithm 1 on the active set of algorithm 3
    """
    size = len(problem.beta)
    sweeps, worst = 0, math.inf
    while sweeps < sweeps_max and worst > slack and problem.halt[0] == 0:
        at = working_set(problem)
        if size <= WHOLE or PART * len(at) >= size:
            if not mirrored:
                mirror(problem.cross, size)
            more, worst = shoot(problem, slack, sweeps_max - sweeps)
            return sweeps + more, worst, True
        part = reduced(problem, at)
        more, _ = shoot(part, slack, sweeps_max - sweeps)
        moved = part.beta != problem.beta[at]
        pull(problem.cross, at[moved], (part.beta - problem.beta[at])[moved], problem.gradient)
        problem.beta[at] = part.beta
        problem.gradient[at] = part.gradient
        sweeps += more
        worst = violation(problem)
    return sweeps, worst, mirrored
