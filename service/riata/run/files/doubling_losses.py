"""The losses of a fit at 1, 2, 4, 8, ... rows, each with the row that was learnt last.

Losses are those of predictions before their rows are learnt. Between two of these counts nothing is computed: sums are those of
the progressive figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from riata.base.arrays import F64
from riata.learn.learner import Stepped
from riata.run.candidates.event_losses import event_losses
from riata.run.candidates.gate import probabilities
from riata.run.files.fit import Fit
from riata.wire.batch import Batch


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
        return probabilities(self._answers, stepped.margin)
