"""Shooting: coordinate ascent of a quadratic under an L1 penalty; `service/native/shooting.c` has the theory of operation.

maximise  G . (b - beta) - (b - beta)' (H + diag(D)) (b - beta) / 2 - sum_j gamma_j |b_j|

problem = Quadratic(beta, gradient, curvature, gamma, cross)    G is the gradient at beta; H is symmetric
sweeps, worst = shoot(problem, slack, sweeps_max)               overwrites beta and G with the optimum and G there
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel
from riata.native.library import core, struct

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


def shoot(problem: Quadratic, slack: float, sweeps_max: int) -> tuple[int, float]:
    """Move the weights until no optimality condition is violated by more than `slack`; see `riata_shoot`.

    Returns the sweeps made, and the violation that remains.
    """
    given = _struct_of(problem)
    return core.shoot(given, slack, sweeps_max), given.worst


def shoot_active(problem: Quadratic, slack: float, sweeps_max: int, mirrored: bool) -> tuple[int, float, bool]:
    """Do what `shoot` does, on the working set where that is faster; see `riata_shoot_active`. H is read above the diagonal only.

    mirrored : whether H below the diagonal equals H above it

    Returns the sweeps made, the violation that remains, and whether H is mirrored now.
    """
    given, work = _struct_of(problem), np.empty(core.shoot_active_room(len(problem.beta)))
    given.mirrored = mirrored
    return core.shoot_active(given, slack, sweeps_max, work), given.worst, given.mirrored


def _struct_of(problem: Quadratic) -> Any:
    return struct("riata_quadratic", **problem._asdict(), stride=problem.cross.shape[1], size=len(problem.beta))


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
