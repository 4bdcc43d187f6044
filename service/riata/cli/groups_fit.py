"""Solves and reports for `riata groups`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from riata.base.directories import write_whole
from riata.base.svg import COLOURS, Svg, curve_points
from riata.cli.data_files import FileData, data_asked_for
from riata.cli.fit_batch import export, rows_report
from riata.cli.fit_setup import Request, conclude, interruptible, last_lines
from riata.cli.plot import draw
from riata.cli.progress import pass_progress
from riata.cli.refusals import left_out, problem_lines
from riata.cli.solver_options import group_tables
from riata.lab.batch.data import Data
from riata.lab.batch.pool import Threads
from riata.lab.batch.problem import Problem
from riata.lab.batch.run_search import GAMMAS, KS, MEMORY_BYTES_MAX, GridPoint, RunLasso, RunSolution
from riata.run.candidates.adopting import link_of
from riata.wire.groups import grouping_of, read_groups

UNEVEN: Final = 10.0  # standard deviations of the columns of a group that differ by more are said
FINGERPRINT_BITS: Final = 64
BEST: Final = 5  # points of the grid that are listed
SINGLES: Final = 20  # features of no group that are listed
COLUMNS: Final = 60
LINES: Final = 6
LIKE_NOTHING: Final = 3  # features of a run whose weights are listed one by one
PANEL: Final = (640.0, 110.0)
MARGIN: Final = 60.0
Partition = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Options of the command."""

    file: Path | None
    given: tuple[str, ...]
    gammas: tuple[float, ...]
    ks: tuple[float, ...]
    tolerance: float
    memory_bytes_max: int | None
    svg: Path | None
    strict: bool


def fit_groups(request: Request, options: GroupOptions) -> None:
    """Read the file, solve, write the model and the drawing, and report."""
    started = time.perf_counter()
    declared = read_groups(group_tables(options.file, options.given))
    with ExitStack() as stack:
        found = stack.enter_context(data_asked_for(request, options.strict))
        pool = stack.enter_context(Threads(request.threads))
        may_go_on = stack.enter_context(interruptible())
        names = _names(found)
        grouping = grouping_of(declared, {name: rank for rank, listed in names.items() for name in listed})
        solver = RunLasso(
            grouping, options.gammas or GAMMAS, options.ks or KS, options.tolerance, request.threads,
            options.memory_bytes_max or MEMORY_BYTES_MAX,
        )  # fmt: skip
        with pass_progress() as show:

            def watch(point: GridPoint) -> bool:
                found = f"{point.runs} runs, {point.non_zeros} weights, score {point.score:.2f}"
                show(f"gamma {point.gamma:.3g}, k {point.k:g}: {found}")
                return may_go_on()

            solved = solver.solve(Problem(found.data, link_of(found.config), 1.0), pool, watch)
        content = None if request.out is None else export(found, solved.problem, solved.solution)
        report = {**rows_report(found, request.file), **_report(solved, found.data, names), "interrupted": not may_go_on()}
        report["groups"] = [
            {"name": name, "features": len(ranks), "runs": is_runs, "absent": absent, "spread": spread}
            for name, ranks, is_runs, absent, spread in zip(
                grouping.names, grouping.ranks, grouping.is_runs, grouping.absent, solved.spread, strict=True
            )
        ]
        report["unnamed"] = found.data.features - len(names)
        report["warnings"] = [
            f"group {one['name']!r}: its widest column varies {one['spread']:.0f} times as much as its narrowest; scale them"
            for one in report["groups"]
            if one["spread"] > UNEVEN
        ]
    if options.svg is not None:
        write_whole(options.svg, draw_groups(report["partition"]).encode())
    conclude(report, (request.out, content), request.as_json, started, shown)


def _names(found: FileData) -> dict[int, list[str]]:
    """Return the names of each rank that has any."""
    bits = found.data.bits
    rank_of = {slot: rank for rank, slot in enumerate(found.data.slots.tolist())}
    names: dict[int, list[str]] = {}
    for fingerprint, name in found.names.everything():
        rank = rank_of.get(fingerprint >> (FINGERPRINT_BITS - bits))
        if rank is not None:
            names.setdefault(rank, []).append(name.decode())
    return names


def _report(solved: RunSolution, data: Data, names: dict[int, list[str]]) -> dict[str, Any]:
    weights, certificate = solved.solution.weights, solved.solution.certificate
    of_rank = solved.problem.by_rank(weights)
    return {
        "features": data.features,
        "gamma": solved.problem.gamma,
        "k": solved.k,
        "score": solved.score,
        "objective": certificate.objective,
        "gap": certificate.gap,
        "kkt": certificate.kkt,
        "log_likelihood": solved.log_likelihood,
        "non_zeros": len(weights.slot),
        "intercept": weights.intercept,
        "stopped": solved.solution.stopped,
        "memory_bytes": solved.solution.spent.memory_bytes,
        "partition": [
            {
                "group": run.group,
                "features": list(run.names) or [_name(names, rank, data) for rank in run.features.tolist()],
                "weights": of_rank[run.features].tolist(),
            }
            for run in solved.runs
        ],
        "grid": [_point(point) for point in solved.grid],
    }


def _name(names: dict[int, list[str]], rank: int, data: Data) -> str:
    return " / ".join(names.get(rank, [f"slot {data.slots[rank]}"]))


def _point(point: GridPoint) -> dict[str, Any]:
    made = {name: getattr(point, name) for name in ("gamma", "k", "objective", "score", "kkt", "runs", "non_zeros")}
    return {**made, "seconds": round(point.seconds, 3)}


# The report of `riata groups` as text, and its drawing.


def shown(report: dict[str, Any]) -> str:
    """Return the report as lines of text."""
    grid = sorted(report["grid"], key=lambda point: point["score"])
    lines = [
        *problem_lines(report),
        f"rows      {report['learnt']:,}{left_out(report, 'rejected', 'duplicate')}",
        f"features  {report['features']:,}, {report['unnamed']:,} without a name",
        *(f"warning   {one}" for one in report["warnings"]),
        f"chosen    gamma {report['gamma']:.4g}, k {report['k']:g}, by the least score of {len(grid)} points",
        f"{'gamma':>15} {'k':>7} {'score':>12} {'runs':>6} {'weights':>8}",
        *(
            f"{one['gamma']:>15.4g} {one['k']:>7g} {one['score']:>12.4f} {one['runs']:>6} {one['non_zeros']:>8}"
            for one in grid[:BEST]
        ),
        _optimum(report),
    ]
    lines += partition_lines(report["groups"], report["partition"])
    lines += [f"time      {report['seconds']:.2f} s", *last_lines(report, "this is the best point so far")]
    return "\n".join(lines)


def partition_lines(groups: Partition, partition: Partition) -> Iterator[str]:
    """Yield groups with their runs, then the features of no group, as lines of text."""
    for group in groups:
        yield from _group(group, [run for run in partition if run["group"] == group["name"]])
    yield from _singles([run for run in partition if not run["group"]])


def _optimum(report: dict[str, Any]) -> str:
    near = f"at most {report['gap']:.1e} below the best, largest violation {report['kkt']:.1e} of gamma"
    return f"optimum   objective {report['objective']:.6f}, {near}; stopped by {report['stopped']}"


def _group(group: dict[str, Any], runs: Partition) -> Iterator[str]:
    absent = f", {group['absent']} that do not occur" if group["absent"] else ""
    kind = f"{len(runs)} runs" if group["runs"] else "one group"
    yield f"group {group['name']}: {group['features']} features{absent}, {kind}"
    for run in runs:
        names, weights = run["features"], run["weights"]
        if not any(weights):
            told = "no weight"
        elif len(names) <= LIKE_NOTHING:
            told = ", ".join(f"{weight:+.4g}" for weight in weights)
        else:
            told = f"{weights[0]:+.4g} .. {weights[-1]:+.4g}, between {min(weights):+.4g} and {max(weights):+.4g}"
        yield f"  {names[0]}" + (f" .. {names[-1]} ({len(names)})" if len(names) > 1 else "") + f": {told}"
    values = [weight for run in runs for weight in run["weights"]]
    if group["runs"] and len(values) > 1 and any(values):
        plot = draw([values], COLUMNS, LINES)
        for i, line in enumerate(plot.lines()):
            label = plot.high if i == 0 else plot.low if i == LINES - 1 else None
            yield f"  {'' if label is None else f'{label:+.3g}':>9} {line}"


def _singles(runs: Partition) -> Iterator[str]:
    if not runs:
        return
    ordered = sorted(runs, key=lambda run: -abs(run["weights"][0]))
    yield f"features of no group with a weight: {len(runs)}"
    yield from (f"  {run['features'][0]}: {run['weights'][0]:+.4g}" for run in ordered[:SINGLES])
    if len(ordered) > SINGLES:
        yield f"  and {len(ordered) - SINGLES} more"


def draw_groups(partition: Partition) -> str:
    """Draw the weights of each group as bars over its features, with a frame around each run."""
    svg, top = Svg(), 20.0
    groups = list(dict.fromkeys(run["group"] for run in partition))
    for number, name in enumerate(groups):
        runs = [run for run in partition if run["group"] == name]
        _panel(svg, top, name or "features of no group", runs, COLOURS[number % len(COLOURS)])
        top += PANEL[1] + 50.0
    return svg.render(PANEL[0] + 2 * MARGIN, top, "weights by group and run")


def _panel(svg: Svg, top: float, title: str, runs: Partition, colour: str) -> None:
    values = [weight for run in runs for weight in run["weights"]]
    low, high = min(0.0, *values), max(0.0, *values)
    width, corner = PANEL[0] / len(values), (MARGIN, top + 12.0)
    ((_, zero),) = curve_points([0.0], corner, PANEL, (low, high))
    svg.text((MARGIN, top + 4.0), title)
    at = 0
    for run in runs:
        left, n = MARGIN + at * width, len(run["weights"])
        svg.box((left, corner[1]), (n * width, PANEL[1]), "#f6f8fa" if any(run["weights"]) else "none", "#d0d7de")
        for i, weight in enumerate(run["weights"]):
            ((_, y),) = curve_points([weight], corner, PANEL, (low, high))
            svg.box((left + i * width, min(y, zero)), (max(width - 1.0, 0.5), abs(y - zero)), colour)
        if any(run["weights"]):
            svg.text((left + 2.0, corner[1] + PANEL[1] + 13.0), run["features"][0])
        at += n
    svg.line((MARGIN, zero), (MARGIN + PANEL[0], zero))
    svg.text((MARGIN - 4.0, corner[1] + 8.0), f"{high:.3g}", "end")
    svg.text((MARGIN - 4.0, corner[1] + PANEL[1]), f"{low:.3g}", "end")
