"""The command `riata compare FILE`: several solvers on one problem, and what each had reached when."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from riata.base.errors import BadInput, RiataError
from riata.cli.connect import FORMATS, FormatOption, require_format
from riata.cli.fit_request import INTERRUPTED, Request, interruptible
from riata.cli.report import give, require_svg
from riata.cli.serve import BLAS_THREADS
from riata.cli.solver_options import PANEL, MemoryOption, SeedOption, ToleranceOption
from riata.cli.tables import Layout
from riata.lab.batch.named import SOLVERS, check_settings, described
from riata.learn.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from riata.lab.batch.pool import Pool
    from riata.lab.batch.problem import Problem

EXAMPLE: Final = """Examples:

- `riata compare clicks.vw.gz --gamma 10` runs every solver on the rows and shows what each costs.
- `riata compare clicks.vw.gz --gamma 10 --solver rmmp --solver shotgun --plot curves.svg` draws two of them to a file."""


def compare(
    file: Annotated[str, typer.Argument(help=f"Labelled rows: {FORMATS}; may be gzipped; - is stdin.")],
    solver: Annotated[
        list[str] | None,
        typer.Option(help=f"Repeatable: {described().removeprefix('auto, ')}. [default: all]", rich_help_panel=PANEL),
    ] = None,
    gamma: Annotated[
        float | None, typer.Option(min=0.0, help="Penalty of each weight. [default: that of the learner]", rich_help_panel=PANEL)
    ] = None,
    form: FormatOption = "auto",
    labels: Annotated[str, typer.Option(help="0/1, -1/+1 or auto, which detects them from the first rows.")] = "auto",
    learner: Annotated[
        str | None, typer.Option(help=f"{', '.join(KINDS)}: whose link, gamma and rho. [default: {KINDS[0]}]")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as encoder.ngrams=2. Repeatable.")
    ] = None,
    model_file: Annotated[Path | None, typer.Option(help="Configuration of the model in JSON or TOML.")] = None,
    threads: Annotated[int, typer.Option(min=1, max=16, help="Threads that solve. They do not change the result.")] = 2,
    tolerance: ToleranceOption = 1e-6,
    memory_bytes_max: MemoryOption = None,
    seed: SeedOption = None,
    plot: Annotated[Path | None, typer.Option(help="Write the curves to this file, which ends in .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Run several solvers on the rows of a file, and compare objective, certificate and cost.

    All certificates are those of an exact pass over all rows at the weights of the solver, so they compare. The curves
    show how far each solver was from the best objective of all, against seconds, passes over the rows, and feature values read.
    A solver that refuses the problem is listed with its reason.

    Ctrl-C ends the solver at work with its best weights, and begins no other.
    """
    require_format(form)
    names = list(dict.fromkeys(solver or SOLVERS))
    for name in names:
        if name not in SOLVERS:
            check_settings(name, [])
            raise BadInput("auto is one of the others; name those to compare", "bad_option")
    require_svg(plot)
    os.environ.setdefault(BLAS_THREADS, "1")
    request = Request(file, Layout(form), labels, learner, setting or [], model_file, threads, None, as_json)
    given = {"tolerance": tolerance, "memory_bytes_max": memory_bytes_max, "seed": seed}
    report = _compared(request, names, gamma, {name: value for name, value in given.items() if value is not None})
    from riata.cli.comparison import comparison_svg, show_comparison

    give(report, plot, comparison_svg, show_comparison, as_json)
    if report["interrupted"]:
        raise typer.Exit(INTERRUPTED)


def _compared(request: Request, names: list[str], gamma: float | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Read the file, run the solvers, and return the report."""
    from riata.cli.data_files import data_of_files
    from riata.cli.progress import pass_progress, rows_so_far
    from riata.cli.solve import notes_of
    from riata.lab.batch.pool import Threads
    from riata.lab.batch.problem import Problem
    from riata.run.candidates.adopting import link_of
    from riata.run.candidates.solver_options import SolverOptions
    from riata.run.candidates.solving import gammas_of

    with ExitStack() as stack:
        with rows_so_far("read") as on_block:
            files = data_of_files([request.file], request.config, request.layout, request.threads, on_block=on_block)
            found = stack.enter_context(files)
        pool = stack.enter_context(Threads(request.threads))
        may_go_on = stack.enter_context(interruptible())
        show = stack.enter_context(pass_progress())
        (penalty,) = gammas_of(SolverOptions(), found.config) if gamma is None else (gamma,)
        problem = Problem(found.data, link_of(found.config), penalty)
        runs = [_run(name, settings, problem, pool, (show, may_go_on)) for name in names if may_go_on()]
        bits, book = found.data.bits, found.names
        notes = [
            f"{run['solver']}: {line.removeprefix('note').strip()}"
            for run in runs
            for line in notes_of([run] if "notes" in run else [], lambda slot: book.in_slot(slot, bits))
        ]
        return {
            "file": request.file,
            "rows": found.data.rows,
            "rejected": found.rejected,
            "rejected_codes": found.codes,
            "problems": [{"line": one.line, "code": one.code, "detail": one.detail} for _, one in found.problems],
            "features": found.data.features,
            "values": found.data.nnz,
            "gamma": penalty,
            "best": max((run["objective"] for run in runs if "objective" in run), default=None),
            "solvers": runs,
            "notes": notes,
            "interrupted": not may_go_on(),
        }


def _run(
    name: str, settings: dict[str, Any], problem: Problem, pool: Pool, asked: tuple[Callable[[str], None], Callable[[], bool]]
) -> dict[str, Any]:
    """Run one solver. Returns its part of the report; if it refuses, the reason and its code."""
    from riata.lab.batch.choose import choose
    from riata.lab.batch.solution import TraceRow
    from riata.run.candidates.solving import solution_document

    show, may_go_on = asked

    def watch(row: TraceRow) -> bool:
        show(f"{name}, pass {row.number}: objective {row.certificate.objective:.4f}, violation {row.certificate.kkt:.1e}")
        return may_go_on()

    taken = {setting: value for setting, value in settings.items() if setting in SOLVERS[name].settings}
    try:
        solution = choose(name, problem, pool, **taken).solver.solve(problem, pool, watch)
    except RiataError as error:
        return {"solver": name, "refused": error.detail, "code": error.code}
    weight = float(pool.fold("labels", problem.data.parts, {})["weight"].sum())
    return {"solver": name, **solution_document(problem, solution, weight), "seconds": round(solution.spent.seconds, 4)}
