"""Modified Shooting: coordinate ascent of a quadratic under an L1 penalty, on plain arrays.

    maximise  G . (b - beta) - (b - beta)' (H + diag(D)) (b - beta) / 2 - sum_j gamma_j |b_j|

For every user of such a quadratic: the Taylor sketch, the regularisation path, and batch solvers.

    problem = Quadratic(beta, gradient, curvature, gamma, cross)    G is the gradient at beta; H is symmetric
    sweeps, worst = shoot(problem, slack, sweeps_max)               overwrites beta and G with the optimum and G there

The working set of a larger problem is a problem of its own, of k members. `working_set.shoot_active` chooses it, and needs H
only above the diagonal.

There are two changes to the printed algorithm. Neither changes its optimum, or the rule by which the optimum is recognised.

The first weight, if it has no penalty (as an intercept), moves along with every other: a weight is moved to the optimum of the
two coordinates together. With text the intercept is nearly a sum of features, and updating one coordinate at a time converges
slowly along that valley (measured: 381 sweeps became 17). This needs no second update of the gradients: the optimum of the first
weight follows from its own gradient at any time, so it moves once, at the end of the sweep.

After the first sweep only weights that violate their condition by more than a quarter of the slack are updated (LEAST).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.fma import fma

LEAST: Final = 0.25
FLAT: Final = 1e-8  # share of its curvature that a weight must keep beside the first; below it, it moves alone (rounding)
WEIGHT_MAX: Final = 1e100  # a step to a weight beyond it is skipped: products of curvatures and weights stay finite
NEVER: Final = np.zeros(1, np.int64)  # the flag of a problem that nobody gives up


class Quadratic(NamedTuple):
    """A quadratic about its present weights, and the L1 penalty of each weight. All in the same units.

    beta      : f64[d]                weights
    gradient  : f64[d]                G, at beta
    curvature : f64[d]                D, the diagonal; a weight without curvature stays 0
    gamma     : f64[d]                penalties in force, >= 0; inf keeps a weight at 0
    cross     : f64[>= d, >= d]       H; its diagonal is never read
    halt      : i64[1]                once another thread has set it, a solve leaves after its sweep, short of the optimum
    """

    beta: F64
    gradient: F64
    curvature: F64
    gamma: F64
    cross: F64
    halt: I64 = NEVER


@inline_kernel
def target(omega: float, gamma: float, curvature: float) -> float:
    """The optimum of one weight while the others are fixed; 0 if there is no curvature to divide by.

    Source    Balakrishnan & Madigan 2008, algorithm 1: soft(Omega, gamma) / D, which is its three cases in one
    """
    if curvature <= 0.0 or abs(omega) <= gamma:
        return 0.0
    new = (omega - math.copysign(gamma, omega)) / curvature
    return new if abs(new) <= WEIGHT_MAX else 0.0


@inline_kernel
def aim(beta: float, g: float, gamma: float, curvature: float, lead: tuple[float, float, float], least: float) -> float:
    """The optimum of one weight if the first moves along and all others are fixed; unchanged if its violation is at most `least`.

    lead : cross curvature with the first, its gradient, its curvature; (0, 0, 1) if it is fixed too

    Source    Balakrishnan & Madigan 2008, algorithm 1, on the sketch with the first coordinate maximised out
    """
    share = lead[0] / lead[2]
    left = curvature - lead[0] * share
    along = g - share * lead[1]
    off = abs(along - math.copysign(gamma, beta)) if beta != 0.0 else abs(along) - gamma
    if off <= least:
        return beta
    if left > FLAT * curvature or abs(along + left * beta) <= gamma:
        return target(along + left * beta, gamma, left)
    return target(g + curvature * beta, gamma, curvature)


@inline_kernel
def leads(beta: float, g: float, gamma: float, curvature: float) -> bool:
    """Whether the first weight can move along: it has no penalty, and a step of its own would be finite.

    Source    this module
    """
    return gamma == 0.0 and curvature > 0.0 and abs(g + curvature * beta) <= WEIGHT_MAX * curvature


@inline_kernel
def excess(beta: float, g: float, gamma: float, curvature: float) -> float:
    """The violation of one weight's optimality condition; 0 if the weight is 0 because it cannot move.

    Source    Karush-Kuhn-Tucker conditions of the sketch
    """
    if beta != 0.0:
        return abs(g - math.copysign(gamma, beta))
    return abs(g) - gamma if target(g, gamma, curvature) != 0.0 else 0.0


@inline_kernel
def violation(problem: Quadratic) -> float:
    """Largest violation of the optimality conditions, over the weights that can move: |G_j - gamma_j sgn beta_j| if beta_j is
    not 0, max(0, |G_j| - gamma_j) otherwise.

    Source    Karush-Kuhn-Tucker conditions of the sketch
    """
    p, worst = problem, 0.0
    for j in range(len(p.beta)):
        worst = max(worst, excess(p.beta[j], p.gradient[j], p.gamma[j], p.curvature[j]))
    return worst


@inline_kernel
def shift(gradient: F64, line: F64, j: int, step: tuple[float, float]) -> None:
    """Update all gradients for a move of weight j; `step`: how far, and its curvature. `line` is line j of H.

    Source    Balakrishnan & Madigan 2008, algorithm 1: the update of Omega
    """
    own = fma(-step[0], step[1], gradient[j])
    for c in range(len(gradient)):
        gradient[c] = fma(-step[0], line[c], gradient[c])
    gradient[j] = own


@kernel
def shoot(problem: Quadratic, slack: float, sweeps_max: int) -> tuple[int, float]:
    """Move the weights until no optimality condition is violated by more than `slack`.

    Parameters
    ----------
    problem : Quadratic    beta and gradient are overwritten
    slack : float          largest violation that may remain: a share of gamma, or if gamma is 0, of the gradient of one event
    sweeps_max : int       limit of the sweeps, >= 1; at least one is made

    Returns                sweeps made; the violation that remains
    Cost                   d for each sweep and for each weight moved
    Source                 Balakrishnan & Madigan 2008, algorithm 1, in gradient form
    """
    beta, g, curvature, gamma, cross, halt = problem
    size = len(beta)
    led = 1 if size > 1 and leads(beta[0], g[0], gamma[0], curvature[0]) else 0
    sweeps, worst, least = 0, math.inf, 0.0
    while sweeps < sweeps_max and worst > slack and halt[0] == 0:
        for j in range(led, size):
            lead = (cross[0, j], g[0], curvature[0]) if led else (0.0, 0.0, 1.0)
            new = aim(beta[j], g[j], gamma[j], curvature[j], lead, least)
            if new != beta[j]:
                shift(g, cross[j], j, (new - beta[j], curvature[j]))
                beta[j] = new
        if led:
            new = target(g[0] + curvature[0] * beta[0], 0.0, curvature[0])
            shift(g, cross[0], 0, (new - beta[0], curvature[0]))
            beta[0] = new
        sweeps += 1
        worst, least = violation(problem), LEAST * slack
    return sweeps, worst
