"""IRLS-LARS: Newton's method whose quadratic is maximised along the path of its L1 penalty (Lee, Lee, Abbeel & Ng 2006).

    pass      at the weights: G and H of all features
    path      least angle regression on that quadratic: down to gamma, or until the sum of |b_j| is at the bound C
    step      to the end of the path, by Armijo's rule

With a bound, the problem is: the highest likelihood among weights whose sizes sum to at most C. Its solution is the optimum under
the penalty max |G_j|, which is found along the way, so its certificate is that of the penalised problem.

Columns that equal another one are left out, and so are combinations of others where they would be tied; the notes name them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64
from riata.base.errors import BadInput, TooLarge
from riata.lab.batch.certificate import Expansion, Record, best_share, between, certify, promised, rose, search_request
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Note, Problem, Solution, Watch, first_weights, watch_nothing
from riata.lab.batch.rmmp import TOLERANCE, memory_bytes
from riata.native.library import core, struct

FEATURES_MAX: Final = 4000
PASSES_MAX: Final = 100
EQUAL: Final = 1e-12  # relative: curvature, cross curvature and gradient of two equal columns


@dataclass(frozen=True, slots=True)
class IrlsLars:
    """The solver.

    tolerance, passes_max, memory_bytes_max : see `Rmmp`
    bound : C, the most that |b_j| may sum to; the gamma of the problem then plays no part. None: gamma
    """

    tolerance: float = TOLERANCE
    passes_max: int = PASSES_MAX
    memory_bytes_max: int | None = None
    bound: float | None = None

    def solve(self, problem: Problem, pool: Pool, watch: Watch = watch_nothing) -> Solution:
        """Find the optimum. Raises `TooLarge` for too many features, `Conflict` for rows of one label, and `BadInput`."""
        features = problem.data.features
        if features > FEATURES_MAX:
            raise TooLarge(
                f"irls_lars: {features} features, and at most {FEATURES_MAX} are possible; use rmmp", "too_many_features"
            )
        memory = memory_bytes(problem, features, pool.workers)
        if self.memory_bytes_max is not None and memory > self.memory_bytes_max:
            raise TooLarge(
                f"irls_lars keeps the curvature of all {features} features, which needs {memory} bytes, and memory_bytes_max is "
                f"{self.memory_bytes_max}; use rmmp with a smaller k",
                "memory_bound",
            )
        run = _Run(self, Record(problem, pool, self.tolerance, watch))
        return run.solve(memory)


class _Run:
    def __init__(self, limits: IrlsLars, record: Record) -> None:
        self._limits, self._record, problem = limits, record, record.problem
        finite = problem.penalties[np.isfinite(problem.penalties)]
        if limits.bound is None and (len(np.unique(finite)) != 1 or finite[0] == 0.0):
            raise BadInput("irls_lars: expected one penalty above 0 for all features, or a bound", "one_penalty")
        if limits.bound is not None and not 0.0 <= limits.bound < math.inf:
            raise BadInput(f"irls_lars: expected a bound of at least 0, got {limits.bound:g}", "bad_option")
        if problem.gamma_intercept not in (0.0, math.inf):
            raise BadInput("irls_lars: the intercept has no penalty, or is left out", "one_penalty")
        self._lowest = float(finite[0]) if limits.bound is None else 0.0
        self._most = math.inf if limits.bound is None else limits.bound
        # What is maximised: with a bound the likelihood, among weights within it.
        self._problem = problem if limits.bound is None else replace(problem, gamma=_held(problem, 0.0))
        self._allowed: BOOL = np.isfinite(problem.penalties)
        self._named: set[int] = set()

    def solve(self, memory: int) -> Solution:
        record, problem = self._record, self._problem
        beta, intercept = first_weights(problem, record.pool.fold("labels", problem.data.parts, {}))
        size = float(np.abs(beta).sum())
        beta = beta if size <= self._most else beta * (self._most / size)
        members = np.arange(len(beta))
        before: Expansion | None = None
        gamma = self._lowest
        while record.stopped is None:
            at = record.expand(beta, intercept, members)
            objective = certify(problem, at, 1.0).objective
            if before is not None and not rose(objective, self._objective(before), promised(problem, before, beta, intercept)):
                job, given = search_request(problem, before, beta, intercept)
                found = record.pool.fold(job, problem.data.parts, given)
                record.passes, record.accesses = record.passes + 1, record.accesses + problem.data.nnz
                share, best = best_share(problem, found, before, beta, intercept)
                if not rose(best, self._objective(before), share * promised(problem, before, beta, intercept)):
                    record.stopped = "stalled"
                    break
                beta, intercept = between(before, beta, intercept, share)
                continue
            if before is None:
                self._leave_out_duplicates(at)
            gamma = self._take(at)
            if record.stopped is None and record.passes >= self._limits.passes_max:
                record.stopped = "passes"
            before = at
            beta, intercept = self._step(at)
        return record.solution(memory, None if self._limits.bound is None else gamma)

    def _objective(self, at: Expansion) -> float:
        return certify(self._problem, at, 1.0).objective

    def _take(self, at: Expansion) -> float:
        """Certify a pass. Returns the penalty under which it is certified."""
        if self._limits.bound is None:
            self._record.take(at, self._record.problem, len(at.beta))
            return self._lowest
        size = float(np.abs(at.beta).sum())
        gamma = float(np.max(np.abs(at.gradient), initial=0.0, where=self._allowed))
        inside = size < self._most * (1.0 - EQUAL)
        slack = gamma * (self._most - size) if inside else 0.0

        problem = replace(self._record.problem, gamma=_held(self._record.problem, gamma))
        found = certify(problem, at, problem.scale)
        kkt = max(found.kkt, slack / max(self._most * problem.scale, 1e-300))
        found = replace(found, gap=None if found.gap is None else found.gap + slack, kkt=kkt)
        self._record.take(at, problem, len(at.beta), found)
        return gamma

    def _step(self, at: Expansion) -> tuple[F64, float]:
        """The end of the path on the quadratic at a pass."""
        a = np.triu(at.cross, 1)
        a += a.T + np.diag(np.append(at.intercept_curvature, at.curvature))
        now = np.append(at.intercept, at.beta)
        c = a @ now + np.append(at.residual, at.gradient)
        free = self._problem.gamma_intercept == 0.0
        if not free:
            beta, _, barred = lars(np.ascontiguousarray(a[1:, 1:]), c[1:].copy(), self._allowed, self._lowest, self._most)
            self._name(barred)
            return beta, 0.0
        centred = a[1:, 1:] - np.outer(a[1:, 0], a[1:, 0] / a[0, 0])
        allowed = self._allowed & (np.diag(centred) > EQUAL * at.curvature)
        beta, _, barred = lars(centred, c[1:] - a[1:, 0] * (c[0] / a[0, 0]), allowed, self._lowest, self._most)
        self._name(barred)
        return beta, float((c[0] - a[0, 1:] @ beta) / a[0, 0])

    def _leave_out_duplicates(self, at: Expansion) -> None:
        """Forbid columns that equal one with a lower rank. By Cauchy and Schwarz, H_jl = D_j = D_l only for equal columns."""
        order = np.lexsort((np.arange(len(at.beta)), at.gradient, at.curvature))
        ordered, scale = at.curvature[order], EQUAL * max(float(np.max(np.abs(at.gradient), initial=0.0)), 1e-300)
        first, duplicates = 0, []
        for place in range(1, len(order)):
            if ordered[place] - ordered[place - 1] > EQUAL * ordered[place]:
                first = place
            j = order[place]
            for other in order[first:place]:
                low, high = min(j, other), max(j, other)
                same = at.cross[low + 1, high + 1] >= (1.0 - EQUAL) * at.curvature[j]
                if same and self._allowed[other] and abs(at.gradient[j] - at.gradient[other]) <= scale:
                    self._allowed[j] = False
                    duplicates.append(int(j))
                    break
        self._allowed &= at.curvature > 0.0
        self._note("duplicate_columns", "features that equal another one in every row are left out", duplicates)

    def _name(self, barred: BOOL) -> None:
        new = [int(j) for j in np.flatnonzero(barred) if j not in self._named]
        self._named |= set(new)
        if len(self._named) == len(new):
            self._note("collinear_columns", "features that are a combination of others in the model are left out", new)

    def _note(self, code: str, text: str, ranks: list[int]) -> None:
        if ranks:
            slots = tuple(sorted(int(slot) for slot in self._record.problem.data.slots[ranks]))
            self._record.notes.append(Note(code, text, slots))


def _held(problem: Problem, gamma: float) -> F64:
    """A penalty for every feature but those that are to stay 0."""
    return np.where(np.isfinite(problem.penalties), gamma, math.inf)


# The path of an L1 penalty on a quadratic, by least angle regression; the method is in `service/native/shooting.c`.


def lars(a: F64, c: F64, allowed: BOOL, lowest: float, most: float) -> tuple[F64, float, BOOL]:
    """Follow the path down to the penalty `lowest`, or to a sum `most` of the sizes of the weights.

    Returns beta f64[k], the penalty there, and bool[k]: columns that would be tied but are combinations of others. See
    `riata_lars`.
    """
    k = len(c)
    beta, barred = np.empty(k), np.empty(k, np.bool_)
    problem = struct("riata_lars_problem", a=a, c=c, allowed=allowed, k=k)
    penalty = core.lars(problem, lowest, most, beta, barred, np.empty(core.lars_room(k)))
    return beta, penalty, barred
