"""Slow, obvious twin of `shooting.c`, and modified Shooting as Balakrishnan and Madigan print it."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import F64
from riata.maths.shooting import Quadratic

TWINS_OF = ("shooting",)

LEAST = 0.25  # share of the slack that a violation may have and not be mended, after the first sweep
FLAT = 1e-8  # share of its curvature that a weight must keep beside the first; below it, it moves alone
WEIGHT_MAX = 1e100  # a step to a weight beyond it is skipped


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


def copied(problem: Quadratic) -> Quadratic:
    """The same problem in arrays of its own, with a symmetric H; what is below the diagonal or on it is not read."""
    size = len(problem.beta)
    upper = np.triu(problem.cross[:size, :size], 1)
    beta, gradient, curvature, gamma = (vector.copy() for vector in problem[:4])
    return Quadratic(beta, gradient, curvature, gamma, upper + upper.T)


def objective(problem: Quadratic) -> float:
    """The quadratic at its weights less the penalties, above its value at weights zero. H is symmetric."""
    matrix = problem.cross + np.diag(problem.curvature)
    theta = problem.gradient + matrix @ problem.beta
    return float(theta @ problem.beta - 0.5 * problem.beta @ matrix @ problem.beta - problem.gamma @ np.abs(problem.beta))


def violation(problem: Quadratic) -> float:
    """Largest violation of the conditions of optimality over the weights that have curvature."""
    worst = 0.0
    for beta, g, curvature, gamma in zip(*problem[:4], strict=True):
        if beta != 0.0:
            worst = max(worst, abs(g - math.copysign(gamma, beta)))
        elif curvature > 0.0:
            worst = max(worst, abs(g) - gamma)
    return worst


def move(problem: Quadratic, j: int, delta: float) -> None:
    """One weight moves, and all gradients follow."""
    problem.beta[j] += delta
    problem.gradient[:] -= problem.cross[j] * delta
    problem.gradient[j] -= problem.curvature[j] * delta


def shoot(problem: Quadratic, slack: float, sweeps_max: int) -> tuple[int, float]:
    """Sweep over the weights, one after another, until nothing is violated by more than `slack`. H is symmetric.

    A free first weight goes along: every other is taken to its best value given that the first will be at its own, which
    it is taken to at the end of the sweep. After the first sweep small violations are passed over.
    """
    p, sweeps = problem, 0
    led = len(p.beta) > 1 and p.gamma[0] == 0.0 and p.curvature[0] > 0.0
    while sweeps < sweeps_max and (sweeps == 0 or violation(p) > slack):
        for j in range(int(led), len(p.beta)):
            beta, g, curvature, gamma = (float(vector[j]) for vector in p[:4])
            along, left = g, curvature
            if led:
                pair = np.array([[p.curvature[0], p.cross[0, j]], [p.cross[0, j], curvature]])
                left = float(np.linalg.det(pair / p.curvature[0]) * p.curvature[0])
                along = g - float(p.cross[0, j] * p.gradient[0] / p.curvature[0])
            off = abs(along - math.copysign(gamma, beta)) if beta != 0.0 else abs(along) - gamma
            if off > (LEAST * slack if sweeps else 0.0):
                flat = left <= FLAT * curvature and abs(along + left * beta) > gamma  # it moves alone
                omega, bend = (g + curvature * beta, curvature) if flat else (along + left * beta, left)
                new = math.copysign(max(abs(omega) - gamma, 0.0), omega) / bend if bend > 0.0 else 0.0
                move(p, j, new - beta)
                p.beta[j] = new
        if led:
            move(p, 0, float(p.gradient[0] / p.curvature[0]))
        sweeps += 1
    return sweeps, violation(p)
