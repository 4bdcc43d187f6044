"""When the writer turns to a busy model: driven by hand, turn by turn, with a manual clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest

from riata.base.clock import SystemClock
from riata.run.state.config import read_config
from riata.run.state.model_state import ModelState
from riata.run.writer.checkpointer import Checkpointer
from riata.run.writer.queue import AddModel, Logged
from riata.run.writer.writer import Writer
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, log_batch, random_batch
from tests.run.writers import LEFT_S, LINEAGE, ManualWriter, Saves, hooks
from tests.running import HANG_S, wait_for

EVERY_MS = 100


class BusyWriter(ManualWriter):
    """A writer of the model m. published : the last event of each publication; ways : how often it gave way"""

    def __init__(self, **document: Any) -> None:
        self.published, self.ways = list[int](), 0
        self.wanted: int | None = None
        told = hooks(published=lambda one: self.published.append(one.applied), wanted=lambda _model: self.wanted)
        super().__init__(["m"], Saves(), told, self._yield_to_loop, **{"publish_every_ms": EVERY_MS, **document})
        self.published.clear()

    def _yield_to_loop(self) -> None:
        self.ways += 1


@contextmanager
def served_model(**document: Any) -> Iterator[BusyWriter]:
    made = BusyWriter(**document)
    yield made
    made.writer._turns.saver.close()


def test_a_busy_model_is_served_again_when_it_is_due_and_not_before() -> None:
    with served_model() as at:
        first = at.learn(EVERY_MS)
        for _ in range(9):
            at.learn(EVERY_MS // 10)
        assert at.published == [first]
        last = at.learn(EVERY_MS // 10)
        assert at.published == [first, last]
        at.learn(EVERY_MS - 1)
        assert at.published == [first, last]
        assert at.learn(1) == at.store.read("m", 0)[-1].last == at.published[-1]


def test_the_writer_yields_between_its_steps_and_more_often_when_it_publishes() -> None:
    with served_model() as at:
        at.learn()
        before = at.ways
        at.learn()
        of_a_turn = at.ways - before
        assert of_a_turn >= 5
        assert not at.published
        at.learn(EVERY_MS)
        assert at.published
        assert at.ways - before >= 2 * of_a_turn + 3


def test_a_request_that_waits_for_an_event_of_a_busy_model_is_answered_soon() -> None:
    with served_model() as at:
        at.learn(EVERY_MS)
        at.learn(1)
        at.wanted = at.learn(1) + 70
        assert len(at.published) == 1
        assert at.learn(1) == at.wanted == at.published[-1]


def test_another_schedule_of_a_busy_model_holds_at_once() -> None:
    with served_model() as at:
        at.learn(EVERY_MS)
        at.learn(10)
        at.learn(5)
        assert len(at.published) == 1
        assert at.configure(publish_every_ms=10) == at.published[-1]
        at.learn(9)
        assert len(at.published) == 2
        assert at.learn(1) == at.published[-1]


@pytest.mark.parametrize(("setting", "turns"), [({"checkpoint_every_events": 210}, 3), ({"checkpoint_every_s": 1}, 4)])
def test_a_busy_model_is_saved_when_it_is_due(setting: dict[str, int], turns: int) -> None:
    with served_model(publish_every_ms=60_000, **setting) as at:
        for turn in range(1, turns + 1):
            at.learn(250)
            at.end_of_saves()
            assert at.writer._inbox.waits() == (turn == turns)  # it tells the writer


def test_what_a_turn_aside_leaves_for_later_is_published_although_nothing_else_happens() -> None:
    published, store, rng, clock = list[int](), MemoryStore(), np.random.default_rng(4), SystemClock()
    writer = Writer(cast(Checkpointer, Saves()), clock, hooks(published=lambda one: published.append(one.applied)), LEFT_S)
    writer.start()
    for name in ("m", "other"):
        create_model(store, name, config=read_config({"encoder": {"bits": 12}, "publish_every_ms": EVERY_MS}))
        state = ModelState(name, LINEAGE)
        state.apply(store.read(name, 0)[0])
        writer.put(AddModel(state))
    writer.settle().result(HANG_S)
    for _ in range(3):
        for name in ("other", "m"):
            next(line for line in writer._inbox.lines() if line.model == name).slow_ms = clock.monotonic_ms()
            log_batch(store, random_batch(rng, 70), name)
            writer.put(Logged(store.read(name, 0)[-1], None))
        last = store.read("m", 0)[-1].last
        wait_for("it is never published", lambda last=last: published.count(last) >= 2)  # type: ignore[misc]
    writer.close()
