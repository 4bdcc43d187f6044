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

from riata.base.arrays import F64, I64, distinct
from riata.lab.batch.certificate import Record
from riata.lab.batch.passes import (
    Columns,
    Limits,
    Place,
    Rounds,
    columns_of,
    memory_bytes,
    require_memory,
    shuffle,
    spectral_radius,
)
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Note, Problem, Solution, Watch, first_weights, watch_nothing
from riata.lab.batch.rmmp import TOLERANCE
from riata.maths.links import LINKS, LOGISTIC

PASSES_MAX: Final = 5000
NEAR: Final = 0.9  # of the penalty: a gradient from which on a coordinate is in the work list
INNER: Final = 0.1  # of the violation that the last exact pass found: when to take the next
EPOCHS_MAX: Final = 20  # between two exact passes
STALLS_MAX: Final = 5  # times in a row that neither the objective nor the conditions improve: rounding
ITERATIONS: Final = 20  # of the estimate of rho
LONG: Final = 50_000  # values in a round: from here on threads save more than their hand-over costs
ROUNDING: Final = 1e-13  # of the objective
NEWTON_STEPS: Final = 5
REACH: Final = 1.0  # of the first move, in units of the margin
CURVATURE: Final = {LOGISTIC: 0.25}  # upper bound of h; 1 for the probit link


@dataclass(frozen=True, slots=True)
class Shotgun:
    """The solver.

    tolerance        : see `Rmmp`
    passes_max       : most reads of all feature values
    memory_bytes_max : refuse to begin if more is needed; None: no bound
    at_once          : P; None: by the estimate of rho
    seed             : of the order in which coordinates are drawn
    plain            : as published: every coordinate is in the work list, and every step is by the largest possible curvature
    """

    tolerance: float = TOLERANCE
    passes_max: int = PASSES_MAX
    memory_bytes_max: int | None = None
    at_once: int | None = None
    seed: int = 0
    plain: bool = False

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
        self._columns = columns_of(problem.data)
        self._penalty = problem.penalties
        self._link = LINKS[problem.link].code
        self._counts = np.diff(self._columns.start)
        self._norm = _norms(self._columns)
        bound = np.where(np.isfinite(self._penalty), CURVATURE.get(self._link, 1.0) * self._norm, 0.0)
        self._bounds = Limits(self._penalty, bound, _peaks(self._columns))
        labels = record.pool.fold("labels", problem.data.parts, {})
        beta, self._intercept = first_weights(problem, labels)
        self._place = _place(self._columns, beta, self._intercept)
        if not limits.plain and problem.link == "logistic":
            self._place.reach[:] = np.tile(REACH / np.maximum(self._bounds.peak, 1e-300), 2)
        self._round = Rounds(self._columns, self._link, self._place, self._bounds)
        self._at_once = 0  # P
        self._halved = 1
        self._rho: tuple[int, float] = (0, 1.0)  # of a work list of this size
        self._epochs = self._rounds = 0

    def solve(self) -> None:
        record, limits, tolerated = self._record, self._limits, self._limits.tolerance * self._record.problem.scale
        total, work, before, kkt, stalls = self._settle(), np.empty(0, np.int64), -math.inf, math.inf, 0
        while True:
            at = record.measure(self.beta, self._intercept, len(work))
            found = record.last.kkt
            if record.stopped is not None:
                return
            stalls = stalls + 1 if total <= before and found >= kkt else 0
            if record.passes >= limits.passes_max or stalls >= STALLS_MAX:
                record.stopped = "passes" if record.passes >= limits.passes_max else "stalled"
                return
            work, before, kkt = self._work_list(at.gradient), total, min(kkt, found)
            self._at_once = self._choose(work)
            enough = max(INNER * found * record.problem.scale, 0.5 * tolerated)
            for _ in range(EPOCHS_MAX):
                worst, total = self._epoch(work, total)
                if worst <= enough:
                    break
            record.passes = record.accesses // max(record.problem.data.nnz, 1)

    @property
    def beta(self) -> F64:
        """f64[d]: the weights, each the difference of its parts."""
        positive, negative = np.split(self._place.part, 2)
        return positive - negative

    def _work_list(self, gradient: F64) -> I64:
        """The coordinates that the next epochs move."""
        movable = np.tile(self._bounds.bound > 0.0, 2)
        if self._limits.plain:
            return np.flatnonzero(movable)
        near = np.concatenate([gradient, -gradient]) >= NEAR * np.tile(self._penalty, 2)
        return np.flatnonzero(((self._place.part > 0.0) | near) & movable)

    def _choose(self, work: I64) -> int:
        """P for a work list. rho is estimated again when the list has become twice as long or half."""
        if self._limits.at_once is not None:
            return max(1, self._limits.at_once // self._halved)
        features = distinct(work % len(self._penalty))
        size, rho = self._rho
        if not size / 2 < len(features) < size * 2 and len(features):
            rho = spectral_radius(self._columns, features, self._norm, ITERATIONS, self._limits.seed)
            self._record.accesses += 2 * ITERATIONS * int(self._counts[features].sum())
            self._rho = len(features), rho
        return max(1, math.ceil(len(features) / max(rho, 1.0)) // self._halved)

    def _epoch(self, work: I64, before: float) -> tuple[float, float]:
        """Move each coordinate of the work list once. Returns the largest violation seen, and the objective."""
        kept, intercept = (self._place.part.copy(), self._place.margin.copy()), self._intercept
        order = work.copy()
        self._epochs += 1
        shuffle(order, self._limits.seed, self._epochs)
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
        self._round.settle(0.0)
        return math.inf, before

    def _move(self, order: I64) -> float:
        """The rounds of an epoch, by threads if they are long."""
        at_once = self._at_once
        first, self._rounds = self._rounds + 1, self._rounds + math.ceil(len(order) / at_once)
        length = self._counts[order % len(self._penalty)]
        if self._threads is None or at_once * length.mean() < LONG:
            worst, reads = self._round.advance(order, at_once, first)
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
            return self._round.moves(chosen[mine], move[mine])

        def applied(cut: tuple[int, int]) -> None:
            self._round.apply(chosen, move, cut, number)

        worst = max(threads.map(moved, _cuts(len(chosen), self._workers)))
        place.part[chosen] += move
        list(threads.map(applied, _cuts(n, self._workers)))
        return worst

    def _settle(self) -> float:
        """Bring the intercept to its optimum. Returns the objective."""
        problem, free = self._record.problem, self._record.problem.gamma_intercept == 0.0
        total, slope, curvature = self._round.settle(0.0)
        for _ in range(NEWTON_STEPS if free else 0):
            if abs(slope) <= ROUNDING * abs(total) or curvature == 0.0:
                break
            step = slope / curvature
            after = self._round.settle(step)
            if after[0] < total:  # too far: the step that the bound of the curvature allows cannot be
                shorter = slope / (CURVATURE.get(self._link, 1.0) * float(self._columns.weight.sum()))
                after, step = self._round.settle(shorter - step), shorter
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


def _peaks(columns: Columns) -> F64:
    """f64[d]: the largest |x| of each feature."""
    return np.maximum.reduceat(np.append(np.abs(columns.value), 0.0), columns.start[:-1]) * (np.diff(columns.start) > 0)


def _place(columns: Columns, beta: F64, intercept: float) -> Place:
    """The state at weights. Its residuals are not set."""
    n = len(columns.label)
    feature = np.repeat(np.arange(len(beta)), np.diff(columns.start))
    margin = np.bincount(columns.row, columns.value * beta[feature], minlength=n).astype(np.float64) + intercept
    part: F64 = np.concatenate([np.maximum(beta, 0.0), np.maximum(-beta, 0.0)])
    return Place(part, margin, np.empty(n), np.empty(n), np.full(len(part), np.inf), np.zeros(n, np.int32))
