"""`riata fit --batch FILE`: the optimum of the log-likelihood under L1 penalties, by passes over the rows of a file."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from riata.base.document import write_document
from riata.cli.data_files import FileData, data_asked_for
from riata.cli.fit_setup import Request, conclude, interruptible, last_lines
from riata.cli.refusals import left_out, problem_lines
from riata.cli.solve import notes_of, solve, table_of
from riata.cli.solver_options import PoolOptions, pool_of
from riata.lab.batch.problem import Problem, Solution
from riata.run.candidates.adopting import state_around
from riata.run.candidates.exports import write_export
from riata.run.candidates.solving import report_of
from riata.wire.solver_options import SolverOptions


def fit_batch(request: Request, options: SolverOptions, strict: bool, where: PoolOptions) -> None:
    """Read the file, solve, write the model, and report. Raises as the readers and solvers do."""
    started = time.perf_counter()
    with ExitStack() as stack:
        found = stack.enter_context(data_asked_for(request, strict))
        pool = stack.enter_context(pool_of(where, request.threads, found.data))
        may_go_on = stack.enter_context(interruptible())
        choice, solved = solve(options, found.data, found.config, pool, may_go_on)
        content = None if request.out is None else export(found, *solved[0])
        bits, names = found.data.bits, found.names
        report = rows_report(found, request.file)
        report |= {**report_of(choice.name, choice.reason, solved, pool), "interrupted": not may_go_on()}
        notes = notes_of(report["solutions"], lambda slot: names.in_slot(slot, bits))
    conclude(report, (request.out, content), request.as_json, started, lambda told: _shown(told, notes))


def export(found: FileData, problem: Problem, solution: Solution) -> bytes:
    """Return the model around a solution, as the import route takes it."""
    state = state_around(found.config, problem, solution)
    frozen, weights = state.freeze(), state.learner.weights()
    return write_export(frozen.header, frozen.arrays, found.names.everything(), weights)


def rows_report(found: FileData, file: str) -> dict[str, Any]:
    """Return what was read, as a document."""
    return {
        "rows": found.rows,
        "learnt": found.data.rows,
        "rejected": found.rejected,
        "rejected_codes": found.codes,
        "duplicate": found.duplicate,
        "problems": [{"file": file, "line": one.line, "code": one.code, "detail": one.detail} for one in found.problems],
        "config": write_document(found.config),
    }


def _shown(report: dict[str, Any], notes: list[str]) -> str:
    """Return the report as lines of text."""
    lines = [
        *problem_lines(report),
        f"rows      {report['learnt']:,}{left_out(report, 'rejected', 'duplicate')}; {report['features']:,} features",
        f"solver    {report['reason']}",
        f"base rate log loss {report['base_log_loss']:.4f}",
        *table_of(report["solutions"]),
        *notes,
        f"time      {report['seconds']:.2f} s; the losses are of the rows that were fitted",
    ]
    return "\n".join([*lines, *last_lines(report)])
