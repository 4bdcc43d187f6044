"""How near weights are to the optimum, from the sums of one pass at these weights.

Theory of operation
    The objective as a minimum is  P(b) = sum_i f_i(c_i) + sum_j gamma_j |b_j|  with f_i = -w_i log p. Its dual is
    D(u) = - sum_i f_i*(-u_i): D(u) <= min P for every u with |sum_i u_i x_ij| <= gamma_j, and with sum_i u_i = 0 if the
    intercept is free. The residuals r almost satisfy this near the optimum. They are scaled: those of positive rows by s_1 and
    those of negative rows by s_0, so that they sum to zero, and all of them by the factor that satisfies the other conditions.

    The dual at scaled residuals would need another pass. A lower bound of it does not. Along s, with f = -log-likelihood and
    m = sum r_i c_i of the rows of one label:
        at s = 1    D = m - f, D' = m, and  -D'' <= E / s,  E = sum w q^2 / h    (`passes.SPREAD`)
        at s = 0    D = 0, and D is concave
    so D(s) >= m - f - (1 - s) m - (1 - s)^2 E / (2 s)  and  D(s) >= s (m - f).
    -D'' = r^2 / f''(c_s) where the residual at c_s is s r. For the logistic link it is (q / s) / (1 - s q), for the probit link
    (q / s) / delta(c_s) with delta increasing; both are at most 1/s times their value at c. No conjugate of the probit link is
    needed, for which there is no closed form.
    What the bound loses against the dual itself is of third order in 1 - s.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from riata.base.arrays import F64, I64, Arrays
from riata.lab.batch.data import Data
from riata.lab.batch.passes import CURVATURE, LIKELIHOOD, MOMENT, RESIDUAL, SPREAD, Request
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Certificate, LinkName, Note, Problem, Solution, Spent, Stopped, TraceRow, Watch
from riata.learn.learner import Weights
from riata.maths.links import LINKS

# The result of one pass at given weights.


@dataclass(frozen=True, slots=True)
class Expansion:
    """The objective's quadratic approximation at weights.

    beta, intercept   : the weights, f64[features] by rank
    members           : i64[k]              S, increasing
    sums              : f64[2, SUMS]        see `passes`, by label
    gradient_by_label : f64[2, features]
    gradient          : f64[features]       G
    curvature         : f64[features]       D
    cross             : f64[k + 1, k + 1]   H above the diagonal; line 0 is the intercept's
    """

    beta: F64
    intercept: float
    members: I64
    sums: F64
    gradient_by_label: F64
    gradient: F64
    curvature: F64
    cross: F64

    @property
    def residual(self) -> float:
        """G of the intercept."""
        return float(self.sums[:, RESIDUAL].sum())

    @property
    def intercept_curvature(self) -> float:
        """D of the intercept."""
        return float(self.sums[:, CURVATURE].sum())


def expansion_request(problem: Problem, beta: F64, intercept: float, members: I64) -> Request:
    """A pass over all rows at the weights, with the curvature of `members` (increasing)."""
    position = np.full(problem.data.features, -1, np.int32)
    position[members] = np.arange(1, len(members) + 1)
    return "taylor", {
        "link": np.array([LINKS[problem.link].code]),
        "beta": beta,
        "intercept": np.array([intercept]),
        "position": position,
        "members": np.array([len(members)]),
    }


def expansion_of(found: Arrays, beta: F64, intercept: float, members: I64) -> Expansion:
    """What such a pass found."""
    sums, by_label = cast(F64, found["sums"]), cast(F64, found["moments"])
    whole = by_label[0] + by_label[1]
    gradient, curvature = np.ascontiguousarray(whole[:, 0]), np.ascontiguousarray(whole[:, 1])
    return Expansion(beta, intercept, members, sums, by_label[:, :, 0], gradient, curvature, cast(F64, found["cross"]))


# Armijo's rule, whose first trial is the next pass.
#
# A step of RMMP is the optimum of a quadratic, which may be far from the objective: from a start that is not zero a full step can
# lower it. Every pass computes the objective at its weights, so a step is checked by the pass after it, at no cost.
# If the objective did not rise enough, one further pass evaluates it at 32 points of the step, and the best is taken.

SHARE: Final = 1e-4  # of the rise that the slope at the start promises
ROUNDING: Final = 1e-12  # of the objective
SHARES: Final = 0.5 ** np.arange(1.0, 33.0)  # far away, curvature underflows and a step is too long by many orders


def promised(problem: Problem, at: Expansion, beta: F64, intercept: float) -> float:
    """The rise of the objective along the step to `beta`, by the slope at `at`: G . step less the change of the penalty."""
    rise = float(at.gradient @ (beta - at.beta)) + at.residual * (intercept - at.intercept)
    return rise - problem.penalty(beta, intercept) + problem.penalty(at.beta, at.intercept)


def rose(objective: float, before: float, rise: float) -> bool:
    """Whether a step satisfies Armijo's rule; false if the objective is not a number."""
    return objective >= before + SHARE * rise - ROUNDING * abs(before)


def search_request(problem: Problem, at: Expansion, beta: F64, intercept: float) -> Request:
    """A pass that finds the log-likelihood at SHARES of the step from `at` to the weights."""
    return "search", {
        "link": np.array([LINKS[problem.link].code]),
        "beta": at.beta,
        "intercept": np.array([at.intercept]),
        "toward_beta": beta,
        "toward_intercept": np.array([intercept]),
        "position": np.empty(0, np.int32),
        "shares": SHARES,
    }


def best_share(problem: Problem, found: Arrays, at: Expansion, beta: F64, intercept: float) -> tuple[float, float]:
    """The best of SHARES, and the objective there, by what such a pass found."""
    penalties = [problem.penalty(*between(at, beta, intercept, share)) for share in SHARES.tolist()]
    objective = cast(F64, found["likelihood"]) - penalties
    best = int(np.argmax(np.where(np.isnan(objective), -np.inf, objective)))
    return float(SHARES[best]), float(objective[best])


def between(at: Expansion, beta: F64, intercept: float, share: float) -> tuple[F64, float]:
    """The weights at a share of the step from `at`."""
    return at.beta + share * (beta - at.beta), at.intercept + share * (intercept - at.intercept)


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


# What a solver keeps of its progress: certificates, the trace, the best weights, and whether to stop.
#
# For solvers that do not certify their weights as they go. `measure` takes one exact pass at given weights, the same for all of
# them: their certificates compare.

NO_MEMBERS: I64 = np.empty(0, np.int64)


@dataclass(slots=True)
class Best:
    """The best weights so far."""

    beta: F64
    intercept: float
    certificate: Certificate


class Record:
    """The record of one solution.

    accesses : feature values that the solver read, its own passes included; the solver adds to it
    passes   : over all rows; the solver adds to it
    notes    : the solver adds to them
    """

    def __init__(self, problem: Problem, pool: Pool, tolerance: float, watch: Watch) -> None:
        self.problem, self.pool = problem, pool
        self._tolerance, self._watch = tolerance, watch
        self._began = time.perf_counter()
        self._lower = -np.inf  # of the dual, best of all passes: minus an upper bound of the objective
        self._trace: list[TraceRow] = []
        self.accesses = 0
        self.passes = 0
        self.notes: list[Note] = []
        self.best: Best | None = None
        self.stopped: Stopped | None = None

    def expand(self, beta: F64, intercept: float, members: I64 = NO_MEMBERS) -> Expansion:
        """One pass over the rows at the weights, with the curvature of `members`."""
        job, given = expansion_request(self.problem, beta, intercept, members)
        self.passes += 1
        self.accesses += self.problem.data.nnz
        return expansion_of(self.pool.fold(job, self.problem.data.parts, given), beta, intercept, members)

    def measure(self, beta: F64, intercept: float, members: int = 0) -> Expansion:
        """Take a pass at the weights and add it to the trace; sets `stopped` if there is a reason to stop.

        members : how many weights the solver moves
        """
        at = self.expand(beta.copy(), intercept)
        self.take(at, self.problem, members)
        return at

    @property
    def last(self) -> Certificate:
        """The certificate of the last measurement."""
        return self._trace[-1].certificate

    def take(self, at: Expansion, problem: Problem, members: int, found: Certificate | None = None) -> Certificate:
        """Add a pass to the trace, with the certificate that it gives for `problem`, or with another one."""
        if found is None:
            found = certify(problem, at, problem.scale)
            if found.gap is not None:
                self._lower = max(self._lower, -found.objective - found.gap)
                found = replace(found, gap=max(0.0, -found.objective - self._lower))
            better = self.best is None or _better(found, self.best.certificate)
        else:
            better = True  # of another problem: its objective does not compare with those before
        if better:
            self.best = Best(at.beta, at.intercept, found)
        seconds = time.perf_counter() - self._began
        non_zeros = int(np.count_nonzero(at.beta))
        row = TraceRow(self.passes, found, non_zeros, members, 0, self.accesses, seconds)
        self._trace.append(row)
        wanted = self._watch(row)
        if found.kkt <= self._tolerance or (found.gap is not None and found.gap <= self._tolerance * abs(found.objective)):
            self.stopped = "tolerance"
        elif not wanted:
            self.stopped = "cancelled"
        return found

    def solution(self, memory: int, gamma: float | None = None) -> Solution:
        """The best weights so far."""
        assert self.best is not None
        assert self.stopped is not None
        problem, best = self.problem, self.best
        spent = Spent(self.passes, self.accesses, memory, time.perf_counter() - self._began)
        weights = weights_by_slot(problem.data, problem.link, best.beta, best.intercept)
        return Solution(weights, best.certificate, tuple(self._trace), None, spent, self.stopped, tuple(self.notes), gamma)


def _better(one: Certificate, other: Certificate) -> bool:
    """Whether an objective is higher; the violation decides where rounding would."""
    rounding = ROUNDING * abs(other.objective)
    if abs(one.objective - other.objective) <= rounding:
        return one.kkt <= other.kkt
    return one.objective > other.objective


def weights_by_slot(data: Data, link: LinkName, beta: F64, intercept: float) -> Weights:
    """Weights f64[features] by rank, without zeros, in the form that models take."""
    held = np.flatnonzero(beta)
    by_slot = held[np.argsort(data.slots[held])]
    return Weights(data.slots[by_slot], beta[by_slot], intercept, link, data.bits)
