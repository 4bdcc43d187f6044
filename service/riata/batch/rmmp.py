"""RMMP: passes over the rows with the curvature of a working set only (Balakrishnan & Madigan 2008, algorithm 3).

    pass z    at the weights b: the objective, G and D of every feature, H on S x S
    certify   from G: an exact certificate of b. Stop if it is good enough
    step      b := optimum of the quadratic on S, by Shooting from G; other weights are frozen and still count in the margins
    S         the next working set (`active_set`)

Memory is d + k^2, whatever the number of rows. The weights that are returned are those of the last good pass, so their
certificate and their sums cost nothing more.

Two things are added to the printed algorithm. S has fewer than k members as long as few weights are not zero. A step is accepted
by Armijo's rule (`line_search`): without it, a start that is not zero may diverge.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from riata.base.arrays import F64, I64, Arrays
from riata.base.errors import TooLarge
from riata.batch.active_set import choose_active, room
from riata.batch.certificate import certify
from riata.batch.expansion import Expansion, expansion_of, expansion_request
from riata.batch.jobs import Request
from riata.batch.line_search import best_share, between, promised, rose, search_request
from riata.batch.pool import Pool, results_held
from riata.batch.problem import Problem
from riata.batch.separation import refuse_separable, separation_request
from riata.batch.solution import Certificate, Solution, Spent, Stopped, Sums, TraceRow, Watch, watch_nothing
from riata.batch.start import first_weights
from riata.learn.learner import Weights
from riata.maths.shooting import Quadratic
from riata.maths.working_set import shoot_active

K: Final = 3000
PASSES_MAX: Final = 100
TOLERANCE: Final = 1e-6
INNER: Final = 1e-4  # looser takes more passes (at 0.01 up to two more), and passes cost more than Shooting
ROUNDING: Final = 1e-13  # of the largest Omega: Shooting cannot leave less
SWEEPS_MAX: Final = 1000
NUMBER_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Rmmp:
    """The solver.

    k                : most members of the working set
    tolerance        : stop if the duality gap is at most this share of the objective, or the largest violation of an optimality
                       condition this share of the penalty
    memory_bytes_max : refuse to begin if more is needed; None: no bound
    inner            : the violation that Shooting may leave, as a share of that of the pass; 0: none, as the paper has it
    whole            : keep the curvature of all features from the first pass on (`mp`)
    """

    k: int = K
    tolerance: float = TOLERANCE
    passes_max: int = PASSES_MAX
    memory_bytes_max: int | None = None
    inner: float = INNER
    whole: bool = False

    def solve(self, problem: Problem, pool: Pool, watch: Watch = watch_nothing) -> Solution:
        """Find the optimum. Raises `Conflict` if there is none, `TooLarge` if memory does not suffice."""
        k = min(self.k, problem.data.features)
        memory = memory_bytes(problem, k, pool.workers)
        if self.memory_bytes_max is not None and memory > self.memory_bytes_max:
            raise TooLarge(_does_not_fit(problem, k, pool.workers, self.memory_bytes_max), "memory_bound")
        return alone(Run(replace(self, k=k), problem, watch, memory).solve(), problem, pool)


Solving = Generator[Request, Arrays, Solution]  # asks for passes, is sent what they found, and returns the solution


def alone(solving: Solving, problem: Problem, pool: Pool) -> Solution:
    """Run each pass that is asked for."""
    request = next(solving)
    try:
        while True:
            request = solving.send(pool.fold(request[0], problem.data.parts, request[1]))
    except StopIteration as end:
        return cast(Solution, end.value)


class Run:
    """One solution in the making."""

    def __init__(self, limits: Rmmp, problem: Problem, watch: Watch, memory: int) -> None:
        self._limits, self._problem, self._watch, self._memory = limits, problem, watch, memory
        self._gamma, self._scale = problem.penalties, problem.scale
        self._began = time.perf_counter()
        self._passes = 0
        self._lower = -np.inf  # of the dual, best of all passes: minus an upper bound of the objective
        self._trace: list[TraceRow] = []
        self.best: Expansion | None = None  # the last pass whose step was accepted, and its certificate
        self.certificate = Certificate(-np.inf, None, np.inf)

    def solve(self) -> Solving:
        """Pass by pass until something stops it."""
        beta, intercept = first_weights(self._problem, (yield "labels", {}))
        members = np.arange(len(beta)) if self._limits.whole else np.flatnonzero(beta)[: self._limits.k]
        while True:
            found = yield self._pass(expansion_request(self._problem, beta, intercept, members))
            at, before = expansion_of(found, beta, intercept, members), self.best
            if before is not None and not rose(self._objective(at), self.certificate.objective, self._promised(before, at)):
                found = yield self._pass(search_request(self._problem, before, beta, intercept))
                share, objective = best_share(self._problem, found, before, beta, intercept)
                if not rose(objective, self.certificate.objective, share * self._promised(before, at)):
                    return self._solution("stalled")
                beta, intercept = between(before, beta, intercept, share)
                continue
            if stopped := self._take(at):
                return self._solution(stopped)
            if before is not None and (asked := separation_request(self._problem, before, at, len(self._trace))):
                refuse_separable(self._problem, asked, (yield asked))
            beta, intercept, members = self._step(at)

    def _pass(self, request: Request) -> Request:
        self._passes += 1
        return request

    def _objective(self, at: Expansion) -> float:
        return certify(self._problem, at, self._scale).objective

    def _promised(self, before: Expansion, at: Expansion) -> float:
        return promised(self._problem, before, at.beta, at.intercept)

    def _take(self, at: Expansion) -> Stopped | None:
        """Accept the weights of a pass; the reason to stop there, if there is one."""
        found = certify(self._problem, at, self._scale)
        if found.gap is not None:
            self._lower = max(self._lower, -found.objective - found.gap)
            found = replace(found, gap=max(0.0, -found.objective - self._lower))
        self.best, self.certificate = at, found
        outside = np.ones(len(at.beta), np.bool_)
        outside[at.members] = False
        row = TraceRow(
            number=self._passes,
            certificate=found,
            non_zeros=int(np.count_nonzero(at.beta)),
            members=len(at.members),
            frozen=int(np.count_nonzero(at.beta[outside])),
            accesses=self._passes * self._problem.data.nnz,
            seconds=time.perf_counter() - self._began,
        )
        self._trace.append(row)
        wanted = self._watch(row)
        if found.kkt <= self._limits.tolerance or (
            found.gap is not None and found.gap <= self._limits.tolerance * abs(found.objective)
        ):
            return "tolerance"
        if not wanted:
            return "cancelled"
        return "passes" if self._passes >= self._limits.passes_max else None

    def _step(self, at: Expansion) -> tuple[F64, float, I64]:
        """The optimum of the quadratic on S, and the next S."""
        held = at.members
        quadratic = Quadratic(
            beta=np.append(at.intercept, at.beta[held]),
            gradient=np.append(at.residual, at.gradient[held]),
            curvature=np.append(at.intercept_curvature, at.curvature[held]),
            gamma=np.append(self._problem.gamma_intercept, self._gamma[held]),
            cross=at.cross.copy() if len(held) else np.zeros((1, 1)),
        )
        omega = np.abs(quadratic.gradient + quadratic.curvature * quadratic.beta)
        slack = max(self._limits.inner * self.certificate.kkt * self._scale, ROUNDING * float(omega.max()))
        shoot_active(quadratic, slack, SWEEPS_MAX, False)
        beta = at.beta.copy()
        beta[held] = quadratic.beta[1:]
        if self._limits.whole:
            return beta, float(quadratic.beta[0]), held
        most = room(self._limits.k, int(np.count_nonzero(beta)), len(held))
        whole = at.gradient + at.curvature * at.beta
        return beta, float(quadratic.beta[0]), choose_active(beta, whole, self._gamma, held, most)

    def weights(self) -> Weights:
        """The best weights so far."""
        at, data = self.best, self._problem.data
        assert at is not None
        held = np.flatnonzero(at.beta)
        by_slot = held[np.argsort(data.slots[held])]
        return Weights(data.slots[by_slot], at.beta[by_slot], at.intercept, self._problem.link, data.bits)

    def _solution(self, stopped: Stopped) -> Solution:
        assert self.best is not None
        data = self._problem.data
        spent = Spent(self._passes, self._passes * data.nnz, self._memory, time.perf_counter() - self._began)
        return Solution(self.weights(), self.certificate, tuple(self._trace), _sums(self.best), spent, stopped)


def memory_bytes(problem: Problem, k: int, workers: int) -> int:
    """What a solution needs at most beside the rows: a pass of each worker with what is summed, and the copies of the step."""
    d = problem.data.features
    result = 4 * d + (k + 1) ** 2
    return NUMBER_BYTES * (results_held(workers, len(problem.data.parts)) * result + 2 * (k + 1) ** 2 + 8 * d)


def _does_not_fit(problem: Problem, k: int, workers: int, most: int) -> str:
    need = memory_bytes(problem, k, workers)
    fits = k
    while fits >= 0 and memory_bytes(problem, fits, workers) > most:
        fits -= 1
    way_out = f"k = {fits} fits" if fits > 0 else f"even k = 1 needs {memory_bytes(problem, 1, workers)} bytes"
    return f"a working set of k = {k} needs {need} bytes and memory_bytes_max is {most}; {way_out}"


def _sums(at: Expansion) -> Sums:
    cross = np.triu(at.cross, 1)
    return Sums(
        rank=at.members,
        gradient=np.append(at.residual, at.gradient[at.members]),
        curvature=np.append(at.intercept_curvature, at.curvature[at.members]),
        cross=cross + cross.T,
        outside_gradient=at.gradient,
        outside_curvature=at.curvature,
    )
