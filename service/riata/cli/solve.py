"""Finds batch optima for the commands, with progress and Ctrl-C, and reports them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from riata.batch.choose import Choice, auto
from riata.batch.data import Data
from riata.batch.mp import Mp
from riata.batch.path import solve_path
from riata.batch.pool import Pool
from riata.batch.problem import Problem
from riata.batch.rmmp import K, Rmmp
from riata.batch.solution import Solution, TraceRow
from riata.cli.progress import pass_progress
from riata.cli.solver_options import SolverOptions
from riata.learn.learner import Weights
from riata.run.adopting import link_of
from riata.run.config import ModelConfig

GAMMA: Final = 1.0  # of learners without a setting of this name

Solved = list[tuple[Problem, Solution]]


def solve(
    options: SolverOptions,
    data: Data,
    config: ModelConfig,
    pool: Pool,
    may_go_on: Callable[[], bool],
    start: Weights | None = None,
) -> tuple[Choice, Solved]:
    """Solve under each penalty. Returns how the solver was chosen, and the solutions, largest penalty first.

    may_go_on : called after each pass; false: stop with the best weights so far
    start     : where the first penalty begins
    """
    gammas = options.gammas or (getattr(config.learner, "gamma", GAMMA),)
    problem = Problem(data, link_of(config), gammas[0], start=start)
    choice = _choice(options, problem, pool)
    with pass_progress() as show_pass:

        def watch(gamma: float, row: TraceRow) -> bool:
            show_pass(
                f"gamma {gamma:g}, pass {row.number}: objective {row.certificate.objective:.4f}, largest violation "
                f"{row.certificate.kkt:.1e}, {row.non_zeros:,} weights"
            )
            return may_go_on()

        if len(gammas) == 1:
            return choice, [(problem, choice.solver.solve(problem, pool, lambda row: watch(gammas[0], row)))]
        whole = not isinstance(choice.solver, Rmmp)
        solver = Rmmp(choice.solver.k if isinstance(choice.solver, Rmmp) else data.features, options.tolerance, whole=whole)
        path = solve_path(problem, gammas, replace(solver, memory_bytes_max=options.memory_bytes_max), pool, watch)
        return choice, [(replace(problem, gamma=gamma), solution) for gamma, solution in path]


def _choice(options: SolverOptions, problem: Problem, pool: Pool) -> Choice:
    """Return the solver that was asked for."""
    if options.solver == "auto" and options.k is None:
        return auto(problem, pool, options.tolerance, options.memory_bytes_max)
    if options.solver == "mp":
        return Choice("mp", Mp(options.tolerance, memory_bytes_max=options.memory_bytes_max), "mp: as asked")
    k = K if options.k is None else options.k
    return Choice("rmmp", Rmmp(k, options.tolerance, memory_bytes_max=options.memory_bytes_max), "rmmp: as asked")


def report_of(choice: Choice, solved: Solved, pool: Pool) -> dict[str, Any]:
    """Return the solver, the total weight of the rows, the loss of the base rate, and the solutions, as a document."""
    data = solved[0][0].data
    negative, positive = pool.fold("labels", data.parts, {})["weight"].tolist()
    weight, share = negative + positive, positive / (negative + positive)
    return {
        "features": data.features,
        "weight": weight,
        "solver": choice.name,
        "reason": choice.reason,
        "base_log_loss": -share * math.log(share) - (1.0 - share) * math.log(1.0 - share),
        "solutions": [_solution(problem, solution, weight) for problem, solution in solved],
    }


def mean_loss(problem: Problem, weights: Weights, objective: float, weight: float) -> float:
    """Return the mean log loss over the rows of a problem, from the objective there. weight: of all rows."""
    return -(objective + problem.penalty(problem.by_rank(weights), weights.intercept)) / weight


def _solution(problem: Problem, solution: Solution, weight: float) -> dict[str, Any]:
    certificate = solution.certificate
    return {
        "gamma": float(problem.gamma),
        "objective": certificate.objective,
        "gap": certificate.gap,
        "kkt": certificate.kkt,
        "log_loss": mean_loss(problem, solution.weights, certificate.objective, weight),
        "non_zeros": len(solution.weights.slot),
        "intercept": solution.weights.intercept,
        "passes": solution.spent.passes,
        "accesses": solution.spent.accesses,
        "memory_bytes": solution.spent.memory_bytes,
        "stopped": solution.stopped,
        "trace": [_pass(row) for row in solution.trace],
    }


def _pass(row: TraceRow) -> dict[str, Any]:
    return {
        "pass": row.number,
        "objective": row.certificate.objective,
        "gap": row.certificate.gap,
        "kkt": row.certificate.kkt,
        "non_zeros": row.non_zeros,
        "members": row.members,
        "frozen": row.frozen,
        "seconds": round(row.seconds, 3),
    }


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
