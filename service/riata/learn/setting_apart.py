"""A learner whose rows have indicators in place of values that are set apart (`learn.apart`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from riata.base.arrays import BOOL, Arrays
from riata.learn.apart import Apart
from riata.learn.learner import FarValue, Learner, Stepped, Weights
from riata.wire.batch import Batch


class SettingApart(Learner):
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

    def freeze(self) -> Arrays:
        """Return the state of the learner inside."""
        return self._inside.freeze()

    def thaw(self, arrays: Arrays) -> None:
        """Restore it."""
        self._inside.thaw(arrays)

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        return self._inside.memory()

    def forget(self, keep: float) -> None:
        """Let the past count for a share `keep` of what it counted."""
        self._inside.forget(keep)

    def far_values(self) -> list[FarValue]:
        """Return values that are far from all others of their column."""
        return self._inside.far_values()

    def chosen(self) -> Mapping[str, Any]:
        """Return the settings that are tried side by side."""
        return self._inside.chosen()
