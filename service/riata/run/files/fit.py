"""Learn a file in one pass, without a service. The state equals that of a service that observes the same rows in the same order.

Blocks are read in any number of threads and learnt in one (`file_reading.py`). The kernels for reading and learning release the
interpreter's lock. The result is the same bit for bit, because rows are learnt in their order and the cut into blocks has no
effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from riata.base.arrays import F64
from riata.base.clock import SystemClock
from riata.learn.learner import Stepped
from riata.run.candidates.exports import write_export
from riata.run.candidates.judging import event_losses, probabilities
from riata.run.files.reading import FileReading
from riata.run.state.config import ModelConfig
from riata.run.state.model_state import add_unlogged, answer_unlogged, begun, unlogged
from riata.run.writer.published import Published, publish
from riata.wire.batch import Batch
from riata.wire.classes import ClassesConfig


class Fit(FileReading):
    """A model that learns from a file.

    state     : after the rows so far; event 1 is its configuration, as in a log
    features  : features of the rows learnt, without zeros and with repetitions summed
    refused   : rows that the learner refused
    on_batch  : called with each batch before it is learnt
    """

    def __init__(self, config: ModelConfig, content_type: str, name: str = "fit") -> None:
        super().__init__(config, content_type, self._learn)
        self.state = begun(config, name)
        self.features = self.refused = 0
        self.on_batch: Callable[[Batch], None] | None = None

    @property
    def learnt(self) -> int:
        """Number of rows in the figures of progressive validation."""
        return self.state.progressive.examples

    def export(self) -> bytes:
        """Return the bytes that the service's import route accepts."""
        frozen, weights = self.state.freeze(), self.state.learner.weights()
        return write_export(frozen.header, frozen.arrays, self.names.everything(), weights)

    def published(self) -> Published:
        """Return the model as a service would serve it now, with its figures."""
        return publish(self.state, 0, 0, SystemClock())

    @property
    def digest(self) -> str:
        """Digest of the state's content, as in a generation of a service."""
        return self.state.freeze().digest().hex()

    def _take_classes(self, classes: ClassesConfig) -> None:
        add_unlogged(self.state, classes)

    def _learn(self, batch: Batch) -> None:
        if self.on_batch is not None:
            self.on_batch(batch)
        refused = self.state.apply(unlogged(self.state, "observe", batch.n), batch)
        answer_unlogged(self.state)
        self.features += batch.nnz
        self.refused += len(refused)


# The losses of a fit at 1, 2, 4, 8, ... rows, each with the row that was learnt last.
#
# Losses are those of predictions before their rows are learnt. Between two of these counts nothing is computed: sums are those of
# the progressive figures.


class LossSoFar(NamedTuple):
    """Figures after `rows` rows.

    average, since : mean loss of all rows, and of those since the count before, weighted by importance
    label          : of the last row, as its file has it
    predicted      : its probability before it was learnt, or the number or margin of a model without one
    features       : how many it has
    """

    average: float
    since: float
    rows: int
    weight: float
    label: float
    predicted: float
    features: int


class DoublingLosses:
    """Calls `show` at each count. Made before the first row, for models of one margin."""

    def __init__(self, run: Fit, show: Callable[[LossSoFar], None]) -> None:
        self._state, self._show = run.state, show
        self._answers = run.state.progressive.config.answers
        self._signed = run.state.config.labels == "-1/+1"
        self._next = 1
        self._total = self._weight = 0.0  # at the count before
        self._batch: Batch | None = None
        self._at = 0
        run.on_batch, run.state.on_learnt = self._begin, self._learnt

    def _begin(self, batch: Batch) -> None:
        self._batch, self._at = batch, 0

    def _learnt(self, stepped: Stepped) -> None:
        """Called before the rows are in the progressive figures."""
        n, first = len(stepped.margin), self._at
        self._at += n
        before = self._state.progressive.examples
        if before + n - stepped.refusals < self._next or self._batch is None:
            return
        figures = self._state.progressive.figures()["cumulative"]
        mean = figures["loss"] if figures["log_loss"] is None else figures["log_loss"]
        rows = np.flatnonzero(~stepped.refused)
        weight = figures["weight"] + np.cumsum(stepped.weight[rows])
        total = (mean or 0.0) * figures["weight"] + np.cumsum(event_losses(stepped, self._answers)[rows] * stepped.weight[rows])
        predicted = self._predicted(stepped)
        while self._next <= before + len(rows):
            k = self._next - before - 1
            row = int(rows[k])
            label = float(stepped.label[row])
            since = (total[k] - self._total) / (weight[k] - self._weight)
            features = int(self._batch.indptr[first + row + 1] - self._batch.indptr[first + row])
            shown = 2.0 * label - 1.0 if self._signed else label
            self._show(LossSoFar(total[k] / weight[k], since, self._next, weight[k], shown, predicted[row], features))
            self._total, self._weight, self._next = total[k], weight[k], 2 * self._next

    def _predicted(self, stepped: Stepped) -> F64:
        if self._answers == "real" or self._answers == "hinge":
            return stepped.margin
        return probabilities(self._answers, stepped.answered)
