"""The parts of the roles, one at a time: poll threads, a log thread that retries, the watch, changes that come too late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Busy, Conflict, Corrupt, RiataError, StoreFailed, Unavailable
from riata.run.cluster.store_watch import PollThread, StoreWatch
from riata.run.log.log_thread import LogThread
from riata.run.state.config import Change, read_config
from riata.run.state.config_changes import config_in
from riata.run.state.model_state import CHANGES_KEPT, ModelState
from riata.store import layout, records
from riata.store.store import Append, Store
from tests.doubles.memory_store import MemoryStore
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.events import CONFIG, create_model, random_batch
from tests.run.node import events
from tests.run.roles import running, until, with_model
from tests.running import until as wait_until

WAIT_S = 900.0


def refuses(watch: StoreWatch, code: str) -> bool:
    return watch.refusal is not None and watch.refusal.code == code


class Closing(MemoryStore):
    """Records that it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True
        super().close()


def test_a_poll_thread_continues_through_outages_and_ends_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riata.run.cluster.store_watch.RETRY_S", 0.01)
    store, steps, failed, ended = Closing(), list[int](), list[BaseException](), list[bool]()
    wrong: list[RiataError] = []
    missing = [Unavailable("not up yet", "store_unreachable")]

    def open_store() -> Store:
        if missing:
            raise missing.pop()
        return store

    def step(_store: Store) -> float:
        if wrong:
            raise wrong[0]
        steps.append(1)
        return 0.001

    looper = PollThread("test-loop", open_store, step, failed.append)
    looper.at_end = lambda _store: ended.append(True)
    looper.start()
    wait_until(lambda: len(steps) > 3)
    wrong.append(Unavailable("cut", "store_unreachable"))
    wait_until(lambda: looper.unreachable == "cut")
    wrong.clear()
    wait_until(lambda: not looper.unreachable)
    looper.stop()
    looper.join()
    assert (store.closed, failed, ended, looper.alive()) == (True, [], [True], False)


@pytest.mark.parametrize("error", [StoreFailed("the disk"), Conflict("another owns it", "fenced"), ValueError("a mistake")])
def test_every_other_error_ends_the_thread_and_is_reported(error: Exception) -> None:
    store, failed, ended = Closing(), list[BaseException](), list[bool]()

    def step(_store: Store) -> float:
        raise error

    looper = PollThread("test-loop", lambda: store, step, failed.append)
    looper.at_end = lambda _store: ended.append(True)
    looper.start()
    looper.join(WAIT_S)
    assert (failed, store.closed, ended) == ([error], True, [])


def test_a_kick_brings_the_next_step_at_once() -> None:
    steps: list[int] = []

    def step(_store: Store) -> float:
        steps.append(1)
        return 60.0

    looper = PollThread("test-loop", MemoryStore, step, lambda _error: None)
    looper.start()
    wait_until(lambda: len(steps) == 1)
    looper.kick()
    wait_until(lambda: len(steps) == 2)
    looper.stop()
    looper.join(WAIT_S)


def log_thread(open_store: Callable[[], Store], fatal: list[str], patient: bool = True) -> LogThread:
    return LogThread(open_store, lambda _logged: None, fatal.append, patient)


def test_a_waiting_log_thread_refuses_until_its_store_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riata.run.log.log_thread.REOPEN_S", 0.05)
    there, fatal, answers = threading.Event(), list[str](), list[Any]()
    store = MemoryStore()
    create_model(store)

    def open_store() -> Store:
        if not there.is_set():
            raise Unavailable("no route", "store_unreachable")
        return store

    kept = log_thread(open_store, fatal)
    opened = kept.start()
    with pytest.raises(Unavailable, match="no route"):
        kept.call(lambda s: s.models()).result(WAIT_S)
    kept.submit(Append("m", "observe", 0, random_batch(np.random.default_rng(0), 2)), answers.append)
    wait_until(lambda: answers)
    assert (answers[0].code, answers[0].outcome) == ("store_unreachable", "not_accepted")
    there.set()
    opened.result(WAIT_S)
    assert kept.call(lambda s: s.models()).result(WAIT_S) == ["m"]
    kept.close()
    assert fatal == []


def test_a_patient_keeper_that_never_opened_can_be_closed() -> None:
    def open_store() -> Store:
        raise Unavailable("no route", "store_unreachable")

    kept = log_thread(open_store, [])
    opened = kept.start()
    kept.close()
    assert not opened.done()


@pytest.mark.parametrize("patient", [True, False])
def test_a_permanent_fault_is_reported_to_the_caller_of_start(patient: bool) -> None:
    def open_store() -> Store:
        raise Conflict("a newer format", "newer_format") if patient else Unavailable("no route", "store_unreachable")

    with pytest.raises((Conflict, Unavailable)):
        log_thread(open_store, [], patient).start().result(WAIT_S)


def test_a_log_thread_outlives_a_store_that_does_not_answer_for_a_while() -> None:
    fatal, answers = list[str](), list[Any]()
    store = SharedMemoryStore()
    create_model(store)
    kept = log_thread(lambda: store, fatal)
    kept.start().result(WAIT_S)
    store.gone = "cut"
    kept.submit(Append("m", "observe", 0, random_batch(np.random.default_rng(0), 2)), answers.append)
    wait_until(lambda: answers)
    store.gone = ""
    kept.submit(Append("m", "observe", 0, random_batch(np.random.default_rng(0), 2)), answers.append)
    wait_until(lambda: len(answers) == 2)
    kept.close()
    assert isinstance(answers[0], Unavailable)
    assert (answers[1].seq, fatal) == (3, [])


def test_the_watch_reports_a_fault_as_long_as_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riata.run.cluster.store_watch.WRONG_EVERY_S", 0.005)
    monkeypatch.setattr("riata.run.cluster.store_watch.RETRY_S", 0.005)
    answers: list[Any] = [[]]
    failed: list[str] = []

    class Told(MemoryStore):
        def refusals(self) -> list[str]:
            if isinstance(answers[0], Exception):
                raise answers[0]
            return list(answers[0])

    watch = StoreWatch(Told, failed.append)
    watch.start()
    for answer, code in (
        (["a is b; say c", "d is e"], "store_refuses"),
        (Unavailable("cut", "store_unreachable"), "store_unreachable"),
        (Corrupt("another store", "log_fork"), "log_fork"),
        (["a is b; say c"], "store_refuses"),
    ):
        answers[0] = answer
        watch.kick()
        wait_until(partial(refuses, watch, code))
    assert watch.refusal is not None
    error = watch.refusal.error()
    assert (error.code, error.outcome, error.detail) == ("store_refuses", "not_accepted", "a is b; say c")
    answers[0] = []
    wait_until(lambda: watch.refusal is None)
    assert watch.counts == {"store_refuses": 2, "store_unreachable": 1, "log_fork": 1}
    assert watch.warnings
    watch.stop()
    watch.join()
    assert failed == []


def changed(checkpoint_every_s: int) -> Any:
    return read_config({"encoder": {"bits": 12}, "checkpoint_every_s": checkpoint_every_s})


def apply_all(store: MemoryStore, state: ModelState) -> ModelState:
    for record in store.read("m", state.applied):
        state.apply(record)
    return state


def test_a_change_made_of_a_configuration_that_is_not_in_force_any_more_changes_nothing() -> None:
    store = MemoryStore()
    create_model(store)
    state = apply_all(store, ModelState("m", bytes(range(16))))
    assert list(state.changes) == [1]

    def change(every_s: int, after: int | None) -> None:
        store.append([Append("m", "config", 0, payload=Change(changed(every_s), after).payload())])
        apply_all(store, state)

    change(20, 1)
    assert (state.config.checkpoint_every_s, list(state.changes)) == (20, [1, 2])
    change(30, 1)  # made at the same time as the one before it
    assert (state.config.checkpoint_every_s, list(state.changes), state.applied) == (20, [1, 2], 3)
    change(40, 2)
    change(50, None)  # as older programs wrote them: in any case
    assert (state.config.checkpoint_every_s, list(state.changes)) == (50, [1, 2, 4, 5])
    frozen = state.freeze()
    again = ModelState.of(frozen.encode())
    assert again.changes == state.changes
    older = layout.decode_checkpoint(frozen.encode())[0]
    del older["changes"]
    assert ModelState.thaw(older, frozen.arrays).changes == ()
    assert apply_all(store, ModelState("m", bytes(range(16)))).freeze().digest() == frozen.digest()


def test_the_list_of_changes_is_bounded() -> None:
    store = MemoryStore()
    create_model(store)
    for n in range(CHANGES_KEPT + 5):
        store.append([Append("m", "config", 0, payload=Change(changed(n + 1)).payload())])
    state = apply_all(store, ModelState("m", bytes(range(16))))
    assert len(state.changes) == CHANGES_KEPT
    assert state.changes[-1] == state.applied


def test_a_record_tells_which_configuration_it_brings() -> None:
    store = MemoryStore()
    create_model(store)
    state = apply_all(store, ModelState("m", bytes(range(16))))
    payload = records.encode_restore({"generation": 1}, state.freeze().encode())
    store.append([Append("m", "restore", 0, payload=payload), Append("m", "skip", 0, payload=records.encode_skip(1, "because"))])
    config, restore, skip = store.read("m", 0)
    assert (config_in(config), config_in(restore), config_in(skip)) == (CONFIG, CONFIG, None)


def test_a_payload_with_a_change_that_follows_nothing_is_refused() -> None:
    from riata.run.state.config import change_from_payload

    for after in (-1, "1", True, 1.5):
        document = {**records.decode_document(Change(CONFIG).payload()), "after": after}
        with pytest.raises(Corrupt, match="names an earlier event"):
            change_from_payload(records.encode_document(document))


async def test_a_model_that_could_not_be_dropped_is_learnt_on() -> None:
    store = SharedMemoryStore()
    async with running(store, "all") as one:
        await with_model(one)
        await one.observe(events(5))
        keeper_store = one.objects[0]
        keeper_store.gone = "cut"
        with pytest.raises(Unavailable):
            await one.admin.drop_model("m")
        keeper_store.gone = ""
        await until(lambda: one.engine.watch is not None and one.engine.watch.refusal is None)
        assert (await one.observe(events(5))).applied
        await one.admin.drop_model("m")
        assert not one.has()
        await asyncio.sleep(0.5)  # several renewals
        assert (one.lost, one.fatal) == ([], [])


async def test_a_model_that_no_writer_takes_up_is_in_the_log_and_that_is_reported() -> None:
    store = SharedMemoryStore()
    async with running(store, "web", observe_timeout_ms=1000) as web:
        await until(lambda: web.engine.started)
        with pytest.raises(Busy, match="does not serve it yet"):
            await web.admin.put_model("m", {"encoder": {"bits": 12}})
        async with running(store, "writer"):
            await until(lambda: web.has())
            created, _config = await web.admin.put_model("m", {"encoder": {"bits": 12}})
            assert created is False
