"""A model whose turn takes long, beside others: they learn, are served, dropped and saved; nothing of the slow one is cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest

from riata.base.clock import SystemClock
from riata.base.errors import NotFound, Unavailable
from riata.base.halt import require_wanted
from riata.run.state.config import read_config
from riata.run.state.model_state import Frozen, ModelState
from riata.run.writer.checkpointer import Checkpointer
from riata.run.writer.published import Published
from riata.run.writer.queue import AddModel, CopySketch, DropModel, Logged, SaveNow
from riata.run.writer.writer import LARGE_BYTES, Writer
from riata.store.store import Record
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, log_batch, random_batch
from tests.run.writers import LEFT_S, LINEAGE, Saves, hooks
from tests.running import until

LONG_S = 900.0


def a_log(name: str, document: dict[str, Any] | None = None, rows: tuple[int, ...] = (3,) * 6) -> list[Record]:
    """A config record, and observe records of so many rows."""
    store, rng = MemoryStore(), np.random.default_rng(5)
    create_model(store, name, config=read_config({"encoder": {"bits": 12}, "publish_every_ms": 10, **(document or {})}))
    for count in rows:
        log_batch(store, random_batch(rng, count), name)
    return store.read(name, 0)


class RunningWriter:
    """A writer in its threads."""

    def __init__(self) -> None:
        self.kept = Saves()
        self.served: dict[str, int] = {}
        self.failed: list[str] = []
        self.states: dict[str, ModelState] = {}
        told = hooks(
            published=self._published, wanted=lambda _model: 1, fatal=lambda reason, _error: self.failed.append(reason),
            damaged=lambda damage: self.failed.append(damage.what),
        )  # fmt: skip
        self.writer = Writer(cast(Checkpointer, self.kept), SystemClock(), told, LEFT_S)
        self.writer.start()

    def add(self, log: list[Record], learn: Callable[[], None] | None = None, lineage: bytes = LINEAGE) -> ModelState:
        """Add a model; `learn` is called before each of its records is learnt."""
        state = ModelState(log[0].model, lineage)
        state.apply(log[0])
        if learn is not None:
            before, apply_all = learn, state.apply_all

            def applied(*args: Any) -> dict[int, str]:
                before()
                return apply_all(*args)

            state.apply_all = applied  # type: ignore[method-assign, assignment]
        self.states[state.name] = state
        self.writer.put(AddModel(state))
        return state

    def put(self, records: list[Record]) -> None:
        for record in records:
            self.writer.put(Logged(record, None))

    def save(self, name: str) -> Frozen:
        self.writer.put(asked := SaveNow(name))
        asked.future.result(LONG_S)
        return self.kept.frozen[name]

    def _published(self, published: Published) -> None:
        self.served[published.model.origin.name] = published.applied


class Stuck:
    """Holds a turn until it is released, or halted."""

    def __init__(self) -> None:
        self.entered, self.release, self.halted = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        try:
            while not self.release.wait(0.01):
                require_wanted()
        except BaseException:
            self.halted.set()
            raise


@contextmanager
def running() -> Iterator[RunningWriter]:
    at = RunningWriter()
    yield at
    at.writer.close(0.0)


def test_others_learn_are_served_saved_and_dropped_while_one_model_is_stuck() -> None:
    with running() as at:
        stuck = Stuck()
        slow, quick, dropped = a_log("slow"), a_log("quick"), a_log("dropped")
        at.add(slow, stuck)
        at.put(slow[1:])
        assert stuck.entered.wait(LONG_S)
        at.add(quick)
        at.put(quick[1:])
        until(lambda: at.served.get("quick") == quick[-1].last)
        at.writer.settle("quick").result(LONG_S)
        at.writer.put(look := CopySketch("quick"))
        look.future.result(LONG_S)
        assert at.save("quick").header["applied"] == quick[-1].last
        at.add(dropped)
        at.put(dropped[1:])
        at.writer.put(DropModel("dropped"))
        assert at.served["slow"] == slow[0].last  # only what it had before
        assert [one.model for one in at.writer.busy()] == ["slow"]
        assert at.writer.held_ms() < 1000 * LONG_S
        stuck.release.set()
        until(lambda: at.served.get("slow") == slow[-1].last)
        assert at.writer.positions().keys() == {"slow", "quick"}
        assert not at.failed


def test_a_dozen_stuck_models_hold_up_nobody() -> None:
    with running() as at:
        stuck = [Stuck() for _ in range(12)]
        for i, one in enumerate(stuck):
            log = a_log(f"slow{i}", rows=(3,))
            at.add(log, one)
            at.put(log[1:])
        quick = a_log("quick")
        at.add(quick)
        at.put(quick[1:])
        until(lambda: at.served.get("quick") == quick[-1].last)
        assert all(one.entered.wait(LONG_S) for one in stuck)
        until(lambda: len(at.writer.busy()) == 12)  # the turn of `quick` goes on for a moment after it is served
        for one in stuck:
            one.release.set()
        at.writer.settle().result(LONG_S)
        assert all(at.served[f"slow{i}"] == 4 for i in range(12))


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_slow_model_goes_aside_for_another_model_unless_that_was_dropped(is_dropped: bool) -> None:
    with running() as at:
        threads = list[str]()
        other, slow = a_log("other"), a_log("slow")
        at.add(other)
        at.writer.settle().result(LONG_S)
        if is_dropped:
            at.writer.put(DropModel("other"))
        at.add(slow, lambda: threads.append(threading.current_thread().name))
        at.writer.settle().result(LONG_S)
        next(line for line in at.writer._inbox.lines() if line.model == "slow").slow_ms = SystemClock().monotonic_ms()
        at.put(slow[1:2])
        at.writer.settle("slow").result(LONG_S)
        assert threads[0].endswith("-aside") != is_dropped


LEARNERS: list[dict[str, Any]] = [
    {"kind": "truncated_gradient"},
    {"kind": "taylor_sketch", "mode": "exact", "block": 1, "warm_up": 0, "sweeps_max": 1000, "tolerance": 1e-12},
    {"kind": "particle_filter", "particles": 500, "start": 16},
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner["kind"])
def test_what_is_learnt_aside_has_the_bits_of_what_is_learnt_in_one_go(learner: dict[str, Any]) -> None:
    logs = [a_log(f"m{i}", {"learner": learner}, rows=(7, 1, 30, 1, 1)) for i in range(3)]
    expected = []
    for log in logs:
        state = ModelState(log[0].model, LINEAGE)
        for record in log:
            state.apply(record)
        expected.append(state.freeze().digest())
    with running() as at:
        for log in logs:
            at.add(log, lambda: time.sleep(0.07))  # long enough to go aside
            at.put(log[1:])
        assert [at.save(log[0].model).digest() for log in logs] == expected


def test_a_model_that_is_dropped_in_the_middle_of_a_step_is_halted_and_its_name_is_free_at_once() -> None:
    with running() as at:
        stuck, log = Stuck(), a_log("m")
        at.add(log, stuck)
        at.put(log[1:])
        assert stuck.entered.wait(LONG_S)
        at.writer.put(asked := SaveNow("m"))
        at.writer.put(looked := CopySketch("m"))
        settled = at.writer.settle("m")
        at.writer.put(DropModel("m", LINEAGE))
        at.add(log, lineage=bytes(16)[::-1])
        at.put(log[1:3])
        until(lambda: at.served.get("m") == log[2].last)
        assert stuck.halted.wait(LONG_S)
        for future in (asked.future, looked.future):
            with pytest.raises(NotFound, match="dropped in the meantime"):
                future.result(LONG_S)
        settled.result(LONG_S)
        at.writer.put(DropModel("m", LINEAGE))  # the one before: not this one
        assert at.save("m").header["applied"] == log[2].last
        assert not at.failed


def test_the_end_halts_what_takes_long_and_learns_and_keeps_the_rest() -> None:
    at, stuck = RunningWriter(), Stuck()
    slow, quick = a_log("slow"), a_log("quick")
    at.add(slow, stuck)
    at.put(slow[1:])
    assert stuck.entered.wait(LONG_S)
    at.add(quick)
    at.put(quick[1:])
    at.writer.put(asked := SaveNow("slow"))
    at.writer.settle("quick").result(LONG_S)
    assert at.writer.give_up_unfinished() == ["slow"]
    with pytest.raises(Exception, match="stopping"):
        asked.future.result(LONG_S)
    at.writer.settle().result(LONG_S)
    assert at.save("quick").header["applied"] == quick[-1].last
    at.writer.close()
    assert stuck.halted.wait(LONG_S)
    assert not at.writer.alive()
    assert not at.failed


class Unending:
    """Holds a turn until it is released, whatever the model that it belongs to."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.release.wait(LONG_S)


def test_the_end_does_not_wait_for_a_turn_that_reads_no_flag() -> None:
    at, held = RunningWriter(), Unending()
    slow = a_log("slow")
    at.add(slow, held)
    at.put(slow[1:])
    assert held.entered.wait(LONG_S)
    settled = at.writer.settle()
    assert not settled.done()
    assert at.writer.give_up_unfinished() == ["slow"]
    settled.result(LONG_S)  # set though the turn is under way
    assert at.writer.given_up == {"slow"}
    at.writer.close(0.05)  # neither does this
    held.release.set()
    until(lambda: not at.writer.alive())


def test_a_large_checkpoint_that_waits_or_is_written_is_known() -> None:
    with running() as at:
        log = a_log("m")
        at.add(log)
        at.put(log[1:])
        assert at.save("m").header["applied"] == log[-1].last
        assert not at.writer.saves_long()
        held, saver = Unending(), at.writer._turns.saver
        first = saver.submit(1, held)
        assert held.entered.wait(LONG_S)
        assert not at.writer.saves_long()
        second = saver.submit(LARGE_BYTES, lambda: None)
        assert at.writer.saves_long()
        held.release.set()
        for future in (first, second):
            future.result(LONG_S)
        until(lambda: not at.writer.saves_long())


def test_an_error_in_a_turn_that_is_aside_ends_learning_and_whoever_waits_is_told() -> None:
    with running() as at:
        stuck, log = Stuck(), a_log("m")
        quick = a_log("quick")

        def fails() -> None:
            stuck()
            raise ValueError("a defect")

        at.add(log, fails)
        at.put(log[1:])
        assert stuck.entered.wait(LONG_S)
        at.add(quick)
        at.writer.settle("quick").result(LONG_S)
        at.writer.put(asked := SaveNow("m"))
        stuck.release.set()
        with pytest.raises(Unavailable, match="learning has stopped"):
            asked.future.result(LONG_S)
        until(lambda: not at.writer.alive())
        at.writer.put(later := SaveNow("quick"))
        with pytest.raises(Unavailable, match="a defect"):
            later.future.result(LONG_S)
        with pytest.raises(Unavailable):
            at.writer.settle().result(LONG_S)
        assert at.failed == ["the writer stopped: ValueError('a defect')"]
