"""Learn a file in one pass, without a service. The state equals that of a service that observes the same rows in the same order.

Blocks are read in any number of threads and learnt in one (`file_reading.py`). The kernels for reading and learning release the
interpreter's lock. The result is the same bit for bit, because rows are learnt in their order and the cut into blocks has no
effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from riata.run.candidates.exports import write_export
from riata.run.files.reading import FileReading
from riata.run.state.config import ModelConfig, config_payload
from riata.run.state.model_state import ModelState
from riata.store.store import Kind, Record
from riata.wire.batch import Batch
from riata.wire.classes import ClassesConfig

NO_LOG: Final = bytes(16)  # the lineage of a model without a log; the same rows make the same file
EVERYWHERE: Final = 2**14  # step between hashes; of a table of 2^26 slots of 32 bytes, two pages are in that range


class Fit(FileReading):
    """A model that learns from a file.

    state     : after the rows so far; event 1 is its configuration, as in a log
    features  : features of the rows learnt, without zeros and with repetitions summed
    refused   : rows that the learner refused
    on_batch  : called with each batch before it is learnt
    """

    def __init__(self, config: ModelConfig, content_type: str, name: str = "fit") -> None:
        super().__init__(config, content_type, self._learn)
        self.state = ModelState(name, NO_LOG)
        self.features = self.refused = 0
        self.on_batch: Callable[[Batch], None] | None = None
        self.state.apply(unlogged(self.state, "config", 1, config_payload(config, after=0)))

    @property
    def learnt(self) -> int:
        """Number of rows in the figures of progressive validation."""
        return self.state.progressive.examples

    def export(self) -> bytes:
        """Return the bytes that the service's import route accepts."""
        frozen, weights = self.state.freeze(), self.state.learner.weights()
        return write_export(frozen.header, frozen.arrays, self.names.everything(), weights.slot, weights.bits)

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
        self.features += batch.nnz
        self.refused += len(refused)


def add_unlogged(state: ModelState, classes: ClassesConfig) -> None:
    """Have the model of `state` know these classes, by the event that a log would have."""
    state.apply(unlogged(state, "config", 1, config_payload(replace(state.config, classes=classes))))


def unlogged(state: ModelState, kind: Kind, count: int, payload: bytes = b"") -> Record:
    """Return the next record for `state` of a log that is not stored: its digest and chain are never checked."""
    return Record(state.name, kind, state.applied + 1, count, 0, payload, b"", state.chain)
