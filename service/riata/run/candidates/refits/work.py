"""What the child process of a refit does: solve for all events, then have the gate judge, and leave result and candidate."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from riata.base.errors import RiataError, TooLarge
from riata.lab.batch.data import PART_ROWS, Data
from riata.lab.batch.named import LAPS
from riata.lab.batch.pool import Threads
from riata.lab.batch.problem import Problem
from riata.lab.batch.segment_data import data_of
from riata.lab.batch.solution import Solution, TraceRow
from riata.run.candidates.adopting import rho_of, state_around
from riata.run.candidates.refits.grouped import REASON, Grouped, Told, grouping_in, runs_document
from riata.run.candidates.refits.judging import Judged, Resolve, judged, nothing
from riata.run.candidates.refits.task import RESULT, STATE, Outcome, Task, read_task
from riata.run.candidates.solving import Solved, pass_document, report_of, solve

Say = Callable[[dict[str, Any]], None]

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
    data = data_of(segments, task.online.bits, task.counted, rho_of(task.config), task.config.label_weight.by_label)
    with Threads(task.threads) as pool:
        asked = _Asked(task, pool, left_for_solver(bound, data, task.threads), say, may_go_on)
        say({"stage": "solving", "rows": data.rows, "features": data.features})
        solved, report, resolve = asked.grouped(data) if task.groups.names else asked.plain(data)
        found = Judged(nothing("the refit was cancelled"), 0)
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
