"""The command `riata compare FILE`: several solvers on one problem, and what each had reached when."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from riata.base.errors import BadInput, RiataError
from riata.cli.connect import FORMATS, FormatOption
from riata.cli.fit_setup import INTERRUPTED, Request, interruptible
from riata.cli.plot import draw, give, plot_text, require_svg
from riata.cli.refusals import left_out
from riata.cli.serve import BLAS_THREADS
from riata.cli.solver_options import PANEL, MemoryOption, SeedOption, ToleranceOption
from riata.cli.tables import Layout
from riata.learn.kinds import KINDS
from riata.wire.solver_options import SOLVERS, check_settings, described

if TYPE_CHECKING:
    from collections.abc import Callable

    from riata.lab.batch.pool import Pool
    from riata.lab.batch.problem import Problem

EXAMPLE: Final = """Examples:

- `riata compare clicks.vw.gz --gamma 10` runs every solver on the rows and shows what each costs.
- `riata compare clicks.vw.gz --gamma 10 --solver rmmp --solver shotgun --plot curves.svg` draws two of them to a file."""
AXES: Final = (("seconds", "seconds"), ("pass", "passes over the rows"), ("accesses", "feature values read"))
NEAREST: Final = 1e-9  # of the best objective: what counts as there
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
STYLES: Final = ("blue", "red", "green", "magenta", "yellow", "cyan", "white", "bright_black")
HEADS: Final = (
    "solver",
    "objective",
    "below best",
    "gap",
    "violation",
    "non-zeros",
    "passes",
    "values read",
    "seconds",
    "stopped by",
)
WIDTHS: Final = (12, 13, 10, 8, 9, 9, 6, 11, 7, 0)
COLUMNS: Final = 44
LINES: Final = 10
WIDTH, HEIGHT, LEFT, TOP, GAP, KEY = 300.0, 240.0, 60.0, 40.0, 70.0, 110.0  # of a panel of the SVG, in pixels


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

    give(report, plot, comparison_svg, show_comparison, as_json)
    if report["interrupted"]:
        raise typer.Exit(INTERRUPTED)


def _compared(request: Request, names: list[str], gamma: float | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Read the file, run the solvers, and return the report."""
    from riata.cli.data_files import data_asked_for
    from riata.cli.progress import pass_progress
    from riata.cli.solve import notes_of
    from riata.lab.batch.pool import Threads
    from riata.lab.batch.problem import Problem
    from riata.run.candidates.adopting import link_of
    from riata.run.candidates.solving import gammas_of
    from riata.wire.solver_options import SolverOptions

    with ExitStack() as stack:
        found = stack.enter_context(data_asked_for(request))
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
            "problems": [{"line": one.line, "code": one.code, "detail": one.detail} for one in found.problems],
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
    from riata.lab.batch.problem import TraceRow
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


# Shows how solvers compare: a table, curves in the terminal, and the same curves as an SVG file.


class Curve(NamedTuple):
    """How far a solver was from the best objective, relative, after so much of an axis. Falls."""

    name: str
    places: list[float]
    heights: list[float]


def curves(report: dict[str, Any], axis: str) -> list[Curve]:
    """Return the curves of the solvers that ran."""
    found, best = [], report["best"]
    for run in report["solvers"]:
        if "trace" in run:
            least, heights = math.inf, []
            for row in run["trace"]:
                least = min(least, max((best - row["objective"]) / max(abs(best), 1e-300), NEAREST))
                heights.append(least)
            found.append(Curve(run["solver"], [max(float(row[axis]), 1e-4) for row in run["trace"]], heights))
    return found


def table_of_solvers(report: dict[str, Any]) -> list[str]:
    """Return the solvers as lines of text; those that refused below the others."""
    size = f"{report['rows']:,}{left_out(report, 'rejected')}; {report['features']:,} features, {report['values']:,} values"
    rows: list[Sequence[str]] = [HEADS]
    for run in report["solvers"]:
        if "refused" not in run:
            gap = "no bound" if run["gap"] is None else f"{run['gap']:.1e}"
            near = (f"{run['objective']:.4f}", f"{report['best'] - run['objective']:.1e}", gap, f"{run['kkt']:.1e}")
            costs = (f"{run['non_zeros']:,}", f"{run['passes']:,}", f"{run['accesses']:,}", f"{run['seconds']:.2f}")
            rows.append((run["solver"], *near, *costs, run["stopped"]))
    lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, WIDTHS, strict=True)) for row in rows]
    refused = [f"{run['solver']} refused: {run['refused']} [{run['code']}]" for run in report["solvers"] if "refused" in run]
    return [f"rows      {size}", f"gamma     {report['gamma']:g}", *lines, *refused, *report["notes"]]


def show_comparison(report: dict[str, Any]) -> None:
    """Print the table and the curves."""
    from rich.console import Console
    from rich.panel import Panel

    console = Console()
    typer.echo("\n".join(table_of_solvers(report)))
    for axis, title in AXES:
        found = curves(report, axis)
        if found:
            series, ends = _resampled(found)
            named = [(curve.name, STYLES[i % len(STYLES)]) for i, curve in enumerate(found)]
            plot = plot_text(draw(series, COLUMNS, LINES), named, "6.1f")
            about = f"log10 of the relative distance from the best, by {title}"
            console.print(Panel(plot, title=about, subtitle=ends, expand=False))
    if "plot" in report:
        typer.echo(f"written   {report['plot']}")
    if report["interrupted"]:
        typer.echo("stopped   by Ctrl-C")


def _resampled(found: Sequence[Curve]) -> tuple[list[list[float]], str]:
    """Return log10 of the heights at places that are spaced evenly by their logarithm, and a sentence about the ends."""
    low, high = _range(place for curve in found for place in curve.places)
    series = []
    for curve in found:
        line, at = [], 0
        for column in range(COLUMNS):
            place = low * (high / low) ** (column / (COLUMNS - 1))
            while at + 1 < len(curve.places) and curve.places[at + 1] <= place * (1.0 + 1e-9):
                at += 1
            line.append(math.log10(curve.heights[at]))
        series.append(line)
    return series, f"{low:.3g} at the left, {high:.3g} at the right, logarithmic"


def _range(values: Any) -> tuple[float, float]:
    held = list(values)
    return min(held), max(max(held), min(held) * 1.01)


def title_of(report: dict[str, Any]) -> str:
    """Return what was compared, in a sentence."""
    size = f"{report['rows']:,} rows, {report['features']:,} features, gamma {report['gamma']:g}"
    return f"{report['file']}: {size}; distance from the best objective, relative"


def comparison_svg(report: dict[str, Any]) -> str:
    """Return the three plots as an SVG document, both axes logarithmic."""
    width, height = 3 * (LEFT + WIDTH) + GAP + KEY, TOP + HEIGHT + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
        f'<text x="{LEFT:g}" y="20" font-size="13">{escape(title_of(report))}</text>',
    ]
    for number, (axis, title) in enumerate(AXES):
        parts += _panel(curves(report, axis), title, LEFT + number * (WIDTH + LEFT + 10.0))
    for i, curve in enumerate(curves(report, "seconds")):
        y, x = TOP + 12.0 + 16.0 * i, 3 * (LEFT + WIDTH + 10.0) + 10.0
        parts.append(f'<line x1="{x:g}" y1="{y - 4:g}" x2="{x + 16:g}" y2="{y - 4:g}" stroke="{_colour(i)}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 22:g}" y="{y:g}">{escape(curve.name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(found: Sequence[Curve], title: str, left: float) -> list[str]:
    """Return the elements of one plot."""
    parts = [f'<rect x="{left:g}" y="{TOP:g}" width="{WIDTH:g}" height="{HEIGHT:g}" fill="none" stroke="#999"/>']
    parts.append(f'<text x="{left + WIDTH / 2:g}" y="{TOP + HEIGHT + 36:g}" text-anchor="middle">{escape(title)}</text>')
    if not found:
        return parts
    x_low, x_high = _range(place for curve in found for place in curve.places)
    y_low, y_high = _range(height for curve in found for height in curve.heights)

    def at(place: float, height: float) -> tuple[float, float]:
        x = left + WIDTH * math.log(place / x_low) / math.log(x_high / x_low)
        return x, TOP + HEIGHT * math.log(y_high / height) / math.log(y_high / y_low)

    for power in range(math.ceil(math.log10(x_low)), math.floor(math.log10(x_high)) + 1):
        x, _ = at(10.0**power, y_low)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP:g}" x2="{x:.1f}" y2="{TOP + HEIGHT:g}" stroke="#eee"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 15:g}" text-anchor="middle">1e{power}</text>')
    for power in range(math.ceil(math.log10(y_low)), math.floor(math.log10(y_high)) + 1):
        _, y = at(x_low, 10.0**power)
        parts.append(f'<line x1="{left:g}" y1="{y:.1f}" x2="{left + WIDTH:g}" y2="{y:.1f}" stroke="#eee"/>')
        parts.append(f'<text x="{left - 5:g}" y="{y + 4:.1f}" text-anchor="end">1e{power}</text>')
    for i, curve in enumerate(found):
        points = [at(place, height) for place, height in zip(curve.places, curve.heights, strict=True)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{_colour(i)}" stroke-width="1.8"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{_colour(i)}"/>' for x, y in points]
    return parts


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
