"""A learner whose rows have indicators in place of values that are set apart (`learn.apart`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from riata.base.arrays import BOOL
from riata.learn.apart import Apart
from riata.learn.learner import Learner, Stepped, Weights, Wrapped
from riata.wire.batch import Batch


class SettingApart(Wrapped):
    """Gives its rows to the learner inside with indicators in place of values that are set apart. It has no state."""

    def __init__(self, inside: Learner, apart: Apart) -> None:
        self._inside, self._apart = inside, apart

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order."""
        return self._inside.step(self._apart.rows(batch), skip)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of all batches in order."""
        return self._inside.step_all([self._apart.rows(batch) for batch in batches], skip)

    def weights(self) -> Weights:
        """Return the weights of the learner inside, and the values that are set apart."""
        weights = self._inside.weights()
        return replace(weights, apart=self._apart if weights.apart is None else self._apart.joined(weights.apart))
