"""Scheduled checkpoints of several models take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from riata.run.state.model_state import Frozen
from riata.run.state.recovery import Recovery
from riata.run.writer.checkpointer import Checkpointer, Saved
from riata.run.writer.model_turn import PARTS, REST_MS_MAX
from riata.store.layout import split_chunks
from riata.store.store import Store, Verdict
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, here, log_batch, random_batch
from tests.run.test_recovery import acquire
from tests.run.writers import ManualWriter, Saves, hooks
from tests.settings import retention

COST_MS = 4  # of a checkpoint


class Costly(Saves):
    """Each checkpoint takes some time of a manual clock."""

    clock: ManualClock

    def save(self, frozen: Frozen, created_ms: int, info: dict[str, Any]) -> Saved:
        self.clock.now_ms += COST_MS
        return super().save(frozen, created_ms, info)


class SavingWriter(ManualWriter):
    """A writer of several models. saved : models of which a checkpoint was begun"""

    def __init__(self, models: int, **document: Any) -> None:
        saves = Costly()
        super().__init__([f"m{k}" for k in range(models)], saves, hooks(), **document)
        saves.clock, self.saved = self.clock, saves.frozen

    def pass_time(self, after_ms: int) -> None:
        """Do everything that is due after this time."""
        self.clock.now_ms += after_ms
        self.writer._sweep()
        while self.writer._inbox.waits():
            assert self.writer._turn()
        self.end_of_saves()


@contextmanager
def writer(models: int, **document: Any) -> Iterator[SavingWriter]:
    made = SavingWriter(models, **document)
    yield made
    made.writer._turns.saver.close()


def test_scheduled_checkpoints_of_several_models_rest_in_between() -> None:
    with writer(3, checkpoint_every_s=1) as at:
        for name in at.names:
            at.learn(name=name)
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
            at.learn(name=name)
        at.pass_time(0)
        assert sorted(at.saved) == at.names


@pytest.mark.parametrize(("chunk_bytes", "chunks"), [(2**20, 1), (2000, 0)], ids=["small", "large"])
def test_a_small_checkpoint_takes_three_calls_of_the_store_and_a_large_one_is_paced(
    chunk_bytes: int, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls = MemoryStore(), 0

    def call(work: Callable[[Store], Any]) -> Future[Any]:
        nonlocal calls
        calls += 1
        return here(store)(work)

    create_model(store, "m")
    log_batch(store, random_batch(np.random.default_rng(3), 70), "m")
    owner = acquire(store)
    frozen = Recovery(here(store), owner, lambda: 0).recover("m").state.freeze()
    pieces = list(split_chunks(frozen.parts(), chunk_bytes))
    assert len(pieces) == chunks or len(pieces) > 2
    monkeypatch.setattr("riata.store.layout.split_chunks", partial(split_chunks, chunk_bytes=chunk_bytes))
    monkeypatch.setattr("riata.run.writer.checkpointer.CHUNK_BYTES_MAX", chunk_bytes)
    for generation in (1, 2):
        calls = 0
        saved = Checkpointer(call, owner, retention()).save(frozen, 0, {})
        assert (saved.verdict, saved.unreadable) == (Verdict.OK, False)
        assert calls == (3 if chunks == 1 else len(pieces) + 3)
        found = store.generations("m")[0]
        assert (found.gen, found.parent, found.verified) == (generation, generation - 1, True)
        assert store.open_generation("m", generation) == b"".join(pieces)


def test_a_checkpoint_of_another_owner_is_fenced_in_one_call_too() -> None:
    store = MemoryStore()
    create_model(store, "m")
    owner = acquire(store)
    frozen = Recovery(here(store), owner, lambda: 0).recover("m").state.freeze()
    acquire(store)
    assert Checkpointer(here(store), owner, retention()).save(frozen, 0, {}).verdict is Verdict.FENCED
    assert store.generations("m") == []
