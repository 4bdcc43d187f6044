"""Solves and reports for `riata groups`."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from riata.base.directories import write_whole
from riata.base.errors import Malformed
from riata.cli.data_files import FileData, data_of_files
from riata.cli.fit_batch import export, rows_report
from riata.cli.fit_request import INTERRUPTED, Request, interruptible
from riata.cli.group_tables import group_tables
from riata.cli.groups_view import draw_groups, shown
from riata.cli.progress import pass_progress, rows_so_far
from riata.lab.batch.data import Data
from riata.lab.batch.groups import grouping_of, read_groups
from riata.lab.batch.pool import Threads
from riata.lab.batch.problem import Problem
from riata.lab.batch.run_search import GAMMAS, KS, MEMORY_BYTES_MAX, GridPoint, RunLasso, RunSolution
from riata.run.candidates.adopting import link_of

UNEVEN: Final = 10.0  # standard deviations of the columns of a group that differ by more are said
FINGERPRINT_BITS: Final = 64


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
        with rows_so_far("read") as on_block:
            files = data_of_files([request.file], request.config, request.layout, request.threads, on_block=on_block)
            found = stack.enter_context(files)
        if options.strict and found.problems:
            first = found.problems[0][1]
            raise Malformed(f"line {first.line}: {first.detail} [{first.code}]; nothing was written", first.code)
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
        report = {**rows_report(found), **_report(solved, found.data, names), "interrupted": not may_go_on()}
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
    if request.out is not None and content is not None:
        write_whole(request.out, content)
    if options.svg is not None:
        write_whole(options.svg, draw_groups(report["partition"]).encode())
    report["seconds"] = round(time.perf_counter() - started, 3)
    report["out"] = None if request.out is None else {"file": str(request.out), "bytes": len(content or b"")}
    typer.echo(json.dumps(report) if request.as_json else shown(report))
    if report["interrupted"] or report["rejected"]:
        raise typer.Exit(INTERRUPTED if report["interrupted"] else 1)


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
