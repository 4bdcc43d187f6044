"""What the child process of a refit does: solve for all events, then have the gate judge, and leave result and candidate."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.base.errors import BadInput, RiataError, TooLarge
from riata.lab.batch.data import PART_ROWS, Data
from riata.lab.batch.pool import Threads
from riata.lab.batch.problem import Problem, Solution, TraceRow
from riata.learn.learner import Learner, Weights
from riata.run.candidates.adopting import state_around
from riata.run.candidates.judging import judge, losses, not_judged
from riata.run.candidates.refits.grouped import REASON, Grouped, Told, grouping_in, runs_document
from riata.run.candidates.refits.task import BASE, RESULT, STATE, Outcome, Task, read_task
from riata.run.candidates.solving import Solved, data_for, pass_document, report_of, rows_between, solve, summed_loss
from riata.run.state.model_state import ModelState, begun
from riata.store.control_events import Counted
from riata.store.segment import Segment
from riata.wire.batch import Batch, slice_rows
from riata.wire.solver_options import LAPS

Say = Callable[[dict[str, Any]], None]
Resolve = Callable[[Data], Solved]

SPARE_BYTES: Final = 256 * 2**20  # stacks of threads, machine code, and what the interpreter itself allocates meanwhile
VALUE_BYTES: Final = 48  # of each feature value of a part while it is decoded
FEATURE_BYTES: Final = 32  # of each feature in the map of ranks
STATUS: Final = Path("/proc/self/status")


def refit(folder: Path, say: Say, may_go_on: Callable[[], bool]) -> None:
    """Do the task in a folder. Raises errors of `riata.base.errors`, and `MemoryError` beyond the bound.

    may_go_on : called after each pass; false: stop with the best weights so far
    """
    task = read_task(folder)
    bound = task.request.memory_bytes_max
    limit_memory(bound)
    segments = task.mapped()
    say({"stage": "counting"})
    data = data_for(task.config, segments, task.online.bits, task.counted)
    with Threads(task.threads) as pool:
        asked = _Asked(task, pool, left_for_solver(bound, data, task.threads), say, may_go_on)
        say({"stage": "solving", "rows": data.rows, "features": data.features})
        solved, report, resolve = asked.grouped(data) if task.groups.names else asked.plain(data)
        found = Judged(not_judged("the refit was cancelled"), 0)
        if may_go_on():
            say({"stage": "judging"})
            found = judged(task, folder, segments, solved, resolve)
    problem, solution = solved[found.chosen]
    not_promotable = leave_candidate(folder, task, problem, solution)
    figures = {"chosen": found.chosen, "verdict": found.ledger, "progressive_regret": found.regret}
    Outcome(solution.weights, {**report, **figures, "not_promotable": not_promotable}).write(folder / RESULT)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the request asks for, done on the rows of a task. Both ways return the solutions, the report about them, and a
    function that solves the same for other rows."""

    task: Task
    pool: Threads
    memory_bytes_max: int
    say: Say
    may_go_on: Callable[[], bool]

    def plain(self, data: Data) -> tuple[Solved, dict[str, Any], Resolve]:
        """Solve by a solver that penalises each weight by itself."""
        task, options = self.task, self.task.request.options(self.memory_bytes_max)

        def told(stage: str) -> Callable[[float, TraceRow], bool]:
            return lambda gamma, row: self._told(stage, gamma, row, {})

        choice, solved = solve(options, data, task.config, self.pool, told("solving"), task.online)

        def resolve(rest: Data) -> Solved:
            return solve(options, rest, task.config, self.pool, told("judging"), solved[0][1].weights)[1]

        return solved, report_of(choice.name, choice.reason, solved, self.pool), resolve

    def grouped(self, data: Data) -> tuple[Solved, dict[str, Any], Resolve]:
        """Solve with the groups of the request."""
        task = self.task

        def runs(stage: str) -> Grouped:
            told: Told = lambda gamma, row, more: self._told(stage, gamma, row, more)  # noqa: E731
            return Grouped(task.groups, task.request, task.config, task.threads, self.memory_bytes_max, told, self.may_go_on)

        found = runs("solving").solve(data, self.pool)
        solved = [(found.problem, found.solution)]
        report = report_of(LAPS, REASON, solved, self.pool)
        report["solutions"][0]["log_loss"] = -found.log_likelihood / report["weight"]
        report["runs"] = runs_document(found, grouping_in(task.groups, data), data)

        def resolve(rest: Data) -> Solved:
            again = runs("judging").solve(rest, self.pool, found)
            return [(again.problem, again.solution)]

        return solved, report, resolve

    def _told(self, stage: str, gamma: float, row: TraceRow, more: Mapping[str, Any]) -> bool:
        self.say({"stage": stage, "gamma": gamma, **pass_document(row), **more})
        return self.may_go_on()


def leave_candidate(folder: Path, task: Task, problem: Problem, solution: Solution) -> str:
    """Write the state whose learner continues from a solution. Returns why there can be none; empty if it was written."""
    try:
        state = state_around(task.config, problem, solution, task.origin.model)
    except RiataError as error:
        return error.detail
    state.lineage, state.applied, state.chain, state.changes = task.origin.lineage, task.applied, task.chain, task.changes
    (folder / STATE).write_bytes(state.freeze().encode())
    return ""


def left_for_solver(bound: int, data: Data, threads: int) -> int:
    """Return what a memory bound leaves to the solver. Raises `TooLarge` (code `memory_bound`) if the rows alone need more."""
    part = -(-data.nnz * min(PART_ROWS, data.rows) // data.rows)
    needed = (threads + 1) * VALUE_BYTES * part + FEATURE_BYTES * data.features
    if needed >= bound:
        raise TooLarge(
            f"memory_bytes_max is {bound}; {data.features} features and the rows being read need {needed} bytes, the solver "
            "more: even k = 1 does not fit",
            "memory_bound",
        )
    return bound - needed


def limit_memory(bytes_max: int) -> None:
    """Limit the private memory of this process to what it has now and `bytes_max` more. Linux only; otherwise no effect."""
    if not STATUS.exists():
        return
    now = next(int(line.split()[1]) * 1024 for line in STATUS.read_text().splitlines() if line.startswith("VmData"))
    limit = now + bytes_max + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


# The hold-out of a refit: which penalty, the verdict of the gate, and the regret of the online learner.
#
# The optimum of the events before the hold-out is adopted by a learner of the model's kind. The online learner is followed from a
# checkpoint, or from its beginning, up to the same event. Then both go on over the hold-out (`judging.py`).


@dataclass(frozen=True, slots=True)
class Judged:
    """What the hold-out shows.

    ledger : the verdict of the gate with its figures; decision HOLD and no figures if nothing could be judged
    chosen : which solution, by number. Of several the older half of the hold-out chooses, and the newer half judges
    regret : the progressive regret; None if nothing could be judged
    """

    ledger: dict[str, Any]
    chosen: int
    regret: dict[str, Any] | None = None


def until(counted: Counted, last: int) -> Counted:
    """Return the events of `counted` up to `last`."""
    spans = counted.spans[counted.spans[:, 0] <= last].copy()
    spans[:, 1] = np.minimum(spans[:, 1], last)
    return Counted(spans, counted.skipped)


def judged(task: Task, folder: Path, segments: Sequence[Segment], solved: Solved, resolve: Resolve) -> Judged:
    """Have the gate judge what the same penalties find in the events before the hold-out.

    solved  : the optima of all events
    resolve : solves the same for other data
    """
    if not task.split:
        return Judged(not_judged(task.no_gate), 0)
    by_label = task.config.label_weight.by_label
    try:
        earlier = until(task.counted, task.split)
        before = resolve(data_for(task.config, segments, task.online.bits, earlier))
        tail = list(rows_between(segments, task.counted, task.split, task.applied, by_label))
        older, tail = _halves(tail) if len(before) > 1 else ([], tail)
        chosen = _chosen(before, older)
        candidate = state_around(task.config, *before[chosen]).learner
    except BadInput as error:
        return Judged(not_judged(f"the events before the hold-out give nothing to judge: {error.detail}"), 0)
    online, regret = _online(task, folder), _Regret(task, solved[chosen][1].weights)
    for batch in rows_between(segments, task.followed, task.begins, task.split, by_label):
        regret.add(online, batch)
    for batch in older:
        regret.add(online, batch)
        candidate.step(batch)
    try:
        verdict = judge(online, candidate, tail)
    except BadInput as error:
        return Judged(not_judged(error.detail), chosen)
    for batch in tail:
        regret.add_judged(batch)
    return Judged(verdict, chosen, regret.document(verdict["online"]["loss"]))


class _Regret:
    """Sums of the losses of the online learner, each before it learnt the event, and of fixed weights."""

    def __init__(self, task: Task, optimum: Weights) -> None:
        self._first, self._optimum = task.begins + 1, optimum
        self._in_sample = bool(len(task.counted.spans)) and int(task.counted.spans[0, 0]) <= int(task.followed.spans[0, 0])
        self._events, self._online, self._batch = 0, 0.0, 0.0
        self._judged = 0.0  # weight of the events that the gate had the online learner learn

    def add(self, online: Learner, batch: Batch) -> None:
        """Have the online learner learn a batch, and add the losses."""
        found = losses(self._optimum.link, online.step(batch).answered, batch.label)
        self._online += float((found * batch.weight).sum())
        self._add(batch)

    def add_judged(self, batch: Batch) -> None:
        """Add the losses of the fixed weights on a batch that the gate has used."""
        self._judged += float(batch.weight.sum())
        self._add(batch)

    def document(self, loss: float) -> dict[str, Any]:
        """loss: the mean loss of the online learner on what the gate has used."""
        online = self._online + loss * self._judged
        return {
            "from": self._first,
            "events": self._events,
            "online": online,
            "batch": self._batch,
            "regret": online - self._batch,
            "in_sample": self._in_sample,  # the fixed weights were fitted to all of these events
        }

    def _add(self, batch: Batch) -> None:
        self._batch += summed_loss(self._optimum, batch)
        self._events += batch.n


def _halves(tail: list[Batch]) -> tuple[list[Batch], list[Batch]]:
    """Cut the hold-out in the middle: the older half, and the newer."""
    half = sum(batch.n for batch in tail) // 2
    older: list[Batch] = []
    newer: list[Batch] = []
    for batch in tail:
        cut = min(max(half, 0), batch.n)
        half -= batch.n
        for start, stop, into in ((0, cut, older), (cut, batch.n, newer)):
            if stop > start:
                into.append(slice_rows(batch, start, stop))
    return older, newer


def _chosen(solved: Solved, older: list[Batch]) -> int:
    """Return which solution has the lowest loss on the older half of the hold-out."""
    return int(np.argmin([sum(summed_loss(one.weights, batch) for batch in older) for _, one in solved]))


def _online(task: Task, folder: Path) -> Learner:
    """Return the online learner after the event `begins`."""
    if task.begins:
        return ModelState.of((folder / BASE).read_bytes()).learner
    return begun(task.config, task.origin.model, task.origin.lineage).learner
