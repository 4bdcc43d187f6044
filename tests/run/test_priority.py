from __future__ import annotations

import os
import sys
import threading
import time

import pytest

from riata.base.priority import LOWEST
from riata.run.priority import SHARE_MIN, WINDOW_S, StarvationGauge, TwoPriorityThread


class Used:
    """The processor time of a thread."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def test_only_starving_work_gets_normal_priority_until_nothing_waits() -> None:
    pace, used = StarvationGauge(), Used()
    assert not pace.note(0.0, used, waiting=True)
    used.s = SHARE_MIN * WINDOW_S
    assert not pace.note(WINDOW_S, used, waiting=True)
    used.s += 0.9 * SHARE_MIN * WINDOW_S
    assert not pace.note(1.9 * WINDOW_S, used, waiting=True)  # the window is not over
    assert pace.note(2.0 * WINDOW_S, used, waiting=True)
    assert pace.note(9.0 * WINDOW_S, used, waiting=True)
    assert not pace.note(9.1 * WINDOW_S, used, waiting=False)


def test_a_pause_restarts_the_window() -> None:
    pace, used = StarvationGauge(), Used()
    pace.note(0.0, used, waiting=True)
    pace.note(0.9 * WINDOW_S, used, waiting=False)
    assert not pace.note(1.1 * WINDOW_S, used, waiting=True)
    assert not pace.note(1.9 * WINDOW_S, used, waiting=True)


class Work:
    """Records the thread and the priority of each turn."""

    def __init__(self) -> None:
        self.turns: list[tuple[int, int]] = []
        self.hungry = True
        self.go_on = True
        self.ended = threading.Event()

    def turn(self) -> bool:
        self.turns.append((threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0)))
        time.sleep(0.01)  # no processor time
        return self.go_on

    def until(self, holds: int) -> None:
        """Wait until this many threads have taken turns, one after another."""
        deadline = time.monotonic() + 900
        while len({at for at, _ in self.turns}) < holds or not self.turns:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows priorities of threads")
def test_work_that_starves_is_taken_over_at_normal_priority_and_given_back() -> None:
    work = Work()
    shifts = TwoPriorityThread("test", work.turn, lambda: work.hungry, work.ended.set)
    shifts.start()
    work.until(2)
    assert shifts.starving
    work.hungry = False
    while shifts.starving:
        time.sleep(0.01)
    turns = len(work.turns)
    while len(work.turns) < turns + 3:
        time.sleep(0.01)
    assert not work.ended.is_set()
    work.go_on = False
    shifts.join()
    assert work.ended.is_set()
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert {nice for _, nice in work.turns} == {LOWEST, mine}
    assert work.turns[0][1] == work.turns[-1][1] == LOWEST
