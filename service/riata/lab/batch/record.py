"""What a solver keeps of its progress: certificates, the trace, the best weights, and whether to stop.

For solvers that do not certify their weights as they go. `measure` takes one exact pass at given weights, the same for all of
them: their certificates compare.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.lab.batch.certificate import certify
from riata.lab.batch.data import Data
from riata.lab.batch.expansion import Expansion, expansion_of, expansion_request
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import LinkName, Problem
from riata.lab.batch.solution import Certificate, Note, Solution, Spent, Stopped, TraceRow, Watch
from riata.learn.learner import Weights

ROUNDING: Final = 1e-12  # of the objective
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
