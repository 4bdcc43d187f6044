from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from riata.base.errors import NotFound, RiataError, StoreFailed
from riata.run.log.log_thread import GROUP_REQUESTS_MAX, LogThread
from riata.store.store import Append, Appended
from tests.doubles.memory_store import Faults, MemoryStore
from tests.run.events import create_model, random_batch


class Counting(MemoryStore):
    """Records the size of each group."""

    def __init__(self, faults: Faults | None = None) -> None:
        super().__init__(faults=faults)
        self.groups: list[int] = []

    def append(self, group: Sequence[Append]) -> list[Appended]:
        self.groups.append(len(group))
        return super().append(group)


def log_thread_on(store: MemoryStore, logged: list[int], fatal: list[str]) -> LogThread:
    """The log thread of a store with a model m."""

    def on_logged(several: Sequence[tuple[Append, Appended]]) -> None:
        logged.extend(appended.record.last for _, appended in several if appended.record is not None)

    create_model(store)
    log_thread = LogThread(lambda: store, on_logged, fatal.append)
    log_thread.start().result(900)
    return log_thread


def request(seed: int) -> Append:
    return Append("m", "observe", 0, random_batch(np.random.default_rng(seed), 2))


def test_requests_that_wait_together_are_one_group_and_answered_in_log_order() -> None:
    store, logged = Counting(), list[int]()
    log_thread = log_thread_on(store, logged, [])
    held, answers = threading.Event(), list[Any]()
    log_thread.call(lambda _store: held.wait(900))
    for seed in range(20):
        log_thread.submit(request(seed), answers.append)
    held.set()
    log_thread.close()
    assert store.groups[-1] == 20
    assert [answer.seq for answer in answers] == logged == list(range(3, 43, 2))


def test_the_store_is_idle_after_all_are_answered_and_none_waits() -> None:
    happened = list[str]()

    class Resting(Counting):
        def maintain(self) -> None:
            happened.append("rest")

    store = Resting()
    log_thread = log_thread_on(store, [], [])
    held = threading.Event()
    log_thread.call(lambda _store: held.wait(900))
    log_thread.submit(request(1), lambda _answer: happened.append("answer"))
    log_thread.submit(request(2), lambda _answer: happened.append("answer"))
    log_thread.call(lambda _store: happened.append("call"))  # waits after them, so that there is no time to rest
    held.set()
    log_thread.call(lambda _store: None).result(900)
    assert happened == ["answer", "answer", "call"]
    log_thread.submit(request(3), lambda _answer: happened.append("answer"))
    log_thread.close()
    assert happened[3:] in (["answer", "rest"], ["answer"])  # the end may wait already


@pytest.mark.parametrize(("outcome", "ends"), [("not_accepted", False), ("unknown", True)])
def test_a_store_that_fails_while_idle_is_handled_as_usual(outcome: str, ends: bool) -> None:
    resting = threading.Event()

    class Failing(Counting):
        def maintain(self) -> None:
            resting.set()
            raise StoreFailed("gone", outcome)

    store, fatal, answers = Failing(), list[str](), list[Any]()
    log_thread = log_thread_on(store, [], fatal)
    log_thread.submit(request(1), answers.append)
    assert resting.wait(900)
    log_thread.submit(request(2), answers.append)
    log_thread.close()
    assert [answer.record is not None for answer in answers] == [True, True]
    assert bool(fatal) == ends


def test_a_group_is_bounded() -> None:
    store = Counting()
    log_thread = log_thread_on(store, [], [])
    held, answers = threading.Event(), list[Any]()
    log_thread.call(lambda _store: held.wait(900))
    for seed in range(GROUP_REQUESTS_MAX + 5):
        log_thread.submit(request(seed), answers.append)
    held.set()
    log_thread.close()
    assert store.groups[-2:] == [GROUP_REQUESTS_MAX, 5]
    assert len(answers) == GROUP_REQUESTS_MAX + 5


def test_a_call_between_requests_sees_the_ones_before_it() -> None:
    store, logged = Counting(), list[int]()
    log_thread = log_thread_on(store, logged, [])
    log_thread.submit(request(1), lambda _answer: None)
    assert log_thread.call(lambda s: s.head("m").seq).result(900) == 3
    with pytest.raises(NotFound):
        log_thread.call(lambda s: s.head("nobody")).result(900)
    log_thread.close()


def test_a_failure_at_commit_is_noticed_before_any_answer() -> None:
    store, fatal = Counting(Faults()), list[str]()
    log_thread = log_thread_on(store, [], fatal)
    store.faults.appends_lost = 1
    seen: list[tuple[str, int]] = []
    reported = threading.Event()

    def done(answer: Appended | RiataError) -> None:
        seen.append((getattr(answer, "outcome", ""), len(fatal)))
        reported.set()

    log_thread.submit(request(1), done)
    assert reported.wait(900)
    log_thread.close()
    assert seen == [("unknown", 1)]


def test_a_store_that_cannot_be_opened_is_reported_to_the_caller() -> None:
    def broken() -> MemoryStore:
        raise NotFound("no store here")

    with pytest.raises(NotFound, match="no store here"):
        LogThread(broken, lambda _logged: None, lambda _reason: None).start().result(900)


def test_a_cancelled_request_does_not_end_the_thread() -> None:
    fatal: list[str] = []
    store = Counting()
    log_thread = log_thread_on(store, [], fatal)
    held = threading.Event()
    log_thread.call(lambda _store: held.wait(900))
    asked = log_thread.call(lambda s: s.head("m").seq)
    assert asked.cancel()
    held.set()
    assert log_thread.call(lambda s: s.head("m").seq).result(900) == 1
    log_thread.close()
    assert fatal == []


def test_gathered_rows_are_requested_when_their_group_is_formed() -> None:
    store, logged = Counting(), list[int]()
    log_thread = log_thread_on(store, logged, [])
    held, answers, waiting = threading.Event(), list[Any](), list[Append]()
    log_thread.gathering = waiting
    log_thread.call(lambda _store: held.wait(900))
    log_thread.gather(lambda: [(append, answers.append) for append in waiting])
    log_thread.submit(request(1), answers.append)
    waiting.extend([request(2), request(3)])
    assert log_thread.waiting() >= 4
    held.set()
    log_thread.close()
    assert store.groups[-1] == 3
    assert [answer.seq for answer in answers] == logged == [3, 5, 7]
