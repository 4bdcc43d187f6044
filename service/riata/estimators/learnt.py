"""A model that learns matrices: the state that a service would have after the same rows, without a log."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import BadInput
from riata.estimators.columns import Columns
from riata.predict.factory import make_model
from riata.predict.model import Model, Origin, Scores
from riata.predict.name_book import NameBook
from riata.run.candidates.exports import read_export, write_export
from riata.run.state.config import ModelConfig, config_payload
from riata.run.state.config_changes import check_change
from riata.run.state.model_state import ModelState, begun, unlogged
from riata.wire.names import NOTHING_NAMED, Names

NAME: Final = "fit"  # as `riata fit` calls a model, so that the same rows make the same file


class Learnt:
    """A state, the columns of its matrices, and the model of the present weights.

    names : of features that are no columns, because another model was loaded
    """

    def __init__(self, state: ModelState, columns: Columns, names: Names = NOTHING_NAMED) -> None:
        self.state = state
        self.columns = columns
        self._names = names
        self._model: Model | None = None

    @classmethod
    def empty(cls, config: ModelConfig, columns: Columns) -> Learnt:
        """Make a model that has learnt nothing."""
        return cls(begun(config, NAME), columns)

    def configure(self, config: ModelConfig) -> None:
        """Take up other settings. Raises `ValueError` for settings that cannot change while a model learns."""
        if config == self.state.config:
            return
        try:
            check_change(self.state.config, config)
        except BadInput as error:
            raise ValueError(f"{error}; or call fit, which starts anew") from None
        self.state.apply(unlogged(self.state, "config", 1, config_payload(config)))

    def learn(self, x: Any, label: F64, weight: F64) -> dict[int, str]:
        """Learn the rows of a matrix in order. Returns why the learner refused rows, by event."""
        refused: dict[int, str] = {}
        self._model = None
        for batch in self.columns.batches(x, label, weight, self._l2):
            refused |= self.state.apply(unlogged(self.state, "observe", batch.n), batch)
        return refused

    def scores(self, x: Any) -> list[Scores]:
        """Score the rows of a matrix, as a service would; in pieces."""
        nothing, one = np.full(x.shape[0], np.nan), np.ones(x.shape[0])
        return [self.model.score(batch) for batch in self.columns.batches(x, nothing, one, self._l2)]

    def weights(self) -> F64:
        """Return the weight of each column, f64[d]."""
        return np.array(self.model.weights.of(self.columns.hash.tolist()))[self.columns.place]

    @property
    def model(self) -> Model:
        """The present weights, as a service would serve them."""
        if self._model is None:
            state = self.state
            origin = Origin(state.name, state.lineage, state.config.encoder, state.config.labels)
            seq = state.applied if state.has_learnt else 0
            self._model = make_model(origin, state.learner.weights(), gen=0, seq=seq)
        return self._model

    def export(self) -> bytes:
        """Return the bytes that a service's import route accepts."""
        book = NameBook.of(self.state.config.encoder)
        book.add_all(self._names)
        book.add_all(self.columns.names)
        frozen, weights = self.state.freeze(), self.state.learner.weights()
        return write_export(frozen.header, frozen.arrays, book.everything(), weights)

    @property
    def _l2(self) -> bool:
        return self.state.config.encoder.normalise == "l2"

    def __getstate__(self) -> dict[str, Any]:
        return {"export": self.export(), "columns": self.columns}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__init__(*_read(kept["export"], kept["columns"]))  # type: ignore[misc]  # a copy is made from its export


def _read(content: bytes, columns: Columns) -> tuple[ModelState, Columns, Names]:
    state, names = read_export(content)
    return state, columns, names
