"""Metropolis within Gibbs, plainly: the whole log density for each proposal."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from riata.base.arrays import F64
from riata.learn.particle_filter import Events
from tests.twins.particles import normals

TWINS_OF = ("particle_filter",)


def log_likelihood(margin: F64, events: Events) -> float:
    return -float(events.importance @ np.logaddexp(0.0, -events.sign * margin))


def mode_of(events: Events, gamma: F64) -> tuple[F64, F64]:
    """The mode by a general optimiser, and the Cholesky factor of the curvature there."""

    def loss(beta: F64) -> float:
        return 0.25 * float(gamma**2 @ beta**2) - log_likelihood(events.x.T @ beta, events)

    def slope(beta: F64) -> F64:
        p = 1.0 / (1.0 + np.exp(-events.x.T @ beta))
        return 0.5 * gamma**2 * beta - events.x @ (events.importance * ((events.sign > 0.0) - p))

    beta = minimize(loss, np.zeros(len(gamma)), jac=slope, options={"gtol": 1e-10}).x
    p = 1.0 / (1.0 + np.exp(-events.x.T @ beta))
    return beta, np.linalg.cholesky((events.x * (events.importance * p * (1.0 - p))) @ events.x.T + np.diag(0.5 * gamma**2))


def draw_posterior(events: Events, gamma: F64, chance: tuple[int, int], start: tuple[F64, F64], count: int) -> F64:
    """Draws from (mode, factor), each coordinate of u with the same random numbers as the kernel."""
    mode, lower = start
    axes = np.linalg.inv(lower).T
    d = len(mode)
    beta, step, draws, number = mode.copy(), np.full(d, 2.4), [], 0

    def height(at: F64) -> float:
        return log_likelihood(events.x.T @ at, events) - float(gamma @ np.abs(at))

    for sweep in range(500 + count):
        for j in range(d):
            size, other = normals(*chance, number)
            number += 1
            proposed = beta + size * step[j] * axes[:, j]
            taken = math.log(0.5 * math.erfc(other / math.sqrt(2.0))) < height(proposed) - height(beta)
            beta = proposed if taken else beta
            if sweep < 500:
                step[j] *= math.exp((taken - 0.44) / math.sqrt(1.0 + sweep))
        if sweep >= 500:
            draws.append(beta)
    return np.array(draws).T
