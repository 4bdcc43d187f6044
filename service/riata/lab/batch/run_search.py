"""The search for runs: which neighbours of a group are in one run, for one gamma and k, and over a grid of both.

Theory of operation
    For given gamma and k, the runs are those of least objective that the search finds. It starts from runs that grow around each
    feature with a weight: the neighbour is added whose addition lowers the objective most, as long as one does. Of such a run
    those features are kept whose own run has its seed in it. The longest runs come first, and a feature is used once. Then every
    edge between neighbours is toggled from left to right, and the change is kept if the objective falls; a sweep that keeps
    nothing is the last. Every objective is that of a converged descent from the weights before, so a toggle costs few steps.
    Runs without a weight do not change the objective: a fall has to be more than rounding.

    Gamma and k are chosen by the score of `runs.check`: objectives under different penalties cannot be compared, evidence can.
    Points of the grid do not depend on each other, so threads change nothing but the time.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, I64
from riata.base.errors import BadInput, Conflict
from riata.lab.batch.pool import Pool, Serial
from riata.lab.batch.problem import Problem, Solution, Spent
from riata.lab.batch.runs import MEMORY_BYTES_MAX as MEMORY_BYTES_MAX
from riata.lab.batch.runs import Checked, Columns, Layout, Point, check, columns_of, memory_bytes, partition, solve_runs, spread
from riata.learn.learner import Weights
from riata.wire.groups import Grouping

GAMMAS: Final = tuple(math.sqrt(2.0 / v) for v in np.linspace(0.1, 0.9, 10).tolist())  # prior variances 2 / gamma^2 of a weight
KS: Final = (0.0, 0.2475, 0.495, 0.7425, 0.99)
FALL: Final = 1e-7  # of the objective: what counts as a fall
SEARCHING: Final = 1e-5  # tolerance of descents whose objectives are compared: it leaves its square
SWEEPS_MAX: Final = 20
TOLERANCE: Final = 1e-10


@dataclass(frozen=True, slots=True)
class GridPoint:
    """The optimum of one gamma and k, with the runs that were found.

    score : less is better
    """

    gamma: float
    k: float
    objective: float
    score: float
    kkt: float
    runs: int
    non_zeros: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """Features that are in the model, or out of it, together.

    group    : its name; empty for a feature of no group
    features : ranks, in order
    names    : of the features, if they have any
    """

    group: str
    features: I64
    names: tuple[str, ...]
    is_zero: bool


@dataclass(frozen=True, slots=True)
class RunSolution:
    """The best point of a grid.

    solution : weights and certificate; its trace is empty
    problem  : with the gamma that was chosen
    log_likelihood : of the rows
    runs     : of groups in their order, then the features of no group that have a weight; neighbouring zero runs are one
    lengths  : of the runs of each group under which the weights are the optimum: zero runs are not merged
    grid     : every point
    spread   : of each group, see `runs.spread`
    """

    solution: Solution
    problem: Problem
    k: float
    score: float
    log_likelihood: float
    runs: tuple[Run, ...]
    lengths: tuple[tuple[int, ...], ...]
    grid: tuple[GridPoint, ...]
    spread: tuple[float, ...]


WatchGrid = Callable[[GridPoint], bool]  # called after each point, in order; False: begin no other
GoOn = Callable[[], bool]  # asked between descents, by any thread; False: end the search with the runs so far


@dataclass(frozen=True, slots=True)
class RunLasso:
    """The solver.

    gammas, ks : the grid. Without a group in which runs are searched, k has no effect and only the first is taken
    tolerance  : of the returned weights: largest violation of a condition of optimality, as a share of gamma
    threads    : that solve points of the grid; they change nothing but the time
    """

    grouping: Grouping
    gammas: Sequence[float] = GAMMAS
    ks: Sequence[float] = KS
    tolerance: float = TOLERANCE
    threads: int = 1
    memory_bytes_max: int = MEMORY_BYTES_MAX

    def __post_init__(self) -> None:
        """Raise `BadInput` if a value of the grid is not one."""
        if not self.gammas or not all(0.0 < gamma < math.inf for gamma in self.gammas):
            raise BadInput("gamma: groups need penalties above 0", "out_of_range")
        if not self.ks or not all(0.0 <= k < 1.0 for k in self.ks):
            raise BadInput("k: expected numbers from 0 to below 1", "out_of_range")
        if not 0.0 < self.tolerance < 1.0:
            raise BadInput("tolerance: expected a number between 0 and 1", "out_of_range")

    def solve(
        self, problem: Problem, pool: Pool, watch: WatchGrid = lambda _point: True, go_on: GoOn = lambda: True
    ) -> RunSolution:
        """Solve every point of the grid and take the one of least score. The penalties of the problem are not used.

        Raises `TooLarge` (code `memory_bound`) if the values do not fit, `Conflict` (code `one_class`).
        """
        started = time.perf_counter()
        refuse_one_label(problem, pool)
        layout = Layout.of(self.grouping, problem.data.features)
        columns = columns_of(problem.data, layout, self.threads, self.memory_bytes_max)
        ks = self.ks if np.any(layout.free) else self.ks[:1]
        cells = list(itertools.product(sorted(set(self.gammas), reverse=True), ks))
        tasks = [_Task(columns, replace(problem, gamma=gamma), layout, k, self.tolerance, go_on) for gamma, k in cells]
        found: list[_Found] = []
        stopped = False
        for one in _in_order([task.run for task in tasks], self.threads):
            found.append(one)
            if not watch(one.point):
                stopped = True
                break
        best = min(found, key=lambda one: one.point.score)
        passes = len(found) + 1
        spent = Spent(passes, passes * problem.data.nnz, memory_bytes(problem.data, self.threads), time.perf_counter() - started)
        is_good = best.checked.certificate.kkt <= 2.0 * self.tolerance  # the pass that checks sums in another order
        solution = Solution(
            best.weights(problem, layout), best.checked.certificate, (), None, spent,
            "cancelled" if stopped else "tolerance" if is_good else "stalled",
        )  # fmt: skip
        return RunSolution(
            solution, best.task.problem, best.task.k, best.checked.score, best.checked.log_likelihood,
            tuple(_runs(self.grouping, layout, best)), _lengths(layout, best.at.edges, len(self.grouping.names)),
            tuple(one.point for one in found),
            tuple(spread(columns, layout, len(self.grouping.names))),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Found:
    task: _Task
    at: Point
    checked: Checked
    point: GridPoint

    def weights(self, problem: Problem, layout: Layout) -> Weights:
        slots = problem.data.slots[layout.rank]
        order = np.argsort(slots)
        held = order[self.at.b[order] != 0.0]
        return Weights(slots[held], self.at.b[held], float(self.at.intercept[0]), problem.link, problem.data.bits)


@dataclass(frozen=True, slots=True)
class _Task:
    """One point of the grid."""

    columns: Columns
    problem: Problem
    layout: Layout
    k: float
    tolerance: float
    go_on: GoOn

    def run(self) -> _Found:
        """Search the runs, solve, and check by a pass over the rows."""
        started = time.perf_counter()
        at = self._at_start()
        if np.any(self.layout.free):
            at = self._swept(self._grown(at))
        runs = self.layout.runs(at.edges, float(self.problem.gamma), self.k)
        solve_runs(self.columns, self.problem, runs, at, self.tolerance)
        checked = check(self.problem, self.layout, runs, at, Serial())
        count = len(partition(self.layout, runs, at.b))
        point = GridPoint(
            float(self.problem.gamma), self.k, checked.certificate.objective, checked.score, checked.certificate.kkt, count,
            int(np.count_nonzero(at.b)), time.perf_counter() - started,
        )  # fmt: skip
        return _Found(self, at, checked, point)

    def _at_start(self) -> Point:
        """The optimum where no neighbours are joined but those that are tied."""
        nothing = Point(self.layout.tied, np.zeros(len(self.layout.rank)), np.zeros(1))
        return self._tried(self.layout.tied, nothing)

    def _tried(self, edges: BOOL, start: Point) -> Point:
        """The optimum with other edges, from the weights of a point."""
        made = Point(edges, start.b.copy(), start.intercept.copy())
        solve_runs(self.columns, self.problem, self.layout.runs(edges, float(self.problem.gamma), self.k), made, SEARCHING)
        return made

    def _grown(self, single: Point) -> Point:
        """The better of a point, and of that whose runs are grown around its weights."""
        grown = {seed: self._grow(int(seed), single) for seed in np.flatnonzero(single.b).tolist()}
        edges = self.layout.tied.copy()
        used = np.zeros(len(self.layout.rank), np.bool_)
        for first, end in candidates(grown):
            if not np.any(used[first:end]):
                used[first:end] = True
                edges[first : end - 1] = True
        at = self._tried(edges, single)
        return at if at.value < single.value else single

    def _grow(self, seed: int, single: Point) -> tuple[int, int]:
        """The run that grows around a feature."""
        first, end, at = seed, seed + 1, single
        while True:
            best, reach = at, (first, end)
            for edge, then in ((first - 1, (first - 1, end)), (end - 1, (first, end + 1))):
                if 0 <= edge < len(self.layout.free) and self.layout.free[edge] and self.go_on():
                    edges = at.edges.copy()
                    edges[edge] = True
                    tried = self._tried(edges, at)
                    if _is_fall(tried.value, best.value):
                        best, reach = tried, then
            if best is at:
                return first, end
            at, (first, end) = best, reach

    def _swept(self, at: Point) -> Point:
        """Toggle every edge until a sweep changes nothing."""
        for _ in range(SWEEPS_MAX):
            before = at
            for edge in np.flatnonzero(self.layout.free).tolist():
                if not self.go_on():
                    return at
                edges = at.edges.copy()
                edges[edge] = not edges[edge]
                tried = self._tried(edges, at)
                if _is_fall(tried.value, at.value):
                    at = tried
            if at is before:
                break
        return at


def candidates(grown: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    """Return runs whose features agree with the one that they grew around, longest first, then leftmost. A feature agrees if
    that is in its own run too, or if it has none.

    grown : for each feature with a weight, the run that grew around it, as first and end
    """
    made = set()
    for seed, (first, end) in grown.items():
        low, high = seed, seed + 1
        while low > first and _agrees(grown, low - 1, seed):
            low -= 1
        while high < end and _agrees(grown, high, seed):
            high += 1
        if high - low > 1:
            made.add((low, high))
    return sorted(made, key=lambda run: (run[0] - run[1], run[0]))


def _agrees(grown: dict[int, tuple[int, int]], other: int, seed: int) -> bool:
    first, end = grown.get(other, (seed, seed + 1))
    return first <= seed < end


def refuse_one_label(problem: Problem, pool: Pool) -> None:
    """Raise `Conflict` (code `one_class`) if all rows have one label: the intercept has no optimum."""
    negative, positive = pool.fold("labels", problem.data.parts, {})["weight"].tolist()
    if not (negative > 0.0 and positive > 0.0):
        raise Conflict(
            f"all {problem.data.rows} rows have the label {1 if positive > 0.0 else -1}; a classifier needs rows of both",
            "one_class",
        )


def _is_fall(value: float, before: float) -> bool:
    return value < before - FALL * abs(before)


def _in_order(jobs: Sequence[Callable[[], _Found]], threads: int) -> Iterator[_Found]:
    """Run jobs in threads; yields their results in the order of the jobs."""
    if threads == 1:
        yield from (job() for job in jobs)
        return
    waiting: list[Future[_Found]] = []
    with ThreadPoolExecutor(threads, "riata-runs") as pool:
        try:
            waiting = [pool.submit(job) for job in jobs]
            for future in waiting:
                yield future.result()
        finally:
            for future in waiting:
                future.cancel()


def _lengths(layout: Layout, edges: BOOL, groups: int) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of the runs of each group, in order."""
    start = np.concatenate([[0], np.flatnonzero(~edges) + 1, [len(layout.rank)]]).astype(np.int64)
    group, lengths = layout.group[start[:-1]], np.diff(start)
    return tuple(tuple(lengths[group == number].tolist()) for number in range(groups))


def edges_of(layout: Layout, lengths: Sequence[Sequence[int]]) -> BOOL:
    """Return which neighbours are joined by runs of these lengths. Raises `BadInput` (code `bad_groups`) if the groups do not
    have such runs."""
    edges = np.zeros(max(len(layout.rank) - 1, 0), np.bool_)
    at = 0
    for number, own in enumerate(lengths):
        if sum(own) != int(np.count_nonzero(layout.group == number)) or any(length < 1 for length in own):
            raise BadInput(f"the runs of group {number} do not cover it", "bad_groups")
        for length in own:
            edges[at : at + length - 1] = True
            at += length
    if np.any(edges & ~(layout.tied | layout.free)) or np.any(layout.tied & ~edges):
        raise BadInput("a group without an order is one run", "bad_groups")
    return edges


def _runs(grouping: Grouping, layout: Layout, best: _Found) -> Iterator[Run]:
    runs = layout.runs(best.at.edges, float(best.task.problem.gamma), best.task.k)
    starts = np.concatenate([[0], np.cumsum([len(ranks) for ranks in grouping.ranks])]).astype(np.int64)
    for first, end in partition(layout, runs, best.at.b):
        group, is_zero = int(layout.group[first]), not np.any(best.at.b[first:end])
        if group >= 0:
            names = grouping.features[group][first - int(starts[group]) : end - int(starts[group])]
            yield Run(grouping.names[group], layout.rank[first:end], names, is_zero)
        elif not is_zero:
            yield Run("", layout.rank[first:end], (), is_zero)
