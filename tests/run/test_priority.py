from __future__ import annotations

from riata.run.writer.shifts import SHARE_MIN, WINDOW_S, StarvationGauge


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
