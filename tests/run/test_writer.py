"""When the writer turns to a busy model: driven by hand, turn by turn, with a manual clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest

from riata.base.clock import SystemClock
from riata.run.state.config import config_payload, read_config
from riata.run.state.model_state import Frozen, ModelState
from riata.run.writer.cell import WriterHooks
from riata.run.writer.checkpointer import Checkpointer, Saved
from riata.run.writer.published import Published
from riata.run.writer.queue import AddModel, Logged
from riata.run.writer.writer import Writer
from riata.store.store import Append, Verdict
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, log_batch, random_batch
from tests.running import HANG_S

EVERY_MS = 100


class Told:
    """Records what a writer reports, and holds what is requested of it."""

    def __init__(self) -> None:
        self.published: list[int] = []
        self.saved: list[Saved] = []
        self.wanted: int | None = None

    def hooks(self) -> WriterHooks:
        def fatal(reason: str, error: BaseException) -> None:
            raise AssertionError(reason) from error

        def publish(published: Published) -> None:
            self.published.append(published.applied)

        return WriterHooks(
            publish, lambda *_: None, lambda *_: None, self.saved.append, lambda _model: self.wanted, fatal, lambda *_: None,
            lambda damage: fatal(damage.sentence(), damage.error()),
        )  # fmt: skip


class Kept:
    """A replacement for a checkpointer: every checkpoint succeeds at once."""

    def save(self, frozen: Frozen, _created_ms: int, _info: dict[str, Any]) -> Saved:
        lineage = bytes.fromhex(frozen.header["lineage"])
        return Saved(str(frozen.header["model"]), lineage, Verdict.OK, None, 0)


class ManualWriter:
    """A writer that takes one turn on request, and the log of its one model."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.ways = 0  # how often the writer gave way
        self.clock, self.told, self.store = ManualClock(1000), Told(), MemoryStore()
        self.writer = Writer(cast(Checkpointer, Kept()), self.clock, self.told.hooks(), self._yield_to_loop)
        self._rng = np.random.default_rng(3)
        self.document = {"encoder": {"bits": 12}, "publish_every_ms": EVERY_MS, **document}
        create_model(self.store, config=read_config(self.document))
        first = self.store.read("m", 0)[0]
        state = ModelState("m", bytes(range(16)))
        state.apply(first)
        self._do(AddModel(state))
        self.told.published.clear()

    def learn(self, after_ms: int = 0) -> int:
        """Pass a record to learn; returns its last event."""
        self.clock.now_ms += after_ms
        log_batch(self.store, random_batch(self._rng, 70))
        return self._take_last()

    def configure(self, **changed: Any) -> int:
        """Change the configuration; returns the event."""
        config = read_config({**self.document, **changed})
        self.store.append([Append("m", "config", 0, payload=config_payload(config))])
        return self._take_last()

    def _yield_to_loop(self) -> None:
        self.ways += 1

    def _take_last(self) -> int:
        record = self.store.read("m", 0)[-1]
        self._do(Logged(record, None))
        return record.last

    def _do(self, item: AddModel | Logged) -> None:
        self.writer.put(item)
        assert self.writer._turn()


@contextmanager
def served_model(**document: Any) -> Iterator[ManualWriter]:
    made = ManualWriter(document)
    yield made
    made.writer._turns.saver.close()


def test_a_busy_model_is_served_again_when_it_is_due_and_not_before() -> None:
    with served_model() as at:
        first = at.learn(EVERY_MS)
        for _ in range(9):
            at.learn(EVERY_MS // 10)
        assert at.told.published == [first]
        last = at.learn(EVERY_MS // 10)
        assert at.told.published == [first, last]
        at.learn(EVERY_MS - 1)
        assert at.told.published == [first, last]
        assert at.learn(1) == at.store.read("m", 0)[-1].last == at.told.published[-1]


def test_the_writer_yields_between_its_steps_and_more_often_when_it_publishes() -> None:
    with served_model() as at:
        at.learn()
        before = at.ways
        at.learn()
        of_a_turn = at.ways - before
        assert of_a_turn >= 5
        assert not at.told.published
        at.learn(EVERY_MS)
        assert at.told.published
        assert at.ways - before >= 2 * of_a_turn + 3


def test_a_request_that_waits_for_an_event_of_a_busy_model_is_answered_soon() -> None:
    with served_model() as at:
        at.learn(EVERY_MS)
        at.learn(1)
        at.told.wanted = at.learn(1) + 70
        assert len(at.told.published) == 1
        assert at.learn(1) == at.told.wanted == at.told.published[-1]


def test_another_schedule_of_a_busy_model_holds_at_once() -> None:
    with served_model() as at:
        at.learn(EVERY_MS)
        at.learn(10)
        at.learn(5)
        assert len(at.told.published) == 1
        assert at.configure(publish_every_ms=10) == at.told.published[-1]
        at.learn(9)
        assert len(at.told.published) == 2
        assert at.learn(1) == at.told.published[-1]


@pytest.mark.parametrize(("setting", "turns"), [({"checkpoint_every_events": 210}, 3), ({"checkpoint_every_s": 1}, 4)])
def test_a_busy_model_is_saved_when_it_is_due(setting: dict[str, int], turns: int) -> None:
    with served_model(publish_every_ms=60_000, **setting) as at:
        for turn in range(1, turns + 1):
            at.learn(250)
            at.writer._turns.saver.submit(2**40, lambda: None).result()  # what was begun before has ended
            assert at.writer._inbox.waits() == (turn == turns)  # it tells the writer


def test_what_a_turn_aside_leaves_for_later_is_published_although_nothing_else_happens() -> None:
    told, store, rng, clock = Told(), MemoryStore(), np.random.default_rng(4), SystemClock()
    writer = Writer(cast(Checkpointer, Kept()), clock, told.hooks())
    writer.start()
    for name in ("m", "other"):
        create_model(store, name, config=read_config({"encoder": {"bits": 12}, "publish_every_ms": EVERY_MS}))
        state = ModelState(name, bytes(range(16)))
        state.apply(store.read(name, 0)[0])
        writer.put(AddModel(state))
    writer.settle().result(HANG_S)
    for _ in range(3):
        for name in ("other", "m"):
            next(line for line in writer._inbox.lines() if line.model == name).slow_ms = clock.monotonic_ms()
            log_batch(store, random_batch(rng, 70), name)
            writer.put(Logged(store.read(name, 0)[-1], None))
        last = store.read("m", 0)[-1].last
        deadline = time.monotonic() + HANG_S
        while told.published.count(last) < 2:
            assert time.monotonic() < deadline, "it is never published"
            time.sleep(0.01)
    writer.close()
