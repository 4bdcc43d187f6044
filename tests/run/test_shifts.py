"""Turns in real threads: who takes them, at which priority, and what goes aside."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from riata.base.halt import Halt
from riata.base.process import BESIDE
from riata.run.writer.shifts import ASIDE_NICENESS, RUNNING_MAX, Shifts
from tests.running import until

LONG_S = 900.0
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows priorities of threads")


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


class Work:
    """Records the thread and the priority of each turn."""

    def __init__(self) -> None:
        self.turns: list[tuple[int, int]] = []
        self.hungry = True
        self.go_on = True
        self.ended = threading.Event()
        self.shifts = Shifts("test", self.turn, lambda: self.hungry, self.ended.set)

    def turn(self) -> bool:
        self.shifts.begin(Halt())
        self.turns.append((threading.get_native_id(), niceness()))
        time.sleep(0.01)  # no processor time
        return self.go_on


@ON_LINUX
def test_work_that_starves_is_taken_over_at_normal_priority_and_given_back() -> None:
    work = Work()
    work.shifts.start()
    until(lambda: len({at for at, _ in work.turns}) == 2)
    assert work.shifts.starving
    work.hungry = False
    until(lambda: not work.shifts.starving)
    turns = len(work.turns)
    until(lambda: len(work.turns) >= turns + 3)
    assert not work.ended.is_set()
    work.go_on = False
    work.shifts.join()
    assert work.ended.is_set()
    assert {nice for _, nice in work.turns} == {BESIDE, niceness()}
    assert work.turns[0][1] == work.turns[-1][1] == BESIDE


class Tasks:
    """Turns that do what was put, one after the other."""

    def __init__(self) -> None:
        self.tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.shifts = Shifts("test", self.turn, lambda: not self.tasks.empty(), lambda: None)
        self.stuck: list[threading.Event] = []

    def turn(self) -> bool:
        task = self.tasks.get()
        self.shifts.begin(Halt())
        if task is not None:
            task()
        return task is not None

    def get_stuck(self) -> tuple[threading.Event, list[int]]:
        """Put a turn that ends when the event is set; returns the event, and the nicenesses at its begin and at its end."""
        release, seen = threading.Event(), list[int]()
        self.stuck.append(release)

        def wait() -> None:
            seen.append(niceness())
            assert release.wait(LONG_S)
            seen.append(niceness())

        self.tasks.put(wait)
        return release, seen

    def do(self) -> int:
        """Put a short turn and wait until it is done; returns its niceness."""
        seen: list[int] = []
        self.tasks.put(lambda: seen.append(niceness()))
        until(lambda: bool(seen))
        return seen[0]


@contextmanager
def running() -> Iterator[Tasks]:
    tasks = Tasks()
    tasks.shifts.start()
    yield tasks
    for release in tasks.stuck:
        release.set()
    tasks.tasks.put(None)
    tasks.shifts.join()


@ON_LINUX
def test_others_go_on_at_normal_priority_while_turns_take_long_however_many_and_the_loop_comes_back() -> None:
    with running() as tasks:
        assert tasks.do() == BESIDE
        stuck = [tasks.get_stuck() for _ in range(5)]
        assert tasks.do() == niceness()
        assert [seen for _, seen in stuck] == [[BESIDE], *[[niceness()]] * 4]
        for release, _ in stuck:
            release.set()
        until(lambda: all(len(seen) == 2 for _, seen in stuck))
        assert stuck[0][1] == [BESIDE, BESIDE]
        assert all(seen[1] == max(ASIDE_NICENESS, niceness()) for _, seen in stuck[1:])
        until(lambda: tasks.do() == BESIDE)


@ON_LINUX
def test_what_is_known_to_take_long_goes_aside_at_a_lower_priority_that_is_not_the_lowest() -> None:
    with running() as tasks:
        release, seen = threading.Event(), list[int]()

        def wait() -> None:
            seen.append(niceness())
            release.wait(LONG_S)

        for _ in range(3):
            tasks.tasks.put(lambda: tasks.shifts.aside(wait, Halt()))
        until(lambda: len(seen) == 3)
        assert set(seen) == {max(ASIDE_NICENESS, niceness())}
        assert tasks.do() == niceness()
        release.set()
        until(lambda: tasks.do() == BESIDE)
        tasks.tasks.put(lambda: tasks.shifts.aside(lambda: seen.append(-1), Halt()))  # in a thread that is there already
        until(lambda: seen[-1] == -1)


def test_of_more_computations_aside_than_processors_some_wait_and_each_has_its_time() -> None:
    with running() as tasks:
        release, halts = threading.Event(), [Halt() for _ in range(RUNNING_MAX + 3)]
        ran = [0] * len(halts)

        def compute(number: int) -> None:
            while not release.is_set():
                ran[number] += not halts[number].is_paused
                time.sleep(0.001)

        for number, halt in enumerate(halts):
            tasks.tasks.put(lambda number=number, halt=halt: tasks.shifts.aside(partial(compute, number), halt))  # type: ignore[misc]
        until(lambda: sum(halt.is_paused for halt in halts) == 3)
        until(lambda: all(ran))
        release.set()
        until(lambda: not any(halt.is_paused for halt in halts))


def test_a_turn_that_takes_long_keeps_the_loop_while_nobody_waits() -> None:
    with running() as tasks:
        release, seen = tasks.get_stuck()
        until(lambda: bool(seen))
        time.sleep(0.2)
        assert not tasks.shifts.starving
        assert tasks.shifts.held_s() >= 0.2
        tasks.do()
        assert tasks.shifts.starving
        release.set()


def test_the_end_does_not_wait_for_what_is_aside() -> None:
    with running() as tasks:
        _, seen = tasks.get_stuck()
        until(lambda: bool(seen))
        tasks.do()
        tasks.tasks.put(None)
        tasks.shifts.join()
        assert len(seen) == 1


def test_work_that_comes_to_a_thread_just_as_it_is_ready_again_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    work, done = Work(), [threading.Event(), threading.Event()]
    came_back = Shifts._came_back

    def at_once(shifts: Shifts, me: Any) -> None:
        came_back(shifts, me)
        if not done[1].is_set() and shifts._idle:
            shifts.aside(done[1].set, Halt())  # before the thread has looked whether it is kept

    monkeypatch.setattr(Shifts, "_came_back", at_once)
    work.hungry = False
    work.shifts.start()
    work.shifts.aside(done[0].set, Halt())
    assert done[0].wait(LONG_S)
    assert done[1].wait(LONG_S)
    work.go_on = False
    work.shifts.join()
