"""For how long events have waited to be learnt, against a log of which everything is known."""

from __future__ import annotations

import random

from riata.run.served_model import MARKS_EVERY_MS, Lag


def test_the_longest_wait_is_found_within_the_distance_of_two_marks() -> None:
    rng = random.Random(7)
    lag, now_ms, learnt = Lag(), 0, 0
    logged_ms: list[int] = []  # of event i + 1
    waits = []
    for _ in range(5000):
        step_ms = rng.choice((0, 1, 20))
        now_ms += step_ms
        logged_ms += [now_ms] * rng.choice((0, 1, 1, 50))
        rate = 0.6 if now_ms < 20_000 else 5.0  # events learnt a millisecond: too few at first
        learnt = min(len(logged_ms), learnt + int(rate * step_ms))
        found = lag.ms(len(logged_ms), learnt, now_ms)
        exact = now_ms - logged_ms[learnt] if learnt < len(logged_ms) else 0
        assert exact - MARKS_EVERY_MS - 20 <= found <= exact
        waits.append(found)
    assert max(waits) > 5000
    assert waits[-1] < 200


def test_events_of_before_the_first_question_count_from_it() -> None:
    lag = Lag()
    assert lag.ms(1000, 10, 5000) == 0
    assert lag.ms(1000, 999, 5300) == 300
    assert lag.ms(1000, 1000, 5400) == 0


def test_events_that_a_store_has_lost_are_not_waited_for() -> None:
    lag = Lag()
    lag.ms(100, 10, 0)
    assert lag.ms(50, 40, 900) == 0
    assert lag.ms(50, 40, 1000) == 100
