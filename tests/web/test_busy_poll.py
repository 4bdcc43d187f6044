"""The event loop polls for the next request for a while after an answer, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from riata.base.process import cores
from riata.web.server import fast_path
from riata.web.server.fast_path import BusyPoll


class Loop:
    """A loop whose time is set by hand; `soon` holds the calls of its next round."""

    def __init__(self) -> None:
        self.now_s = 5.0
        self.soon: list[Callable[[], object]] = []

    def call_soon(self, act: Callable[..., object], *given: object) -> None:
        self.soon.append(lambda: act(*given))

    def round(self) -> None:
        """Run the calls of `soon`."""
        now, self.soon = self.soon, []
        for act in now:
            act()

    def answer(self, poll: BusyPoll) -> None:
        poll.stay(cast(asyncio.AbstractEventLoop, self))

    def two_answers(self, poll: BusyPoll) -> BusyPoll:
        self.answer(poll)
        self.now_s += 1e-6
        self.answer(poll)
        return poll


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    found = Loop()
    monkeypatch.setattr(fast_path, "cores", lambda: 2)
    monkeypatch.setattr("riata.web.server.fast_path.time.perf_counter", lambda: found.now_s)
    return found


def test_it_polls_until_the_time_is_over_and_then_stops(loop: Loop) -> None:
    loop.two_answers(BusyPoll(100))
    for _ in range(99):
        loop.now_s += 1e-6
        loop.round()
        assert len(loop.soon) == 1
    loop.now_s += 2e-6
    loop.round()
    assert not loop.soon


def test_another_answer_begins_the_time_again_and_adds_no_second_look(loop: Loop) -> None:
    poll = loop.two_answers(BusyPoll(100))
    loop.now_s += 80e-6
    loop.answer(poll)
    assert len(loop.soon) == 1
    loop.now_s += 80e-6
    loop.round()
    assert len(loop.soon) == 1
    loop.now_s += 30e-6
    loop.round()
    assert not loop.soon


def test_requests_that_come_later_than_that_find_it_asleep_until_they_come_fast(loop: Loop) -> None:
    poll = BusyPoll(100)
    for _ in range(3):
        loop.answer(poll)
        assert not loop.soon
        loop.now_s += 150e-6
    loop.two_answers(poll)
    assert len(loop.soon) == 1


def test_a_result_from_another_thread_ends_the_polling(loop: Loop) -> None:
    poll = loop.two_answers(BusyPoll(100))
    loop.now_s += 1e-6
    loop.round()
    assert len(loop.soon) == 1
    poll.rest()
    loop.round()
    assert not loop.soon


def test_zero_sleeps_at_once(loop: Loop) -> None:
    loop.two_answers(BusyPoll(0))
    assert not loop.soon


def test_a_single_core_is_left_to_the_client(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "cores", lambda: 1)
    loop.two_answers(BusyPoll(100))
    assert not loop.soon


def test_there_are_cores() -> None:
    assert cores() >= 1
