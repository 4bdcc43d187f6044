"""Refits with groups of features: LAPS on the events of a log (`batch/run_search.py`).

Groups are declared by name. The service finds the slots of the names that it knows; the child process finds the ranks of those
slots in the events that count. What it found is checked by the service under the same runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from riata.lab.batch.data import Data
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Certificate, Problem, TraceRow
from riata.lab.batch.run_search import KS, GridPoint, RunLasso, RunSolution, edges_of
from riata.lab.batch.runs import Checked, Layout, Point, check
from riata.learn.learner import Weights
from riata.run.candidates.adopting import link_of
from riata.run.candidates.refits.request import RefitRequest
from riata.run.candidates.solving import GAMMA
from riata.run.state.config import ModelConfig
from riata.wire.groups import Grouping
from riata.wire.solver_options import LAPS

Told = Callable[[float, TraceRow, Mapping[str, Any]], bool]  # the penalty, the point of the grid as a pass, and more about it
REASON: Final = f"{LAPS}: as asked; the score chooses among the points of the grid"


def grouping_in(by_slot: Grouping, data: Data) -> Grouping:
    """Return the groups with the ranks of some data. Features that do not occur there are dropped, and counted as absent."""
    order = np.argsort(data.slots)
    slots = data.slots[order].astype(np.int64)
    ranks, features, absent = [], [], []
    for wanted, names, missing in zip(by_slot.ranks, by_slot.features, by_slot.absent, strict=True):
        occurs = np.isin(wanted, slots)
        ranks.append(order[np.searchsorted(slots, wanted[occurs])])
        features.append(tuple(name for name, is_here in zip(names, occurs.tolist(), strict=True) if is_here))
        absent.append(missing + int(np.count_nonzero(~occurs)))
    return replace(by_slot, ranks=tuple(ranks), features=tuple(features), absent=tuple(absent))


@dataclass(frozen=True, slots=True)
class Grouped:
    """Solves a problem with groups.

    by_slot : the groups, by slot
    told    : of each point of the grid; false: stop with the best so far
    go_on   : asked more often; false: end the point under way too
    """

    by_slot: Grouping
    request: RefitRequest
    config: ModelConfig
    threads: int
    memory_bytes_max: int
    told: Told
    go_on: Callable[[], bool]

    def solve(self, data: Data, pool: Pool, chosen: RunSolution | None = None) -> RunSolution:
        """Solve for the grid of the request, or for gamma and k that were chosen before. Raises what `RunLasso.solve` raises."""
        gammas = self.request.gammas or (getattr(self.config.learner, "gamma", 0.0) or GAMMA,)
        ks = self.request.run_ks or KS
        if chosen is not None:
            gammas, ks = (float(chosen.problem.gamma),), (chosen.k,)
        grouping = grouping_in(self.by_slot, data)
        solver = RunLasso(grouping, gammas, ks, self.request.tolerance, self.threads, self.memory_bytes_max)
        points, done, began = len(gammas) * (len(ks) if any(self.by_slot.is_runs) else 1), 0, time.perf_counter()

        def watch(point: GridPoint) -> bool:
            nonlocal done
            done += 1
            certificate = Certificate(point.objective, None, point.kkt)
            row = TraceRow(done, certificate, point.non_zeros, point.runs, 0, (done + 1) * data.nnz, time.perf_counter() - began)
            return self.told(point.gamma, row, {"run_k": point.k, "score": point.score, "points": points})

        return solver.solve(Problem(data, link_of(self.config), 1.0), pool, watch, self.go_on)


def runs_document(found: RunSolution, grouping: Grouping, data: Data) -> dict[str, Any]:
    """Return the runs of a solution as a document: k, score, groups, partition and grid. Features of no group have no names.

    grouping : of `data`
    """
    weights = found.problem.by_rank(found.solution.weights)
    return {
        "k": found.k,
        "score": found.score,
        "groups": [
            {"name": name, "features": len(ranks), "runs": is_runs, "absent": absent, "spread": spread, "lengths": list(lengths)}
            for name, ranks, is_runs, absent, spread, lengths in zip(
                grouping.names, grouping.ranks, grouping.is_runs, grouping.absent, found.spread, found.lengths, strict=True
            )
        ],
        "partition": [
            {
                "group": run.group,
                "features": list(run.names),
                "slots": data.slots[run.features].tolist(),
                "weights": weights[run.features].tolist(),
            }
            for run in found.runs
        ],
        "grid": [
            {name: getattr(point, name) for name in ("gamma", "k", "objective", "score", "kkt", "runs", "non_zeros")}
            for point in found.grid
        ],
    }


@dataclass(frozen=True, slots=True)
class RunCheck:
    """Measures weights under the runs of a solution by a pass over the rows."""

    problem: Problem
    layout: Layout
    lengths: Sequence[Sequence[int]]
    k: float

    def at(self, weights: Weights, pool: Pool) -> Checked:
        """Measure weights. Raises `BadInput` (code `bad_groups`) if the runs are not those of the groups."""
        edges = edges_of(self.layout, self.lengths)
        point = Point(edges, self.problem.by_rank(weights)[self.layout.rank], np.array([weights.intercept]))
        return check(self.problem, self.layout, self.layout.runs(edges, float(self.problem.gamma), self.k), point, pool)
