"""Scheduled checkpoints of several models take turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from riata.run.state.config import read_config
from riata.run.state.model_state import Frozen, ModelState
from riata.run.writer.cell import WriterHooks
from riata.run.writer.checkpointer import Checkpointer, Saved
from riata.run.writer.model_turn import PARTS, REST_MS_MAX
from riata.run.writer.queue import AddModel, Logged
from riata.run.writer.writer import Writer
from riata.store.store import Verdict
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, log_batch, random_batch

LINEAGE = bytes(range(16))
COST_MS = 4  # of a checkpoint


class ManualWriter:
    """A writer of several models that takes one turn on request. saved : models of which a checkpoint was begun"""

    def __init__(self, models: int, **document: Any) -> None:
        self.saved: list[str] = []
        self.clock, self.store, self._rng = ManualClock(10_000), MemoryStore(), np.random.default_rng(5)
        hooks = WriterHooks(
            lambda _published: None, lambda *_: None, lambda *_: None, lambda _saved: None, lambda _model: None, self._fatal,
            lambda *_: None, lambda _damage: None,
        )  # fmt: skip
        self.writer = Writer(cast(Checkpointer, self), self.clock, hooks)
        self.names = [f"m{k}" for k in range(models)]
        for name in self.names:
            create_model(self.store, name, config=read_config({"encoder": {"bits": 12}, **document}))
            state = ModelState(name, LINEAGE)
            state.apply(self.store.read(name, 0)[0])
            self.take(AddModel(state))

    def learn(self, name: str) -> None:
        log_batch(self.store, random_batch(self._rng, 70), name)
        self.take(Logged(self.store.read(name, 0)[-1], None))

    def take(self, item: AddModel | Logged) -> None:
        self.writer.put(item)
        assert self.writer._turn()

    def pass_time(self, after_ms: int) -> None:
        """Do everything that is due after this time."""
        self.clock.now_ms += after_ms
        self.writer._sweep()
        while self.writer._inbox.waits():
            assert self.writer._turn()
        self.writer._turns.saver.submit(2**40, lambda: None).result()  # what was begun before has ended

    def save(self, frozen: Frozen, _created_ms: int, _info: dict[str, Any]) -> Saved:
        """In the place of a checkpointer."""
        self.saved.append(name := str(frozen.header["model"]))
        self.clock.now_ms += COST_MS
        return Saved(name, bytes.fromhex(frozen.header["lineage"]), Verdict.OK, None, 0)

    def _fatal(self, reason: str, error: BaseException) -> None:
        raise AssertionError(reason) from error


@contextmanager
def writer(models: int, **document: Any) -> Iterator[ManualWriter]:
    made = ManualWriter(models, **document)
    yield made
    made.writer._turns.saver.close()


def test_scheduled_checkpoints_of_several_models_rest_in_between() -> None:
    with writer(3, checkpoint_every_s=1) as at:
        for name in at.names:
            at.learn(name)
        at.pass_time(1000)
        assert len(at.saved) == 1
        at.pass_time(PARTS * COST_MS - 1)
        assert len(at.saved) == 1
        at.pass_time(PARTS + 1)
        assert len(at.saved) == 2
        at.pass_time(REST_MS_MAX)
        assert sorted(at.saved) == at.names


def test_a_checkpoint_that_is_due_by_the_number_of_events_does_not_wait_for_others() -> None:
    with writer(3, checkpoint_every_events=70) as at:
        for name in at.names:
            at.learn(name)
        at.pass_time(0)
        assert sorted(at.saved) == at.names
