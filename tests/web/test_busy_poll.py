"""The event loop looks for the next request for a while after an answer, and for no longer."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import cast

import pytest

from riata.web import busy_poll
from riata.web.busy_poll import IN_A_ROW, BusyPoll, cores


class Loop:
    """A loop whose time is set by hand; `soon` is what its next round will do."""

    def __init__(self) -> None:
        self.now_s = 5.0
        self.soon: list[Callable[[], object]] = []

    def call_soon(self, act: Callable[..., object], *given: object) -> None:
        self.soon.append(lambda: act(*given))

    def round(self) -> None:
        """Do what is to be done soon."""
        now, self.soon = self.soon, []
        for act in now:
            act()

    def answer(self, poll: BusyPoll) -> None:
        poll.stay(cast(asyncio.AbstractEventLoop, self))


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    found = Loop()
    monkeypatch.setattr(busy_poll, "cores", lambda: 2)
    monkeypatch.setattr("riata.web.busy_poll.time.perf_counter", lambda: found.now_s)
    return found


def test_it_looks_until_the_time_is_over_and_then_lets_the_loop_sleep(loop: Loop) -> None:
    loop.answer(BusyPoll(100))
    for _ in range(99):
        loop.now_s += 1e-6
        loop.round()
        assert len(loop.soon) == 1
    loop.now_s += 2e-6
    loop.round()
    assert not loop.soon


def test_another_answer_begins_the_time_anew_and_adds_no_second_look(loop: Loop) -> None:
    poll = BusyPoll(100)
    loop.answer(poll)
    loop.now_s += 80e-6
    loop.answer(poll)
    assert len(loop.soon) == 1
    loop.now_s += 80e-6
    loop.round()
    assert len(loop.soon) == 1
    loop.now_s += 30e-6
    loop.round()
    assert not loop.soon


def test_after_it_has_slept_an_answer_wakes_it_again(loop: Loop) -> None:
    poll = BusyPoll(100)
    loop.answer(poll)
    loop.now_s += 1.0
    loop.round()
    assert not loop.soon
    loop.answer(poll)
    assert len(loop.soon) == 1


def test_what_is_waited_for_in_another_thread_ends_it(loop: Loop) -> None:
    poll = BusyPoll(100)
    loop.answer(poll)
    loop.now_s += 1e-6
    loop.round()
    assert len(loop.soon) == 1
    poll.rest()
    loop.round()
    assert not loop.soon


class Client:
    """A connection that has `requests` to answer when it is asked to listen."""

    def __init__(self, poll: BusyPoll, loop: Loop, requests: int = 0) -> None:
        self.poll, self.loop, self.requests, self.listened = poll, loop, requests, 0

    def answer(self) -> None:
        self.poll.stay(cast(asyncio.AbstractEventLoop, self.loop), self)

    def listen(self) -> bool:
        self.listened += 1
        if self.requests == 0:
            return False
        self.requests -= 1
        self.answer()
        return True


def test_who_was_answered_twice_listens_once_a_round(loop: Loop) -> None:
    poll = BusyPoll(100)
    client, other = Client(poll, loop), Client(poll, loop)
    client.answer()
    loop.round()
    assert client.listened == 0, "it may have been the last request"
    client.answer()
    for rounds in range(1, 4):
        loop.round()
        assert client.listened == rounds
    other.answer()
    loop.round()
    assert (client.listened, other.listened) == (3, 0), "two take turns: neither is waited for"
    client.answer()
    loop.round()
    assert (client.listened, other.listened) == (3, 0)


def test_a_client_that_asks_and_asks_does_not_keep_the_loop(loop: Loop) -> None:
    poll = BusyPoll(100)
    client = Client(poll, loop, requests=IN_A_ROW + 1)
    client.answer()
    client.answer()
    loop.round()
    assert (client.listened, client.requests) == (IN_A_ROW, 1)
    loop.round()
    assert (client.listened, client.requests) == (IN_A_ROW + 2, 0)
    assert len(loop.soon) == 1


def test_nobody_listens_once_the_time_is_over_and_nobody_is_kept(loop: Loop) -> None:
    poll = BusyPoll(100)
    client = Client(poll, loop)
    gone = weakref.ref(client)
    client.answer()
    client.answer()
    loop.now_s += 1.0
    loop.round()
    assert client.listened == 0
    client.answer()
    loop.round()
    assert client.listened == 0, "it was answered once since"
    loop.now_s += 1.0
    loop.round()
    del client
    assert gone() is None


def test_zero_sleeps_at_once(loop: Loop) -> None:
    loop.answer(BusyPoll(0))
    assert not loop.soon


def test_a_single_core_is_left_to_the_client(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_poll, "cores", lambda: 1)
    loop.answer(BusyPoll(100))
    assert not loop.soon


def test_there_are_cores() -> None:
    assert cores() >= 1
