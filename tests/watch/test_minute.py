from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from riata.watch.class_progressive import ClassProgressive
from riata.watch.progressive import SPAN_MS, STEP_MS, Minute, Progressive, ProgressiveConfig, of_last_minute

SLACK_MS = STEP_MS


def learn(progressive: Progressive, n: int, margin: float = 1.0, label: float = 1.0) -> None:
    shape = (n, len(progressive.names)) if isinstance(progressive, ClassProgressive) else n
    progressive.add(np.full(shape, margin), np.full(n, label), np.ones(n), np.zeros(n, np.bool_), progressive.examples + 1)


def asked(minute: Minute, progressive: Progressive, now_ms: int, age_ms: int = 0) -> dict[str, Any]:
    return of_last_minute(minute.note(progressive, now_ms).figures(progressive), age_ms)


def test_a_steady_stream_has_the_events_of_60_to_65_seconds() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    minute.note(progressive, 1_000_007)
    for number in range(1, 2000):  # 20 events, five times a second
        learn(progressive, 20)
        now_ms = 1_000_007 + 200 * number
        told = asked(minute, progressive, now_ms)
        seconds = told["seconds"]
        assert seconds == min((now_ms - 1_000_007) / 1000, seconds) or seconds >= 60.0
        assert seconds <= 65.0
        assert told["examples"] == pytest.approx(100 * seconds, abs=21)
    assert told["loss"] == pytest.approx(progressive.figures()["cumulative"]["loss"], rel=1e-9)


def test_a_fault_of_the_last_seconds_is_seen_at_once_and_forgotten_after_a_minute() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    learn(progressive, 500_000)
    minute.note(progressive, 0)
    for second in range(100):
        learn(progressive, 100, label=0.0 if 10 <= second < 15 else 1.0)
        told = asked(minute, progressive, 1000 * second)
        if not 75 <= second < 80:  # the span is 60 to 65 s
            assert (told["base_rate"] is not None and told["base_rate"] < 1.0) == (10 <= second < 75), second
    assert progressive.figures()["faded"]["base_rate"] < 0.99  # the faded figures do not forget it as fast


def test_figures_age_although_nothing_is_published_any_more() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    minute.note(progressive, 0)
    for second in range(1, 201):
        learn(progressive, 10)
        published = minute.note(progressive, 1000 * second).figures(progressive)
    counts = [of_last_minute(published, 1000 * age)["examples"] for age in range(0, 120, 10)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(counts))
    assert counts[0] >= 600
    assert counts[3] == pytest.approx(300, abs=60)
    assert counts[7:] == [0] * 5
    nothing = of_last_minute(published, 600_000)
    assert (nothing["seconds"], nothing["examples"], nothing["loss"], nothing["auc"]) == (65.0, 0, None, None)


def test_a_burst_after_an_hour_counts_alone() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    minute.note(progressive, 0)
    learn(progressive, 1000)
    minute.note(progressive, 700)
    learn(progressive, 7)
    told = asked(minute, progressive, 3_600_123)
    assert (told["examples"], told["seconds"]) == (7, 60.0)


def test_another_past_begins_anew() -> None:
    minute, progressive, restored = Minute(), Progressive(ProgressiveConfig()), Progressive(ProgressiveConfig())
    minute.note(progressive, 0)
    learn(progressive, 50)
    assert asked(minute, progressive, 30_000)["examples"] == 50
    learn(restored, 20)
    assert asked(minute, restored, 31_000)["examples"] == 0
    learn(restored, 3)
    told = asked(minute, restored, 33_000)
    assert (told["examples"], told["seconds"]) == (3, 2.0)


def test_it_keeps_no_more_than_a_minute() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    for second in range(1000):
        learn(progressive, 1)
        told = minute.note(progressive, 1000 * second).figures(progressive)
    assert len(told["steps"]) <= (SPAN_MS + STEP_MS) // STEP_MS + 2


def test_several_classes_have_an_error_and_no_auc() -> None:
    minute, progressive = Minute(), ClassProgressive(ProgressiveConfig(window=10), ("a", "b"))
    minute.note(progressive, 0)
    learn(progressive, 30, label=1.0)
    told, recent = asked(minute, progressive, 1000), progressive.figures()["recent"]
    assert (told["examples"], told["error"], told["auc"], told["base_rate"]) == (30, 1.0, None, None)
    assert (recent["examples"], recent["error"], recent["auc"]) == (10, 1.0, None)
