"""Shooting: coordinate ascent of a quadratic under an L1 penalty; `service/native/shooting.c` has the theory of operation.

maximise  G . (b - beta) - (b - beta)' (H + diag(D)) (b - beta) / 2 - sum_j gamma_j |b_j|

problem = Quadratic(beta, gradient, curvature, gamma, cross)    G is the gradient at beta; H is symmetric
sweeps, worst = shoot(problem, slack, sweeps_max)               overwrites beta and G with the optimum and G there
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.native.library import core, struct

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
