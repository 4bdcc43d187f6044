"""The batch optimum that an online learner is held against: plain numpy, and nothing of the learner's own code.

Newton's method on the whole data, each step a quadratic with an L1 penalty that is solved by coordinates. From zero its iterates
are those of the paper's MP, pass by pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, log_expit, log_ndtr

from riata.base.arrays import F64
from tests.bench.sketch_design import ProbitOrLogistic

PASSES_MAX: Final = 60
SWEEPS_MAX: Final = 10_000
KKT_SHARE: Final = 1e-10  # of gamma


@dataclass(frozen=True, slots=True)
class Optimum:
    """beta f64[d], the violation of the optimality conditions there, and the iterate after each pass."""

    beta: F64
    kkt: float
    passes: list[F64]


def derivatives(c: F64, y: F64, link: ProbitOrLogistic) -> tuple[F64, F64, float]:
    """Residual r f64[t], curvature h f64[t] and log-likelihood at the margins c f64[t]."""
    s = 2.0 * y - 1.0
    m = s * c
    if link == "logistic":
        p = expit(c)
        return y - p, p * (1.0 - p), float(log_expit(m).sum())
    log_p = log_ndtr(m)
    mills = np.exp(-0.5 * m * m - 0.5 * np.log(2.0 * np.pi) - log_p)
    return s * mills, mills * (mills + m), float(log_p.sum())


def kkt_residual(gradient: F64, beta: F64, gamma: F64) -> float:
    """Largest violation of the optimality conditions of log-likelihood - sum_j gamma_j |beta_j|."""
    at_zero = np.maximum(np.abs(gradient) - gamma, 0.0)
    return float(np.where(beta == 0.0, at_zero, np.abs(gradient - gamma * np.sign(beta))).max())


def solve_quadratic(gradient: F64, curvature: F64, beta: F64, gamma: F64, tolerance: float) -> F64:
    """Maximise the quadratic with that gradient and curvature f64[d, d] at `beta`, less the L1 penalty, by cyclic coordinates."""
    beta, gradient = beta.copy(), gradient.copy()
    diagonal = np.diag(curvature).tolist()
    for _ in range(SWEEPS_MAX):
        largest = 0.0
        for j, d in enumerate(diagonal):
            omega = float(gradient[j]) + d * float(beta[j])
            new = np.sign(omega) * max(abs(omega) - float(gamma[j]), 0.0) / d if d > 0.0 else 0.0
            move = new - float(beta[j])
            if move:
                beta[j] = new
                gradient -= curvature[j] * move
                largest = max(largest, abs(move) * d)
        if largest <= tolerance:
            break
    return beta


def batch_optimum(x: F64, y: F64, gamma: F64, link: ProbitOrLogistic, start: F64 | None = None) -> Optimum:
    """Maximise the log-likelihood of y given x f64[t, d] less sum_j gamma_j |beta_j|, to KKT_SHARE of the largest gamma."""
    goal = KKT_SHARE * float(gamma.max())
    beta = np.zeros(x.shape[1]) if start is None else start
    before, objective_before = beta, -np.inf
    passes: list[F64] = []
    kkt = np.inf
    for _ in range(PASSES_MAX):
        r, h, likelihood = derivatives(x @ beta, y, link)
        objective = likelihood - float(gamma @ np.abs(beta))
        if objective < objective_before - 1e-12 * abs(objective_before):
            beta = (beta + before) / 2.0  # a step too far: half of it
            continue
        gradient = x.T @ r
        kkt = kkt_residual(gradient, beta, gamma)
        if kkt <= goal:
            break
        before, objective_before = beta, objective
        beta = solve_quadratic(gradient, (x.T * h) @ x, beta, gamma, 1e-3 * goal)
        passes.append(beta)
    return Optimum(beta, kkt, passes)
