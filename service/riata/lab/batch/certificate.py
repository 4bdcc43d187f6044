"""How near weights are to the optimum, from the sums of one pass at these weights.

Theory of operation
    The objective as a minimum is  P(b) = sum_i f_i(c_i) + sum_j gamma_j |b_j|  with f_i = -w_i log p. Its dual is
    D(u) = - sum_i f_i*(-u_i): D(u) <= min P for every u with |sum_i u_i x_ij| <= gamma_j, and with sum_i u_i = 0 if the
    intercept is free. The residuals r almost satisfy this near the optimum. They are scaled: those of positive rows by s_1 and
    those of negative rows by s_0, so that they sum to zero, and all of them by the factor that satisfies the other conditions.

    The dual at scaled residuals would need another pass. A lower bound of it does not. Along s, with f = -log-likelihood and
    m = sum r_i c_i of the rows of one label:
        at s = 1    D = m - f, D' = m, and  -D'' <= E / s,  E = sum w q^2 / h    (`taylor_pass.SPREAD`)
        at s = 0    D = 0, and D is concave
    so D(s) >= m - f - (1 - s) m - (1 - s)^2 E / (2 s)  and  D(s) >= s (m - f).
    -D'' = r^2 / f''(c_s) where the residual at c_s is s r. For the logistic link it is (q / s) / (1 - s q), for the probit link
    (q / s) / delta(c_s) with delta increasing; both are at most 1/s times their value at c. No conjugate of the probit link is
    needed, for which there is no closed form.
    What the bound loses against the dual itself is of third order in 1 - s.
"""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import F64
from riata.lab.batch.expansion import Expansion
from riata.lab.batch.problem import Problem
from riata.lab.batch.solution import Certificate
from riata.lab.batch.taylor_pass import LIKELIHOOD, MOMENT, RESIDUAL, SPREAD


def certify(problem: Problem, at: Expansion, scale: float) -> Certificate:
    """The certificate of the weights that a pass was taken at.

    scale : unit of the violation, usually the largest penalty
    """
    penalty = problem.penalty(at.beta, at.intercept)
    likelihood = float(at.sums[:, LIKELIHOOD].sum())
    return Certificate(likelihood - penalty, _gap(problem, at, penalty), violation(problem, at) / scale)


def violation(problem: Problem, at: Expansion) -> float:
    """Largest violation of an optimality condition: |G_j - gamma_j sgn b_j| if b_j is not 0, otherwise |G_j| - gamma_j."""
    gamma = problem.penalties
    off = np.where(at.beta != 0.0, np.abs(at.gradient - np.copysign(gamma, at.beta)), np.abs(at.gradient) - gamma)
    worst = float(np.max(off, initial=0.0, where=np.isfinite(gamma)))
    if math.isinf(problem.gamma_intercept):
        return worst
    g, own = at.residual, problem.gamma_intercept
    return max(worst, abs(g - math.copysign(own, at.intercept)) if at.intercept else abs(g) - own)


def _gap(problem: Problem, at: Expansion, penalty: float) -> float | None:
    gamma = problem.penalties
    if np.any(gamma == 0.0):
        return None
    share = balance(problem, at)
    gradient = share @ at.gradient_by_label
    limits, sizes = gamma, np.abs(gradient)
    if 0.0 < problem.gamma_intercept < math.inf:
        limits, sizes = np.append(gamma, problem.gamma_intercept), np.append(sizes, abs(at.residual))
    over = sizes > limits
    return dual_distance(at, share * float(np.min(limits[over] / sizes[over], initial=1.0)), penalty)


def dual_distance(at: Expansion, share: F64, penalty: float) -> float:
    """How far the objective is at most from its optimum: `share` f64[2], by label, of the residuals is dual feasible."""
    total = penalty
    for s, sums in zip(share.tolist(), at.sums, strict=True):
        second = math.inf if s < 1.0 else 0.0
        if 0.0 < s < 1.0:
            second = (1.0 - s) ** 2 / (2.0 * s) * float(sums[SPREAD])
        total += min((1.0 - s) * -float(sums[LIKELIHOOD]), second) - s * float(sums[MOMENT])
    return max(total, 0.0)


def balance(problem: Problem, at: Expansion) -> F64:
    """f64[2]: factors of the residuals of either label, at most 1, that make them sum to zero if the intercept is free."""
    negative, positive = (float(size) for size in np.abs(at.sums[:, RESIDUAL]))
    if problem.gamma_intercept > 0.0 or not (negative > 0.0 and positive > 0.0):
        return np.ones(2)
    return np.array([min(1.0, positive / negative), min(1.0, negative / positive)])
