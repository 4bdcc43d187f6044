"""RMMP: passes over the rows with the curvature of a working set only (Balakrishnan & Madigan 2008, algorithm 3).

    pass z    at the weights b: the objective, G and D of every feature, H on S x S
    certify   from G: an exact certificate of b. Stop if it is good enough
    step      b := optimum of the quadratic on S, by Shooting from G; other weights are frozen and still count in the margins
    S         the next working set (`choose_active`)

Memory is d + k^2, whatever the number of rows. The weights that are returned are those of the last good pass, so their
certificate and their sums cost nothing more.

Where the columns of S fit in memory, H is not summed at all: the step is the optimum on S, found on its columns (`held`), and S
may have more than k members. A pass over all rows then costs a fraction of one with H, and there are fewer of them. If S is
every feature and no start was given, the first pass is at the optimum.

Two things are added to the printed algorithm. S has fewer than k members as long as few weights are not zero. A step is accepted
by Armijo's rule (`best_share`): without it, a start that is not zero may diverge.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from riata.base.arrays import F64, I64, U32, Arrays
from riata.base.errors import BadInput, Conflict, TooLarge
from riata.lab.batch.certificate import (
    Expansion,
    best_share,
    between,
    certify,
    expansion_of,
    expansion_request,
    promised,
    rose,
    search_request,
)
from riata.lab.batch.data import Data, DataInMemory, PartInMemory, Rows
from riata.lab.batch.passes import Columns, Request, answer_to, columns_of, merged, native_columns
from riata.lab.batch.pool import Pool, results_held
from riata.lab.batch.problem import (
    Certificate,
    Problem,
    Solution,
    Spent,
    Stopped,
    Sums,
    TraceRow,
    Watch,
    first_weights,
    watch_nothing,
)
from riata.learn.learner import Weights
from riata.maths.links import LINKS
from riata.maths.shooting import Quadratic, shoot_active
from riata.native.library import core

# Which weights a pass of RMMP keeps the curvature of: the working set S, of at most k members.
#
# Balakrishnan and Madigan leave two things open: which Omega decides, and what fills the room that is left. Here Omega is that of
# the pass, at the weights before the step, since H of a feature outside S is not known. The order of preference is:
#
#     0   weights that are not zero, by size: dropping one would freeze it
#     1   weights whose |Omega_j| is at least gamma_j, by |Omega_j|
#     2   members of S, by |Omega_j|: without them S would alternate between neighbours of the boundary
#     3   weights whose |Omega_j| is at least NEAR gamma_j, by |Omega_j|

NEAR: Final = 0.8
FIRST: Final = 256  # room at the start
HELD_FIRST: Final = 1024  # room at the start if columns are held
SPARE: Final = 4  # room for one more for each so many that are not zero
FULL: Final = 0.8  # share of members that are not zero from which on S is too small to judge by
GROWTH: Final = 4


def room(k: int, non_zeros: int, members: int) -> int:
    """How many members S may have next: k, or fewer as long as few weights are not zero.

    The cost of a pass grows with the square of S, and 1.25 times the support is enough. A set of which nearly all are used grows
    at once.
    """
    if members and non_zeros >= FULL * members:
        return min(k, GROWTH * members)
    return min(k, non_zeros + max(FIRST, non_zeros // SPARE))


def held_room(non_zeros: int, members: int) -> int:
    """How many members S may have next if its columns are held in memory: a member costs no more than its column."""
    if members and non_zeros >= FULL * members:
        return GROWTH * members
    return 2 * non_zeros + HELD_FIRST


def choose_active(beta: F64, omega: F64, gamma: F64, members: I64, most: int) -> I64:
    """The next S: i64[<= most], increasing.

    beta    : f64[d]   after the step, or of the pass
    omega   : f64[d]   G + D beta of the pass
    gamma   : f64[d]
    members : i64[k]   the present S
    """
    size = np.abs(omega)
    order = np.full(len(beta), 4)
    order[size >= NEAR * gamma] = 3
    order[members] = 2
    order[size >= gamma] = 1
    order[beta != 0.0] = 0
    order[np.isinf(gamma)] = 4
    candidates = np.flatnonzero(order < 4)
    within = np.where(order[candidates] == 0, np.abs(beta[candidates]), size[candidates])
    first = candidates[np.lexsort((-within, order[candidates]))]
    return np.sort(first[:most])


# What RMMP holds in memory between two passes over all rows: the columns of its working set, and before that a sample of rows.
#
# Columns of S are gathered by one pass. The optimum on S is found on them (`column_ascent`), and the next pass over all rows
# certifies it, and finds which weights outside S violate their condition. If there are some, S and its columns are gathered anew.
#
# A sample gives the first S: the optimum of one row in SAMPLE is where the passes begin. Its penalty falls with the root of the
# rows, as the noise of a gradient does: as much smaller as the rows are fewer, it would let in features that fit their noise.
# Up to HELD_FIRST features S is all of them, and needs no sample.

FEATURE_BYTES: Final = 24  # by rows and by columns; later by columns, and its product with h
ROW_BYTES: Final = 96  # of what is held by rows and by columns, and of the state of `solve_columns`
SAMPLE: Final = 8  # a power of 2
SAMPLE_ROWS: Final = 512  # fewer are no sample


def most_bytes(data: Data) -> int:
    """What the columns of all features take."""
    return FEATURE_BYTES * data.nnz + ROW_BYTES * data.rows


def gather(data: Data, pool: Pool, members: I64, bytes_max: int, stride: int = 1) -> DataInMemory | None:
    """Copy the features `members` of every row, or of one row in `stride`; None if they would take more than `bytes_max`.

    members : i64[k]   increasing; feature members[p] has rank p in the copy
    stride  : a power of 2
    """
    if ROW_BYTES * (data.rows // stride) > bytes_max:
        return None
    position = np.full(data.features, -1, np.int32)
    position[members] = np.arange(len(members))
    parts, rows, nnz = [], 0, 0
    for found in pool.each("gather", data.parts, {"position": position, "stride": np.array([stride])}):
        part = _rows(found)
        rows, nnz = rows + len(part.label), nnz + len(part.rank)
        if FEATURE_BYTES * nnz + ROW_BYTES * rows > bytes_max:
            return None
        parts.append(PartInMemory(part))
    return DataInMemory(rows, nnz, len(members), parts, data.slots[members], data.bits)


def sample_of(problem: Problem, pool: Pool, bytes_max: int) -> Problem | None:
    """The problem of one row in SAMPLE; None if they would be few."""
    data = problem.data
    if data.rows < SAMPLE * SAMPLE_ROWS:
        return None
    rows = gather(data, pool, np.arange(data.features), bytes_max, SAMPLE)
    if rows is None or not rows.rows:
        return None
    root = math.sqrt(rows.rows / data.rows)
    return replace(problem, data=rows, gamma=root * problem.penalties, gamma_intercept=root * problem.gamma_intercept)


class HeldColumns:
    """The working set and its columns.

    members : i64[k]   S, increasing
    has_all : S is every feature
    reads   : feature values of columns that were read
    """

    def __init__(self, problem: Problem, pool: Pool, bytes_max: int, whole: bool) -> None:
        """bytes_max: of the columns; whole: S is every feature, as it is where these are few."""
        self._problem, self._pool, self._bytes_max = problem, pool, bytes_max
        self.has_all = whole or problem.data.features <= HELD_FIRST
        self._columns: Columns | None = None
        self.members = np.empty(0, np.int64)
        self.reads = 0
        self.gathered = 0  # passes over all rows

    @property
    def numbers(self) -> int:
        """How many values are held."""
        return 0 if self._columns is None else len(self._columns.value)

    def optimum(self, start: F64, intercept: float, near: tuple[float, float]) -> tuple[F64, float] | None:
        """The weights that are optimal on S; None if its columns are too many to be held, or if no better weights are found.

        start, intercept : where to begin; weights outside S are zero
        near             : see `solve_columns`
        """
        if self._columns is None:
            return None
        beta = np.append(intercept, start[self.members])
        gamma = np.append(self._problem.gamma_intercept, self._problem.penalties[self.members])
        _, reads = solve_columns(self._columns, LINKS[self._problem.link].code, gamma, near, beta)
        self.reads += reads
        found = np.zeros(len(start))
        found[self.members] = beta[1:]
        same = beta[0] == intercept and np.array_equal(found, start)
        return None if same else (found, float(beta[0]))

    def gathers(self, at: Expansion) -> bool:
        """Whether the next optimum takes a pass of its own that gathers columns."""
        outside = np.abs(at.gradient) > self._problem.penalties
        outside[self.members] = False
        return self._columns is None or bool(outside.any())

    def gather(self, at: Expansion | None) -> None:
        """Hold the columns of S, if they fit. at : a pass over all rows, which says what S needs; None if S is every feature"""
        self._columns = None  # before the next are gathered
        if self.has_all or at is None:
            self.members = np.arange(self._problem.data.features)
        else:
            most = held_room(int(np.count_nonzero(at.beta)), len(self.members))
            omega = at.gradient + at.curvature * at.beta
            self.members = choose_active(at.beta, omega, self._problem.penalties, self.members, most)
        data, self.gathered = self._problem.data, self.gathered + 1
        is_there = self.has_all and isinstance(data, DataInMemory) and most_bytes(data) <= self._bytes_max
        rows = data if is_there else gather(data, self._pool, self.members, self._bytes_max)
        self._columns = None if rows is None else columns_of(rows)


def _rows(found: Arrays) -> Rows:
    return Rows(
        cast(I64, found["indptr"]), cast(U32, found["rank"]), cast(F64, found["value"]), cast(F64, found["label"]),
        cast(F64, found["weight"]),
    )  # fmt: skip


# The optimum on a working set whose columns are in memory; the method is in `service/native/coordinate_descent.c`.


def solve_columns(columns: Columns, link: int, gamma: F64, near: tuple[float, float], beta: F64) -> tuple[int, int]:
    """Move beta f64[k + 1] to the optimum on k columns; return the steps, and the reads of a feature value in them.

    gamma : f64[k + 1], penalties; entry 0 is the intercept's
    near  : the largest violation, or the duality gap as a share of the objective, that may remain

    See `riata_solve_columns`.
    """
    given, reads = native_columns(columns), np.empty(1, np.int64)
    work = np.empty(core.solve_columns_room(given, len(beta)))
    steps = core.solve_columns(given, link, gamma, *near, beta, len(beta), reads, work)
    return steps, int(reads[0])


K: Final = 3000
PASSES_MAX: Final = 100
TOLERANCE: Final = 1e-6
INNER: Final = 1e-4  # looser takes more passes (at 0.01 up to two more), and passes cost more than Shooting
ROUNDING: Final = 1e-13  # of the largest Omega: Shooting cannot leave less
SWEEPS_MAX: Final = 1000
NUMBER_BYTES: Final = 8
EPSILON: Final = 2.0**-50  # of the sums of a pass
HELD_BYTES: Final = 2**30
LAST: Final = 0.9  # the optimum on S may leave this share of the tolerance,
FIRST_LEFT: Final = 1e-3  # that on the first S this share of the gap and violation before it: other features will belong to S,
FEW: Final = 4  # unless so small a share of all values belongs to S that a pass takes longer than its optimum
SAMPLE_TOLERANCE: Final = 1e-3

PASSES_BEFORE: Final = 8  # a problem with an optimum rarely makes long steps after so many
STEP_MIN: Final = 0.1
SLACK: Final = 1e-6  # of the largest move: what is left of directions in which the steps shrink
NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Rmmp:
    """The solver.

    k                : most members of the working set whose H is summed
    tolerance        : stop if the duality gap is at most this share of the objective, or the largest violation of an optimality
                       condition this share of the penalty
    memory_bytes_max : refuse to begin if more is needed; None: no bound
    inner            : the violation that Shooting may leave, as a share of that of the pass; 0: none, as the paper has it
    whole            : the working set is every feature, from the first pass on (`mp`)
    held_bytes_max   : columns of the working set may be held in memory up to so many bytes; 0: H is summed by every pass, as it
                       is if a feature has no penalty
    """

    k: int = K
    tolerance: float = TOLERANCE
    passes_max: int = PASSES_MAX
    memory_bytes_max: int | None = None
    inner: float = INNER
    whole: bool = False
    held_bytes_max: int = HELD_BYTES

    def solve(self, problem: Problem, pool: Pool, watch: Watch = watch_nothing) -> Solution:
        """Find the optimum. Raises `Conflict` if there is none, `TooLarge` if memory does not suffice."""
        limits = replace(self, k=min(self.k, problem.data.features))
        memory, held = plan(limits, problem, pool.workers)
        return alone(Run(replace(limits, held_bytes_max=held), problem, watch, memory, pool).solve(), problem, pool)


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

    def __init__(self, limits: Rmmp, problem: Problem, watch: Watch, memory: int, pool: Pool) -> None:
        """limits: as `plan` has them."""
        self._limits, self._problem, self._watch, self._memory, self._pool = limits, problem, watch, memory, pool
        self._held = HeldColumns(problem, pool, limits.held_bytes_max, limits.whole) if limits.held_bytes_max > 0 else None
        self._gamma, self._scale = problem.penalties, problem.scale
        self._began = time.perf_counter()
        self._passes = 0
        self._reads = 0  # of feature values, beside those of passes
        self._lower = -np.inf  # of the dual, best of all passes: minus an upper bound of the objective
        self._trace: list[TraceRow] = []
        self.best: Expansion | None = None  # the last pass whose step was accepted, and its certificate
        self.certificate = Certificate(-np.inf, None, np.inf)

    def solve(self) -> Solving:
        """Pass by pass until something stops it."""
        labels = yield "labels", {}
        self._begin_at_sample()
        beta, intercept = first_weights(self._problem, labels)
        members = self._members(beta)
        if self._held is not None and self._held.has_all and self._problem.start is None and self._limits.passes_max > 1:
            beta, intercept, members = self._step_held(self._held, beta, intercept, None)
        while True:
            found = yield self._pass(expansion_request(self._problem, beta, intercept, members))
            at, before = expansion_of(found, beta, intercept, members), self.best
            if self._held is None and before is not None and not self._rose(before, at):
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
            held = self._held
            beta, intercept, members = self._step(at) if held is None else self._step_held(held, at.beta, at.intercept, at)

    def _members(self, beta: F64) -> I64:
        """The first S of which H is summed: that of the start."""
        if self._held is not None:
            return np.empty(0, np.int64)
        return np.arange(len(beta)) if self._limits.whole else np.flatnonzero(beta)[: self._limits.k]

    def _begin_at_sample(self) -> None:
        """Begin at the optimum of a sample of the rows, if columns of some features are held and no other start was given."""
        if self._held is None or self._held.has_all or self._problem.start is not None:
            return
        sample = sample_of(self._problem, self._pool, self._limits.held_bytes_max // 2)
        if sample is None:
            return
        limits = replace(
            self._limits,
            tolerance=max(SAMPLE_TOLERANCE, self._limits.tolerance),
            memory_bytes_max=None,
            held_bytes_max=self._limits.held_bytes_max // 2,
        )
        try:
            found = limits.solve(sample, self._pool)
        except Conflict:  # the sample has one label
            return
        self._passes += 1
        self._reads += found.spent.accesses
        self._problem = replace(self._problem, start=found.weights)

    def _step_held(self, held: HeldColumns, beta: F64, intercept: float, at: Expansion | None) -> tuple[F64, float, I64]:
        """The optimum on S by its columns, from the weights of the pass `at`, or without one if S is every feature. If its
        columns cannot be held, the next pass is at the same weights, with H."""
        before, kkt = self.certificate, LAST * self._limits.tolerance
        gap, gathered, reads = kkt, held.gathered, held.reads
        if at is None or held.gathers(at):
            held.gather(at)
        if gathered == 0 and not held.has_all and FEW * held.numbers > self._problem.data.nnz:
            kkt, gap = max(kkt, FIRST_LEFT * before.kkt), max(gap, FIRST_LEFT * (before.gap or 0.0) / abs(before.objective))
        found = held.optimum(beta, intercept, (kkt * self._scale, gap))
        self._passes += held.gathered - gathered
        self._reads += held.reads - reads
        if found is not None:
            return *found, np.empty(0, np.int64)
        self._held = None
        if at is None or self._limits.whole:
            return beta, intercept, self._members(beta)
        most = room(self._limits.k, int(np.count_nonzero(beta)), 0)
        omega = at.gradient + at.curvature * beta
        return beta, intercept, choose_active(beta, omega, self._gamma, self._members(beta), most)

    def _pass(self, request: Request) -> Request:
        self._passes += 1
        return request

    def _rose(self, before: Expansion, at: Expansion) -> bool:
        objective = certify(self._problem, at, self._scale).objective
        return rose(objective, self.certificate.objective, self._promised(before, at))

    def _accesses(self) -> int:
        return self._passes * self._problem.data.nnz + self._reads

    def _promised(self, before: Expansion, at: Expansion) -> float:
        return promised(self._problem, before, at.beta, at.intercept)

    def _take(self, at: Expansion) -> Stopped | None:
        """Accept the weights of a pass; the reason to stop there, if there is one."""
        found = certify(self._problem, at, self._scale)
        if found.gap is not None:
            rounding = EPSILON * abs(found.objective)  # matters where the objective of an earlier pass was far below the optimum
            self._lower = max(self._lower, -found.objective - found.gap - rounding)
            found = replace(found, gap=max(0.0, -found.objective - self._lower))
        self.best, self.certificate = at, found
        members = at.members if self._held is None else self._held.members
        frozen = 0 if self._held else int(np.count_nonzero(at.beta)) - int(np.count_nonzero(at.beta[members]))
        row = TraceRow(
            number=self._passes,
            certificate=found,
            non_zeros=int(np.count_nonzero(at.beta)),
            members=len(members),
            frozen=frozen,
            accesses=self._accesses(),
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
        step = 2 if self._held is not None and self._held.gathers(at) else 1
        return "passes" if self._passes + step > self._limits.passes_max else None

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
        spent = Spent(self._passes, self._accesses(), self._memory, time.perf_counter() - self._began)
        return Solution(self.weights(), self.certificate, tuple(self._trace), _sums(self.best), spent, stopped)


def plan(limits: Rmmp, problem: Problem, workers: int) -> tuple[int, int]:
    """The bytes that a solution may take beside the rows, and those of columns among them; 0 where H is summed from the start.

    limits : with k at most the number of features

    Raises `TooLarge` if not even sums of H fit.
    """
    most, summed, passes = limits.memory_bytes_max, memory_bytes(problem, limits.k, workers), memory_bytes(problem, 0, workers)
    if most is not None and summed > most:
        raise TooLarge(_does_not_fit(problem, limits.k, workers, most), "memory_bound")
    if limits.inner == 0.0 or np.any(problem.penalties == 0.0):  # as printed; or passes have to see whether there is an optimum
        return summed, 0
    held = min(limits.held_bytes_max, most_bytes(problem.data))
    if most is not None:
        held = min(held, most - passes)
    return max(summed, passes + held), held


def memory_bytes(problem: Problem, k: int, workers: int) -> int:
    """What a solution needs beside the rows if H is summed: a pass of each worker and its sums, and the copies of the step."""
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


# Rows that unpenalised weights separate: the likelihood then rises for ever, and there is no optimum.
#
# Along such a direction every Newton step has about the same length, while elsewhere steps shrink quadratically. So after some
# passes the step itself is the direction. It is proof if it moves no row away from its label (Albert & Anderson 1984).


def separation_request(problem: Problem, before: Expansion, at: Expansion, passes: int) -> Request | None:
    """A pass that shows whether the last step separates rows; None if the step is short or every weight has a penalty."""
    free = problem.penalties == 0.0
    if passes < PASSES_BEFORE or not np.any(free):
        return None
    direction = np.where(free, at.beta - before.beta, 0.0)
    intercept = at.intercept - before.intercept if problem.gamma_intercept == 0.0 else 0.0
    largest = float(np.max(np.abs(direction), initial=0.0))
    if largest < STEP_MIN:
        return None
    direction[np.abs(direction) < SLACK * largest] = 0.0
    return "sides", {"beta": direction, "intercept": np.array([intercept]), "slack": np.array([SLACK * largest])}


def refuse_separable(problem: Problem, asked: Request, found: Arrays) -> None:
    """Raise `Conflict` if such a pass shows that there is no optimum."""
    away, toward = cast(I64, found["sides"]).tolist()
    if away == 0 and toward > 0:
        direction = cast(F64, asked[1]["beta"])
        ranks = np.argsort(-np.abs(direction), kind="stable")[:NAMED]
        slots = ", ".join(str(problem.data.slots[rank]) for rank in ranks if direction[rank])
        raise Conflict(
            f"there is no optimum: weights without a penalty separate {toward} rows by label and can grow for ever, those of the "
            f"slots {slots} fastest; give them a gamma above 0",
            "no_optimum",
        )


# MP: Newton's method with an L1 penalty on all features at once (Balakrishnan & Madigan 2008, section 5).
#
# It is RMMP whose working set is everything, from the first pass on. No weight is ever outside, so it takes the fewest passes.
# Memory is that of the columns, or where they do not fit, the square of the number of features.

FEATURES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Mp:
    """The solver; see `Rmmp` for the fields."""

    tolerance: float = TOLERANCE
    passes_max: int = PASSES_MAX
    memory_bytes_max: int | None = None
    inner: float = INNER

    def solve(self, problem: Problem, pool: Pool, watch: Watch = watch_nothing) -> Solution:
        """Find the optimum. Raises `Conflict` if there is none, `TooLarge` if there are too many features or memory is short."""
        return self.as_rmmp(problem.data.features).solve(problem, pool, watch)

    def as_rmmp(self, features: int) -> Rmmp:
        """The same for so many features. Raises `TooLarge` if they are too many."""
        if features > FEATURES_MAX:
            raise TooLarge(f"mp: {features} features, and at most {FEATURES_MAX} are possible; use rmmp", "too_many_features")
        return Rmmp(features, self.tolerance, self.passes_max, self.memory_bytes_max, self.inner, whole=True)


# Several penalties of one problem, whose passes are shared.
#
# A pass reads every row, and where rows come from files, reading and decoding them costs more than the arithmetic. So all
# penalties that are being solved get their passes together. The largest begins. The next one begins at the weights of the one
# before as soon as those violate their conditions by less than NEAR of the penalty: from there it needs few passes.

PENALTIES_MAX: Final = 8
NEARLY: Final = 0.3

WatchPath = Callable[[float, TraceRow], bool]  # the penalty, and its pass; False: stop this penalty and begin no other


@dataclass(slots=True)
class _Penalty:
    """A penalty being solved."""

    gamma: float
    run: Run
    solving: Solving
    request: Request
    solution: Solution | None = None


def solve_path(
    problem: Problem, gammas: Sequence[float], solver: Rmmp, pool: Pool, watch: WatchPath
) -> list[tuple[float, Solution]]:
    """The optimum of `problem` under each penalty instead of its own, largest first; fewer if `watch` stops it.

    Raises `Conflict` and `TooLarge` as the solver does; memory is that of all penalties together.
    """
    if not 1 <= len(set(gammas)) <= PENALTIES_MAX or not all(gamma >= 0.0 for gamma in gammas):
        raise BadInput(f"gammas: expected 1 to {PENALTIES_MAX} penalties of at least 0, got {len(set(gammas))}")
    k = min(solver.k, problem.data.features)
    memory = len(set(gammas)) * memory_bytes(problem, k, pool.workers)
    if solver.memory_bytes_max is not None and memory > solver.memory_bytes_max:
        raise TooLarge(
            f"{len(set(gammas))} penalties with a working set of k = {k} need {memory} bytes and memory_bytes_max is "
            f"{solver.memory_bytes_max}; ask for fewer penalties or a smaller k",
            "memory_bound",
        )
    share = None if solver.memory_bytes_max is None else solver.memory_bytes_max // len(set(gammas))
    one = replace(solver, k=k, held_bytes_max=solver.held_bytes_max // len(set(gammas)), memory_bytes_max=share)
    needed, held = plan(one, problem, pool.workers)
    one = replace(one, held_bytes_max=held)
    return _Path(problem, one, len(set(gammas)) * needed, watch, pool).solve(sorted(set(gammas), reverse=True))


class _Path:
    def __init__(self, problem: Problem, solver: Rmmp, memory: int, watch: WatchPath, pool: Pool) -> None:
        self._problem, self._solver, self._memory, self._watch, self._pool = problem, solver, memory, watch, pool
        self._penalties: list[_Penalty] = []
        self._stopped = False

    def solve(self, gammas: list[float]) -> list[tuple[float, Solution]]:
        waiting = list(gammas)
        while True:
            if waiting and not self._stopped and self._next_may_begin():
                self._begin(waiting.pop(0))
            active = [one for one in self._penalties if one.solution is None]
            if not active:
                return [(one.gamma, cast(Solution, one.solution)) for one in self._penalties]
            job, given = merged([one.request for one in active])
            found = self._pool.fold(job, self._problem.data.parts, given)
            for i, one in enumerate(active):
                self._go_on(one, i, found)

    def _next_may_begin(self) -> bool:
        last = self._penalties[-1] if self._penalties else None
        return last is None or last.solution is not None or (last.run.best is not None and last.run.certificate.kkt <= NEARLY)

    def _begin(self, gamma: float) -> None:
        start = self._penalties[-1].run.weights() if self._penalties else self._problem.start
        problem = replace(self._problem, gamma=gamma, start=start)

        def watch(row: TraceRow) -> bool:
            wanted = self._watch(gamma, row)
            self._stopped = self._stopped or not wanted
            return wanted

        run = Run(self._solver, problem, watch, self._memory, self._pool)
        solving = run.solve()
        self._penalties.append(_Penalty(gamma, run, solving, next(solving)))

    def _go_on(self, one: _Penalty, i: int, found: Arrays) -> None:
        try:
            one.request = one.solving.send(answer_to(i, found))
        except StopIteration as end:
            one.solution = end.value
