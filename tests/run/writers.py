"""A writer that is driven by hand, with a checkpointer that succeeds at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np

from riata.run.state.config import Change, read_config
from riata.run.state.model_state import Frozen, ModelState
from riata.run.writer.checkpointer import Checkpointer, Saved
from riata.run.writer.queue import AddModel, Logged, WriterHooks
from riata.run.writer.writer import Writer
from riata.store.store import Append, Verdict
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, log_batch, random_batch

LINEAGE = bytes(range(16))


class Saves:
    """In the place of a checkpointer: every checkpoint succeeds at once, and is kept."""

    def __init__(self) -> None:
        self.frozen: dict[str, Frozen] = {}

    def save(self, frozen: Frozen, _created_ms: int, _info: dict[str, Any]) -> Saved:
        self.frozen[name := str(frozen.header["model"])] = frozen
        return Saved(name, bytes.fromhex(frozen.header["lineage"]), Verdict.OK, None, 0)


def hooks(**told: Any) -> WriterHooks:
    """Callbacks that do nothing, but that an error or a damage fails the test."""

    def fatal(reason: str, error: BaseException) -> None:
        raise AssertionError(reason) from error

    nothing: dict[str, Any] = {field.name: lambda *_: None for field in fields(WriterHooks)}
    failing = {"fatal": fatal, "damaged": lambda damage: fatal(damage.sentence(), damage.error())}
    return WriterHooks(**{**nothing, **failing, **told})


LEFT_S = 5.0  # how long a record may be left to gather


class ManualWriter:
    """A writer that takes one turn on request, and the logs of its models."""

    def __init__(
        self, names: Sequence[str], saves: Saves, told: WriterHooks, yields: Callable[[], None] = lambda: None, **document: Any
    ) -> None:
        self.names, self.clock, self.store = names, ManualClock(10_000), MemoryStore()
        self.writer = Writer(cast(Checkpointer, saves), self.clock, told, LEFT_S, yields)
        self._rng, self._document = np.random.default_rng(3), {"encoder": {"bits": 12}, **document}
        for name in names:
            create_model(self.store, name, config=read_config(self._document))
            state = ModelState(name, LINEAGE)
            state.apply(self.store.read(name, 0)[0])
            self._take(AddModel(state))

    def learn(self, after_ms: int = 0, name: str = "m") -> int:
        """Pass a record to learn; returns its last event."""
        self.clock.now_ms += after_ms
        log_batch(self.store, random_batch(self._rng, 70), name)
        return self._take_last(name)

    def configure(self, **changed: Any) -> int:
        """Change the configuration; returns the event."""
        config = read_config({**self._document, **changed})
        self.store.append([Append("m", "config", 0, payload=Change(config).payload())])
        return self._take_last("m")

    def end_of_saves(self) -> None:
        """Wait until what was begun to be saved has ended."""
        self.writer._turns.saver.submit(2**40, lambda: None).result()

    def _take_last(self, name: str) -> int:
        record = self.store.read(name, 0)[-1]
        self._take(Logged(record, None))
        return record.last

    def _take(self, item: AddModel | Logged) -> None:
        self.writer.put(item)
        assert self.writer._turn()
