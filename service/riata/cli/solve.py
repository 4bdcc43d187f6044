"""Finds batch optima for the commands, with progress and Ctrl-C, and shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from riata.cli.progress import pass_progress
from riata.lab.batch.choose import Choice
from riata.lab.batch.data import Data
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import TraceRow
from riata.learn.learner import Weights
from riata.run.candidates import solving
from riata.run.candidates.solving import Solved
from riata.run.state.config import ModelConfig
from riata.wire.solver_options import SolverOptions

FEW: Final = 4  # passes before which the time left is not estimated


def solve(
    options: SolverOptions,
    data: Data,
    config: ModelConfig,
    pool: Pool,
    may_go_on: Callable[[], bool],
    start: Weights | None = None,
) -> tuple[Choice, Solved]:
    """Solve under each penalty, as `riata.run.candidates.solving.solve` does.

    may_go_on : called after each pass; false: stop with the best weights so far
    """
    with pass_progress() as show_pass:
        seen: dict[float, list[TraceRow]] = {}

        def watch(gamma: float, row: TraceRow) -> bool:
            seen.setdefault(gamma, []).append(row)
            found, left = row.certificate, seconds_left(seen[gamma], options.tolerance)
            penalty = f"{'bound' if options.bounds else 'gamma'} {gamma:g}"
            show_pass(
                f"{penalty}, pass {row.number}: objective {found.objective:.4f}, {_gap(found.gap)}, largest violation "
                f"{found.kkt:.1e}, {row.non_zeros:,} weights" + ("" if left is None else f", about {left:.0f} s left")
            )
            return may_go_on()

        return solving.solve(options, data, config, pool, watch, start)


def seconds_left(rows: Sequence[TraceRow], tolerance: float) -> float | None:
    """Estimate how long a solver still takes, if the distance from the optimum goes on falling as it has; None: unknown."""
    if len(rows) < FEW:
        return None
    first, last = (_distance(row) for row in (rows[len(rows) // 2], rows[-1]))
    if not 0.0 < last < first:
        return None
    rate = math.log(first / last) / max(rows[-1].seconds - rows[len(rows) // 2].seconds, 1e-9)
    return max(0.0, math.log(last / tolerance) / rate)


def _distance(row: TraceRow) -> float:
    """Return what a solver stops by."""
    found = row.certificate
    return found.kkt if found.gap is None else min(found.kkt, found.gap / max(abs(found.objective), 1e-300))


def _gap(gap: float | None) -> str:
    return "no bound" if gap is None else f"gap {gap:.1e}"


def excess_line(excess: float | None, of: str) -> str:
    """Return by how much the solution's objective, which is maximised, is above or below that of other weights. None: these have
    no objective, as their columns have shapes."""
    if excess is None:
        return f"not compared: the {of} have shapes of columns beside them, and the solution has none"
    return f"the solution is {abs(excess):.4f} {'below' if excess < 0.0 else 'above'} the {of}"


def notes_of(solutions: Sequence[dict[str, Any]], names: Callable[[int], list[str]] | None = None) -> list[str]:
    """Return the notes of solutions as lines of text, each once. names : those of a slot"""
    lines = []
    for one in solutions:
        for note in one["notes"]:
            held = [name for slot in note["slots"] for name in ((names(slot) if names else []) or [f"slot {slot}"])]
            lines.append(f"note      {note['text']}{': ' if held else ''}{', '.join(held)}")
    return list(dict.fromkeys(lines))


def table_of(solutions: Sequence[dict[str, Any]]) -> list[str]:
    """Return the solutions as lines of text."""
    heads = ("gamma", "non-zeros", "log loss", "objective", "gap", "violation", "passes", "stopped by")
    widths = (10, 9, 8, 14, 8, 9, 6, 0)
    rows = [heads]
    for one in solutions:
        gap = "no bound" if one["gap"] is None else f"{one['gap']:.1e}"
        cells = (f"{one['gamma']:g}", f"{one['non_zeros']:,}", f"{one['log_loss']:.4f}", f"{one['objective']:.6f}", gap)
        rows.append((*cells, f"{one['kkt']:.1e}", str(one["passes"]), one["stopped"]))
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
