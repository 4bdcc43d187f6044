"""Finds batch optima as commands and jobs ask for them: the solver by name, one penalty or several, and the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from riata.base.errors import BadInput
from riata.lab.batch.certificate import certify, expansion_of, expansion_request
from riata.lab.batch.choose import Choice, Solver, choose
from riata.lab.batch.data import Data
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Certificate, Note, Problem, Solution, TraceRow
from riata.lab.batch.rmmp import Mp, Rmmp, solve_path
from riata.lab.batch.segment_data import SegmentData, data_of
from riata.learn.learner import Weights
from riata.run.candidates.adopting import link_of, rho_of, state_around
from riata.run.candidates.exports import write_export
from riata.run.candidates.judging import losses, margins
from riata.run.candidates.segment_building import build_segments, origin_of
from riata.run.log.effective_log import Window, read_effective_log
from riata.run.state.config import ModelConfig
from riata.run.state.model_state import ModelState
from riata.run.state.replay import in_this_thread
from riata.store.control_events import Counted
from riata.store.segment import Segment, Segments
from riata.store.store import Store, names_in_log
from riata.wire.batch import Batch, ByLabel, select_rows, weighted
from riata.wire.names import Names
from riata.wire.solver_options import SolverOptions

GAMMA: Final = 1.0  # of learners without a setting of this name
SHARED_NAMED: Final = 8  # slots
STEP_ROWS: Final = 8192

Solved = list[tuple[Problem, Solution]]
Measure = Callable[[Weights], tuple[Certificate, float]]
Watch = Callable[[float, TraceRow], bool]  # the penalty, or the bound, and its pass; false: stop with the best weights so far


def data_for(config: ModelConfig, segments: Sequence[Segment], bits: int, counted: Counted) -> SegmentData:
    """Return the events of segments that count, weighed as the learner of a configuration weighs them at the last one."""
    return data_of(segments, bits, counted, rho_of(config), config.label_weight.by_label)


def gammas_of(options: SolverOptions, config: ModelConfig) -> tuple[float, ...]:
    """Return the penalties to solve under."""
    return options.gammas or (getattr(config.learner, "gamma", GAMMA),)


def solve(
    options: SolverOptions, data: Data, config: ModelConfig, pool: Pool, watch: Watch, start: Weights | None = None
) -> tuple[Choice, Solved]:
    """Solve under each penalty. Returns how the solver was chosen, and the solutions, largest penalty first.

    start : where the first penalty begins
    """
    gammas = gammas_of(options, config)
    problem = Problem(data, link_of(config), gammas[0], start=start)
    if options.bounds:
        return _within_bounds(options, problem, pool, watch)
    choice = choose(options.solver, problem, pool, **options.settings)
    if len(gammas) == 1:
        return choice, [(problem, choice.solver.solve(problem, pool, lambda row: watch(gammas[0], row)))]
    if isinstance(choice.solver, Mp | Rmmp):
        solver = choice.solver if isinstance(choice.solver, Rmmp) else choice.solver.as_rmmp(data.features)
        path = solve_path(problem, gammas, solver, pool, watch)
        return choice, [(replace(problem, gamma=gamma), solution) for gamma, solution in path]
    return choice, _one_by_one(choice.solver, problem, gammas, pool, watch)


def _one_by_one(solver: Solver, problem: Problem, gammas: Sequence[float], pool: Pool, watch: Watch) -> Solved:
    """Solve under each penalty in turn, each from the weights of the one before, until `watch` stops it."""
    solved: Solved = []
    for gamma in sorted(set(gammas), reverse=True):
        problem = replace(problem, gamma=gamma, start=solved[-1][1].weights if solved else problem.start)
        solved.append((problem, solver.solve(problem, pool, lambda row, gamma=gamma: watch(gamma, row))))  # type: ignore[misc]
        if solved[-1][1].stopped == "cancelled":
            break
    return solved


def _within_bounds(options: SolverOptions, problem: Problem, pool: Pool, watch: Watch) -> tuple[Choice, Solved]:
    """Solve under each bound in turn. The penalty of each solution is the one under which it is the optimum."""
    solved: Solved = []
    for bound in sorted(set(options.bounds)):
        choice = choose(options.solver, problem, pool, **options.settings, bound=bound)
        solution = choice.solver.solve(problem, pool, lambda row, bound=bound: watch(bound, row))  # type: ignore[misc]
        solved.append((replace(problem, gamma=solution.gamma or 0.0), solution))
        if solution.stopped == "cancelled":
            break
    return choice, solved


def report_of(solver: str, reason: str, solved: Solved, pool: Pool) -> dict[str, Any]:
    """Return the solver, the total weight of the rows, the loss of the base rate, and the solutions, as a document."""
    data = solved[0][0].data
    negative, positive = pool.fold("labels", data.parts, {})["weight"].tolist()
    weight, share = negative + positive, positive / (negative + positive)
    return {
        "features": data.features,
        "weight": weight,
        "solver": solver,
        "reason": reason,
        "base_log_loss": -share * math.log(share) - (1.0 - share) * math.log(1.0 - share),
        "solutions": [solution_document(problem, solution, weight) for problem, solution in solved],
    }


def mean_loss(problem: Problem, weights: Weights, objective: float, weight: float) -> float:
    """Return the mean log loss over the rows of a problem, from the objective there. weight: of all rows."""
    return -(objective + problem.penalty(problem.by_rank(weights), weights.intercept)) / weight


def solution_document(problem: Problem, solution: Solution, weight: float) -> dict[str, Any]:
    """Return a solution as a document. weight: of all rows"""
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
        "size": float(abs(solution.weights.beta).sum()),
        "stopped": solution.stopped,
        "notes": [
            {"code": note.code, "text": note.text, "slots": list(note.slots)}
            for note in (*solution.notes, *shared_slots(problem.data))
        ],
        "trace": [pass_document(row) for row in solution.trace],
    }


def shared_slots(data: Data) -> list[Note]:
    """Return the note that the problem which was solved adds features together; empty if it does not."""
    shared = len(data.shared)
    if not shared:
        return []
    text = (
        f"{shared:,} of {data.features:,} slots are shared: those of a slot are added together here, and the certificate is "
        "of this problem; with more encoder.bits there are fewer"
    )
    return [Note("shared_slots", text, tuple(data.shared[:SHARED_NAMED].tolist()))]


def pass_document(row: TraceRow) -> dict[str, Any]:
    """Return one pass as a document."""
    return {
        "pass": row.number,
        "objective": row.certificate.objective,
        "gap": row.certificate.gap,
        "kkt": row.certificate.kkt,
        "non_zeros": row.non_zeros,
        "members": row.members,
        "frozen": row.frozen,
        "accesses": row.accesses,
        "seconds": round(row.seconds, 3),
    }


# A refit: the data of a batch solver from the log of a model, and the online model that is compared with the optimum.


@dataclass(frozen=True, slots=True)
class RefitData:
    """What a solver needs to refit a model.

    window   : the events that the data are of; ends at the event of the online model
    segments, counted : the events, and which of them count
    online   : weights of the newest checkpoint
    """

    model: str
    config: ModelConfig
    data: SegmentData
    window: Window
    segments: Sequence[Segment]
    counted: Counted
    online: Weights
    names: Names

    def measured_online(self, problem: Problem, pool: Pool, weight: float) -> tuple[float | None, float]:
        """See `measured_online`."""
        rows = rows_between(self.segments, self.counted, 0, self.window.last, self.config.label_weight.by_label)
        return measured_online(self.online, rows, partial(measured, problem, pool, weight))

    def export(self, problem: Problem, solution: Solution) -> bytes:
        """Return the model around a solution, as the import route takes it."""
        state = state_around(self.config, problem, solution, self.model)
        frozen, weights = state.freeze(), state.learner.weights()
        return write_export(frozen.header, frozen.arrays, self.names, weights)


def rows_between(segments: Sequence[Segment], counted: Counted, after: int, last: int, by_label: ByLabel) -> Iterator[Batch]:
    """Yield the examples of the events after..last that count, in order, weighted as they are learnt."""
    for segment in segments:
        events = segment.events(0, segment.rows)
        low, high = np.searchsorted(events, [after + 1, last + 1]).tolist()
        for start in range(low, high, STEP_ROWS):
            stop = min(start + STEP_ROWS, high)
            keep = counted.mask(events[start:stop])
            if keep.any():
                yield select_rows(weighted(segment.batch(start, stop), by_label), keep)


def summed_loss(weights: Weights, batch: Batch) -> float:
    """Return the sum of the losses of fixed weights on rows, with what their shapes add."""
    return float((losses(weights.link, margins(weights, batch), batch.label) * batch.weight).sum())


def measured(problem: Problem, pool: Pool, weight: float, weights: Weights) -> tuple[Certificate, float]:
    """Return the certificate of any weights, and their mean loss, by one pass. weight : of all rows"""
    found = certificate_at(problem, weights, pool)
    return found, mean_loss(problem, weights, found.objective, weight)


def measured_online(online: Weights, rows: Iterable[Batch], measure: Measure) -> tuple[float | None, float]:
    """Return objective and mean loss of the weights of an online model. If its columns have shapes, or values are set apart, they
    are no point of the problem: there is no objective, and the loss is that of the rows."""
    if online.shapes is None and online.apart is None:
        found, loss = measure(online)
        return found.objective, loss
    sums = np.sum([(summed_loss(online, batch), batch.weight.sum()) for batch in rows], axis=0)
    return None, float(sums[0] / sums[1])


def certificate_at(problem: Problem, weights: Weights, pool: Pool) -> Certificate:
    """Return the certificate of any weights, by one pass. Weights of features that do not occur have no part in it."""
    beta, nothing = problem.by_rank(weights), np.empty(0, np.int64)
    job, given = expansion_request(problem, beta, weights.intercept, nothing)
    found = pool.fold(job, problem.data.parts, given)
    return certify(problem, expansion_of(found, beta, weights.intercept, nothing), problem.scale)


@contextmanager
def refitting(
    store: Store,
    model: str,
    segments: Path | None,
    events: int | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Iterator[RefitData]:
    """Prepare the refit of a model up to its newest checkpoint. The caller has the store to itself, or only reads it.

    segments : the directory in which the segments of the log are made and kept; None: a temporary one
    events   : only the newest events, so many; None: all that are in the log or in segments
    Raises `BadInput` (code `no_events`) if nothing was learnt, and what reading the log and `data_of` raise.
    """
    call, origin = in_this_thread(store), origin_of(store, model)
    generations = store.generations(model)
    if not generations:
        raise BadInput(f"model {model} has no snapshot yet, so there is nothing to compare with", "no_events")
    state = ModelState.of(store.open_generation(model, generations[0].gen))
    with TemporaryDirectory(prefix="riata-rows-") as temporary:
        last = store.head(model).seq
        files = Segments(Path(temporary) if segments is None else segments)
        found = build_segments(call, origin, files, on_progress=lambda event: on_progress(event, last))
        log = read_effective_log(call, model, found)
        first = 1 if events is None else max(1, state.applied - events + 1)
        weights = state.learner.weights()
        counted, window = log.counted(first, state.applied), log.window(first, state.applied)
        data = data_for(state.config, found, weights.bits, counted)
        yield RefitData(model, state.config, data, window, found, counted, weights, names_in_log(store, model))
