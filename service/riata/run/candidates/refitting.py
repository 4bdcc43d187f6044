"""A refit: the data of a batch solver from the log of a model, and the online model that is compared with the optimum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from riata.base.errors import BadInput
from riata.lab.batch.certificate import certify
from riata.lab.batch.expansion import expansion_of, expansion_request
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Problem
from riata.lab.batch.segment_data import SegmentData, data_of
from riata.lab.batch.solution import Certificate, Solution
from riata.learn.learner import Weights
from riata.run.candidates.adopting import rho_of, state_around
from riata.run.candidates.exports import write_export
from riata.run.candidates.segment_building import build_segments, origin_of
from riata.run.log.effective_log import Window, read_effective_log
from riata.run.state.config import ModelConfig
from riata.run.state.model_state import ModelState
from riata.run.state.replay import in_this_thread
from riata.store import layout
from riata.store.segments import Segments
from riata.store.store import Store
from riata.wire.names import Names


@dataclass(frozen=True, slots=True)
class Refit:
    """What a solver needs to refit a model.

    window : the events that the data are of; ends at the event of the online model
    online : weights of the newest checkpoint
    """

    model: str
    config: ModelConfig
    data: SegmentData
    window: Window
    online: Weights
    names: Names

    def online_objective(self, problem: Problem, pool: Pool) -> float:
        """Return the objective of the online weights, by one pass."""
        return certificate_at(problem, self.online, pool).objective

    def export(self, problem: Problem, solution: Solution) -> bytes:
        """Return the model around a solution, as the import route takes it."""
        state = state_around(self.config, problem, solution, self.model)
        frozen, weights = state.freeze(), state.learner.weights()
        return write_export(frozen.header, frozen.arrays, self.names, weights.slot, weights.bits)


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
) -> Iterator[Refit]:
    """Prepare the refit of a model up to its newest checkpoint. The caller has the store to itself, or only reads it.

    segments : the directory in which the segments of the log are made and kept; None: a temporary one
    events   : only the newest events, so many; None: all that are in the log or in segments
    Raises `BadInput` (code `no_events`) if nothing was learnt, and what reading the log and `data_of` raise.
    """
    call, origin = in_this_thread(store), origin_of(store, model)
    generations = store.generations(model)
    if not generations:
        raise BadInput(f"model {model} has no snapshot yet, so there is nothing to compare with", "no_events")
    state = ModelState.thaw(*layout.decode_checkpoint(store.open_generation(model, generations[0].gen)))
    with TemporaryDirectory(prefix="riata-rows-") as temporary:
        last = store.head(model).seq
        files = Segments(Path(temporary) if segments is None else segments)
        found = build_segments(call, origin, files, on_progress=lambda event: on_progress(event, last))
        log = read_effective_log(call, model, found)
        first = 1 if events is None else max(1, state.applied - events + 1)
        weights = state.learner.weights()
        data = data_of(
            found, weights.bits, log.counted(first, state.applied), rho_of(state.config), state.config.label_weight.by_label
        )
        yield Refit(model, state.config, data, log.window(first, state.applied), weights, Names.of(store.names(model)))
