"""Slow, obvious twin of `riata.maths.shooting`, and modified Shooting as Balakrishnan and Madigan print it."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import F64
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
    """Sweep over all weights, one after another, until nothing is violated by more than `slack`."""
    updates = 0
    for _ in range(sweeps_max):
        for j in range(len(twin.beta)):
            curvature, own = float(prior * twin.peak[j] + twin.curvature[j]), float(gamma * twin.gamma[j])
            omega = float(twin.gradient[j] + curvature * twin.beta[j])
            new = math.copysign(max(abs(omega) - own, 0.0), omega) / curvature if curvature > 0.0 else 0.0
            if new != twin.beta[j]:
                move(twin, j, new - float(twin.beta[j]), curvature)
                twin.beta[j] = new
                updates += 1
        if violation(twin, prior, gamma) <= slack:
            break
    return updates, violation(twin, prior, gamma)


def solve_plain(twin: Plain, prior: float, gamma: float, slack: float, sweeps_max: int) -> tuple[int, float]:
    """The same."""
    return solve(twin, prior, gamma, slack, sweeps_max)
