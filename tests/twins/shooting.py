"""Slow, obvious twin of `riata.maths.shooting`, and modified Shooting as Balakrishnan and Madigan print it."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import F64
from riata.maths.shooting import FLAT, LEAST
from tests.twins.block import Plain, move


def printed_sweeps(psi: F64, theta: F64, gamma: F64, sweeps: int) -> list[F64]:
    """Weights after each sweep of algorithm 1 from zero: Omega = 2 Psi' beta + theta, where Psi' has no diagonal.

    Psi_jj = 0 leaves the weight at 0: the printed algorithm would divide by it.
    """
    d = len(theta)
    beta, omega, after = np.zeros(d), theta.copy(), []
    for _ in range(sweeps):
        for j in range(d):
            old = float(beta[j])
            if psi[j, j] == 0.0 or abs(omega[j]) <= gamma[j]:
                beta[j] = 0.0
            elif omega[j] > gamma[j]:
                beta[j] = (gamma[j] - omega[j]) / (2.0 * psi[j, j])
            else:
                beta[j] = (-gamma[j] - omega[j]) / (2.0 * psi[j, j])
            for c in range(d):
                if c != j:
                    omega[c] += 2.0 * psi[c, j] * (beta[j] - old)
        after.append(beta.copy())
    return after


def objective(twin: Plain, gamma: float) -> float:
    """The sketch at its weights, above its value at weights zero; without a prior."""
    matrix = twin.cross + np.diag(twin.curvature)
    theta = twin.gradient + matrix @ twin.beta
    return float(theta @ twin.beta - 0.5 * twin.beta @ matrix @ twin.beta - gamma * twin.gamma @ np.abs(twin.beta))


def violation(twin: Plain, prior: float, gamma: float) -> float:
    """Largest violation of the conditions of optimality over the members that have curvature."""
    worst = 0.0
    for beta, g, own, curvature in zip(
        twin.beta, twin.gradient, gamma * twin.gamma, prior * twin.peak + twin.curvature, strict=True
    ):
        if beta != 0.0:
            worst = max(worst, abs(g - math.copysign(own, beta)))
        elif curvature > 0.0:
            worst = max(worst, abs(g) - own)
    return worst


def solve(twin: Plain, prior: float, gamma: float, slack: float, sweeps_max: int) -> tuple[int, float]:
    """Sweep over the weights, one after another, until nothing is violated by more than `slack`.

    A free first weight goes along: every other is taken to its best value given that the first will be at its own, which
    it is taken to at the end of the sweep. After the first sweep small violations are passed over.
    """
    updates, total, own = 0, prior * twin.peak + twin.curvature, gamma * twin.gamma
    led = len(total) > 1 and own[0] == 0.0 and total[0] > 0.0
    for sweep in range(sweeps_max):
        for j in range(int(led), len(total)):
            beta, g, curvature = float(twin.beta[j]), float(twin.gradient[j]), float(total[j])
            along, left = g, curvature
            if led:
                pair = np.array([[total[0], twin.cross[0, j]], [twin.cross[0, j], curvature]])
                left = float(np.linalg.det(pair / total[0]) * total[0])
                along = g - float(twin.cross[0, j] * twin.gradient[0] / total[0])
            off = abs(along - math.copysign(own[j], beta)) if beta != 0.0 else abs(along) - own[j]
            if off > (LEAST * slack if sweep else 0.0):
                flat = left <= FLAT * curvature and abs(along + left * beta) > own[j]  # it moves alone
                omega, bend = (g + curvature * beta, curvature) if flat else (along + left * beta, left)
                new = math.copysign(max(abs(omega) - own[j], 0.0), omega) / bend if bend > 0.0 else 0.0
                move(twin, j, new - beta, float(total[j]))
                twin.beta[j] = new
                updates += new != beta
        if led:
            move(twin, 0, float(twin.gradient[0] / total[0]), float(total[0]))
        if violation(twin, prior, gamma) <= slack:
            break
    return updates, violation(twin, prior, gamma)


def solve_plain(twin: Plain, prior: float, gamma: float, slack: float, sweeps_max: int) -> tuple[int, float]:
    """The same."""
    return solve(twin, prior, gamma, slack, sweeps_max)
