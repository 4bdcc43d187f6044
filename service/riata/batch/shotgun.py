"""Shotgun: coordinate descent that moves P weights at the same time (Bradley, Kyrola, Bickson & Guestrin 2011).

    work list    coordinates that are not zero, or whose gradient is near the penalty, by the last exact pass
    P            so many of the work list as one may move without knowing of the others: their number / rho, where rho is the
                 largest eigenvalue of A' A and A has their columns scaled to unit norm
    epoch        the work list in random order, P coordinates in each round; then the intercept, by Newton's method
    guard        if the objective fell, the epoch is undone and P halved; with P = 1 it cannot fall
    certify      after some epochs: an exact pass, which also makes the next work list

Rounds are synchronous and draw from a counter-based generator: a seed gives the same bits for any number of threads. Threads
share the rounds that are long enough to be worth it. The rows are held in memory by feature.
"""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.batch.columns import Columns, gather, memory_bytes, require_memory
from riata.batch.pool import Pool
from riata.batch.problem import Problem
from riata.batch.record import Record
from riata.batch.rmmp import TOLERANCE
from riata.batch.shotgun_round import Place, apply, moves, rounds, settle, shuffle, spectral_radius
from riata.batch.solution import Note, Solution, Watch, watch_nothing
from riata.batch.start import first_weights
from riata.maths.links import LINKS, LOGISTIC

PASSES_MAX: Final = 5000
NEAR: Final = 0.9  # of the penalty: a gradient from which on a coordinate is in the work list
INNER: Final = 0.1  # of the violation that the last exact pass found: when to take the next
EPOCHS_MAX: Final = 20  # between two exact passes
ITERATIONS: Final = 20  # of the estimate of rho
LONG: Final = 50_000  # values in a round: from here on threads save more than their hand-over costs
ROUNDING: Final = 1e-13  # of the objective
NEWTON_STEPS: Final = 5
CURVATURE: Final = {LOGISTIC: 0.25}  # upper bound of h; 1 for the probit link


@dataclass(frozen=True, slots=True)
class Shotgun:
    """The solver.

    tolerance        : see `Rmmp`
    passes_max       : most reads of all feature values
    memory_bytes_max : refuse to begin if more is needed; None: no bound
    at_once          : P; None: by the estimate of rho
    seed             : of the order in which coordinates are drawn
    near             : see NEAR; 0: every coordinate is in the work list, as the paper has it
    """

    tolerance: float = TOLERANCE
    passes_max: int = PASSES_MAX
    memory_bytes_max: int | None = None
    at_once: int | None = None
    seed: int = 0
    near: float = NEAR

    def solve(self, problem: Problem, pool: Pool, watch: Watch = watch_nothing) -> Solution:
        """Find the optimum. Raises `Conflict` for rows of one label, `TooLarge` if the rows do not fit into memory."""
        memory = memory_bytes(problem.data)
        require_memory("shotgun", memory, self.memory_bytes_max)
        record = Record(problem, pool, self.tolerance, watch)
        threads = ThreadPoolExecutor(pool.workers, "riata-shotgun") if pool.workers > 1 else None
        with threads or nullcontext():
            _Run(self, record, threads, pool.workers).solve()
        return record.solution(memory)


class _Run:
    def __init__(self, limits: Shotgun, record: Record, threads: ThreadPoolExecutor | None, workers: int) -> None:
        problem = record.problem
        self._limits, self._record, self._threads, self._workers = limits, record, threads, workers
        self._columns = gather(problem.data)
        self._penalty = problem.penalties
        self._link = LINKS[problem.link].code
        self._counts = np.diff(self._columns.start)
        self._norm = _norms(self._columns)
        self._bound = np.where(np.isfinite(self._penalty), CURVATURE.get(self._link, 1.0) * self._norm, 0.0)
        labels = record.pool.fold("labels", problem.data.parts, {})
        beta, self._intercept = first_weights(problem, labels)
        self._place = _place(self._columns, beta, self._intercept)
        self._at_once = 0  # P
        self._halved = 1
        self._rho: tuple[int, float] = (0, 1.0)  # of a work list of this size
        self._epochs = self._rounds = 0

    def solve(self) -> None:
        record, limits, tolerated = self._record, self._limits, self._limits.tolerance * self._record.problem.scale
        total, work = self._settle(), np.empty(0, np.int64)
        while True:
            at = record.measure(self.beta, self._intercept, len(work))
            if record.stopped is not None:
                return
            if record.passes >= limits.passes_max:
                record.stopped = "passes"
                return
            work = self._work_list(at.gradient)
            self._at_once = self._choose(work)
            assert record.best is not None
            enough = max(INNER * record.best.certificate.kkt * record.problem.scale, 0.5 * tolerated)
            before = total
            for _ in range(EPOCHS_MAX):
                worst, total = self._epoch(work, total)
                if worst <= enough:
                    break
            record.passes = record.accesses // max(record.problem.data.nnz, 1)
            if total <= before and self._at_once == 1:  # rounding leaves nothing to gain
                record.measure(self.beta, self._intercept, len(work))
                record.stopped = record.stopped or "stalled"
                return

    @property
    def beta(self) -> F64:
        """f64[d]: the weights, each the difference of its parts."""
        positive, negative = np.split(self._place.part, 2)
        return positive - negative

    def _work_list(self, gradient: F64) -> I64:
        """The coordinates that the next epochs move."""
        near = self._limits.near
        slope = np.concatenate([gradient, -gradient])
        finite = np.concatenate([self._bound, self._bound]) > 0.0
        near_enough = slope >= near * np.concatenate([self._penalty, self._penalty]) if near > 0.0 else np.ones(len(slope), bool)
        return np.flatnonzero(((self._place.part > 0.0) | near_enough) & finite)

    def _choose(self, work: I64) -> int:
        """P for a work list. rho is estimated again when the list has become twice as long or half."""
        if self._limits.at_once is not None:
            return max(1, self._limits.at_once // self._halved)
        features = np.unique(work % len(self._penalty))
        size, rho = self._rho
        if not size / 2 < len(features) < size * 2 and len(features):
            rho = spectral_radius(self._columns, features, self._norm, ITERATIONS, np.uint64(self._limits.seed))
            self._record.accesses += 2 * ITERATIONS * int(self._counts[features].sum())
            self._rho = len(features), rho
        return max(1, math.ceil(len(features) / max(rho, 1.0)) // self._halved)

    def _epoch(self, work: I64, before: float) -> tuple[float, float]:
        """Move each coordinate of the work list once. Returns the largest violation seen, and the objective."""
        kept, intercept = (self._place.part.copy(), self._place.margin.copy()), self._intercept
        order = work.copy()
        self._epochs += 1
        shuffle(order, np.uint64(self._limits.seed), self._epochs)
        worst = self._move(order)
        total = self._settle()
        if total >= before - ROUNDING * abs(before):
            return worst, total
        if self._at_once > 1:
            self._record.notes.append(
                Note("p_halved", f"P was halved from {self._at_once} to {self._at_once // 2}: the objective had fallen")
            )
            self._halved *= 2
            self._at_once //= 2
        self._place.part[:], self._place.margin[:] = kept
        self._intercept = intercept
        settle(self._columns, self._link, self._place, 0.0)
        return math.inf, before

    def _move(self, order: I64) -> float:
        """The rounds of an epoch, by threads if they are long."""
        at_once = self._at_once
        first, self._rounds = self._rounds + 1, self._rounds + math.ceil(len(order) / at_once)
        length = self._counts[order % len(self._penalty)]
        if self._threads is None or at_once * length.mean() < LONG:
            given = (self._columns, self._link, self._place, self._penalty, self._bound)
            worst, reads = rounds(*given, order, at_once, first)
            self._record.accesses += reads
            return worst
        move = np.empty(len(order))
        found = [
            self._shared(self._threads, order[at : at + at_once], move[at : at + at_once], first + number)
            for number, at in enumerate(range(0, len(order), at_once))
        ]
        self._record.accesses += int(length.sum() + length[move != 0.0].sum())
        return max(found)

    def _shared(self, threads: ThreadPoolExecutor, chosen: I64, move: F64, number: int) -> float:
        """One round, its coordinates and then its rows cut among the threads."""
        place, n = self._place, len(self._place.margin)

        def moved(cut: tuple[int, int]) -> float:
            mine = slice(*cut)
            return moves(self._columns, place, self._penalty, self._bound, chosen[mine], move[mine])

        def applied(cut: tuple[int, int]) -> None:
            apply(self._columns, self._link, place, chosen, move, cut, number)

        worst = max(threads.map(moved, _cuts(len(chosen), self._workers)))
        place.part[chosen] += move
        list(threads.map(applied, _cuts(n, self._workers)))
        return worst

    def _settle(self) -> float:
        """Bring the intercept to its optimum. Returns the objective."""
        problem, free = self._record.problem, self._record.problem.gamma_intercept == 0.0
        total, slope, curvature = settle(self._columns, self._link, self._place, 0.0)
        for _ in range(NEWTON_STEPS if free else 0):
            if abs(slope) <= ROUNDING * abs(total) or curvature == 0.0:
                break
            step = slope / curvature
            after = settle(self._columns, self._link, self._place, step)
            if after[0] < total:  # too far: the step that the bound of the curvature allows cannot be
                shorter = slope / (CURVATURE.get(self._link, 1.0) * float(self._columns.weight.sum()))
                after, step = settle(self._columns, self._link, self._place, shorter - step), shorter
            self._intercept += step
            total, slope, curvature = after
        return total - problem.penalty(self.beta, self._intercept)


def _cuts(n: int, workers: int) -> list[tuple[int, int]]:
    ends = [n * worker // workers for worker in range(workers + 1)]
    return [cut for cut in itertools.pairwise(ends) if cut[0] < cut[1]]


def _norms(columns: Columns) -> F64:
    """f64[d]: sum of w x^2 of each feature."""
    squares = columns.weight[columns.row] * columns.value**2
    return np.add.reduceat(np.append(squares, 0.0), columns.start[:-1]) * (np.diff(columns.start) > 0)


def _place(columns: Columns, beta: F64, intercept: float) -> Place:
    """The state at weights. Its residuals are not set."""
    n = len(columns.label)
    feature = np.repeat(np.arange(len(beta)), np.diff(columns.start))
    margin = intercept + np.bincount(columns.row, columns.value * beta[feature], minlength=n)
    part = np.concatenate([np.maximum(beta, 0.0), np.maximum(-beta, 0.0)])
    return Place(part, margin, np.empty(n), np.zeros(n, np.int32))
