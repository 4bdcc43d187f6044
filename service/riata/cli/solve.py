"""Finds batch optima for the commands, with progress and Ctrl-C, and shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from riata.batch.choose import Choice
from riata.batch.data import Data
from riata.batch.pool import Pool
from riata.batch.solution import TraceRow
from riata.cli.progress import pass_progress
from riata.learn.learner import Weights
from riata.run import solving
from riata.run.config import ModelConfig
from riata.run.solver_options import SolverOptions
from riata.run.solving import Solved


def solve(
    options: SolverOptions,
    data: Data,
    config: ModelConfig,
    pool: Pool,
    may_go_on: Callable[[], bool],
    start: Weights | None = None,
) -> tuple[Choice, Solved]:
    """Solve under each penalty, as `riata.run.solving.solve` does.

    may_go_on : called after each pass; false: stop with the best weights so far
    """
    with pass_progress() as show_pass:

        def watch(gamma: float, row: TraceRow) -> bool:
            show_pass(
                f"gamma {gamma:g}, pass {row.number}: objective {row.certificate.objective:.4f}, largest violation "
                f"{row.certificate.kkt:.1e}, {row.non_zeros:,} weights"
            )
            return may_go_on()

        return solving.solve(options, data, config, pool, watch, start)


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
