"""The backtest: what each configuration learns of a log, and how its losses compare with those of the one in force."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import BadInput
from riata.cli.replay import backtest_svg, table_of, with_settings
from riata.run.candidates.backtest import IN_FORCE, backtest, config_in_force
from riata.run.candidates.judging import BLOCKS, BlockSums, mean_of_blocks
from riata.run.state.config import Change, read_config
from riata.run.state.replay import replay
from riata.store import records
from riata.store.store import Append
from riata.watch.drift import DriftDetector
from riata.wire.batch import slice_rows
from tests.doubles.memory_store import MemoryStore
from tests.run.events import CONFIG, create_model, log_batch, random_batch

ETA = "learner.eta=0.01"


def logged(counts: tuple[int, ...] = (700, 40, 1, 800)) -> MemoryStore:
    store = MemoryStore()
    create_model(store)
    rng = np.random.default_rng(7)
    for count in counts:
        log_batch(store, random_batch(rng, count))
    return store


def test_each_configuration_learns_the_whole_log_and_its_loss_is_compared_event_by_event() -> None:
    store = logged()
    configs = [(text, with_settings(CONFIG, text)) for text in (ETA, "encoder.bits=14", "learner.kind=ftrl_proximal,l1=0.1")]
    configs.append(("hinge", with_settings(CONFIG, "loss=hinge")))
    found = backtest(store, "m", [*configs, ("same", CONFIG)])
    own, slow, wide, other, hinge, same = (row for row in found.document()["settings"])
    assert [one.state.learner.weights().bits for one in found.contestants] == [12, 12, 14, 12, 12, 12]
    assert own["loss"] == replay(store, "m").state.progressive.log_loss
    assert (own["settings"], own["difference"], own["interval"], own["events"]) == (IN_FORCE, None, None, 1541)
    assert (same["loss"], same["difference"], same["interval"]) == (own["loss"], 0.0, [0.0, 0.0])
    assert (hinge["measure"], hinge["difference"]) == ("hinge loss", None)
    for row in (slow, wide, other):
        assert row["difference"] == pytest.approx(row["loss"] - own["loss"], abs=1e-12)
    assert slow["interval"][0] > 0.0  # it learns too slowly
    lines = table_of(found.document())
    assert any(line.startswith(ETA) and line.endswith(", worse") for line in lines)
    assert lines[0] == "events    1,541 of events 1 to 1,542, each predicted before it was learnt"
    drawn = backtest_svg(found.document())
    assert len(re.findall("<polyline", drawn)) == 6 + 5  # a hinge loss has no place among log losses
    assert ETA in drawn


def test_only_events_that_count_are_learnt() -> None:
    store, straight, rng = MemoryStore(), MemoryStore(), np.random.default_rng(7)
    parts = [random_batch(rng, count) for count in (300, 200, 400)]
    create_model(store)
    log_batch(store, parts[0])  # events 2 to 301
    state = replay(store, "m").state.freeze().encode()
    log_batch(store, parts[1])  # undone
    store.append([Append("m", "restore", 0, payload=records.encode_restore({"generation": 1}, state))])
    log_batch(store, parts[2])  # events 503 to 902
    for event in (5, 503):
        store.append([Append("m", "skip", 0, payload=records.encode_skip(event, "bad"))])
    create_model(straight)
    for batch in (slice_rows(parts[0], 0, 3), slice_rows(parts[0], 4, 300), slice_rows(parts[2], 1, 300)):
        log_batch(straight, batch)
    found = backtest(store, "m", [(ETA, with_settings(CONFIG, ETA))], to=802).document()
    expected = backtest(straight, "m", [(ETA, with_settings(CONFIG, ETA))]).document()
    figures = ("loss", "non_zeros", "events", "refused")
    assert [[one[name] for name in figures] for one in found["settings"]] == [
        [one[name] for name in figures] for one in expected["settings"]
    ]
    assert found["settings"][1]["difference"] == pytest.approx(expected["settings"][1]["difference"])
    assert found["window"] == {"from": 1, "to": 802, "events": 598, "of": 904, "skipped": 2, "undone_by_restore": 200}


def test_settings_that_a_log_does_not_leave_free_are_refused() -> None:
    store = logged((60,))
    for text, code in (
        ('encoder.text=["body"]', "bad_option"),
        ("label_ttl_s=5", "bad_option"),
        ("learner.etta=1", "unknown_key"),
    ):
        with pytest.raises(BadInput) as refused:
            backtest(store, "m", [(text, with_settings(CONFIG, text))])
        assert refused.value.code == code
    assert backtest(store, "m", [(ETA, with_settings(CONFIG, ETA))]).window.events == 60
    assert with_settings(CONFIG, 'drift={"action":"note","rest_events":5}') == with_settings(
        CONFIG, "drift.action=note,drift.rest_events=5"
    )


def test_the_configuration_in_force_is_that_of_the_last_event_that_set_it() -> None:
    store = logged((30,))
    later = read_config({"encoder": {"bits": 12}, "learner": {"kind": "truncated_gradient", "gravity": 0.5}})
    store.append([Append("m", "config", 0, payload=Change(later, after=1).payload())])
    store.append([Append("m", "config", 0, payload=Change(CONFIG, after=1).payload())])  # void: another was faster
    assert config_in_force(store, "m") == later


def test_alarms_of_drift_are_answered_by_forgetting() -> None:
    one_step = with_settings(CONFIG, "learner.mixed=false")  # three steps follow this change without an alarm
    store, rng = MemoryStore(), np.random.default_rng(7)
    create_model(store, config=one_step)
    for turn in range(20):
        rows = random_batch(rng, 500)
        log_batch(store, replace(rows, label=1.0 - rows.label) if turn >= 14 else rows)
    settings = ["drift.action=note,drift.rest_events=0", "drift.action=forget,drift.rest_events=0"]
    found = backtest(store, "m", [(text, with_settings(one_step, text)) for text in settings])
    own, noted, forgetting = found.document()["settings"]
    assert (own["drift_alarms"], noted["loss"] == own["loss"]) == (0, True)
    assert min(noted["drift_alarms"], forgetting["drift_alarms"]) >= 1
    detectors = [one.state.observers.get(DriftDetector) for one in found.contestants[1:]]
    assert all(one.unanswered is None for one in detectors if one is not None)
    assert forgetting["faded_loss"] < noted["faded_loss"]


def test_blocks_of_a_running_difference_are_those_of_all_events_at_once() -> None:
    rng = np.random.default_rng(1)
    values: F64 = rng.normal(0.3, 1.0, 6400)
    weight: F64 = rng.uniform(0.5, 2.0, 6400)
    running = BlockSums()
    assert running.estimate() is None
    for start, stop in ((0, 49), (49, 50), (50, 3333), (3333, 6400)):
        running.add(values[start:stop], weight[start:stop])
        assert (running.estimate() is None) == (stop < BLOCKS)
    edges = np.arange(0, 6400, 64)  # 100 blocks; a 6401st event would make them 50
    expected = mean_of_blocks(np.add.reduceat(weight, edges), np.add.reduceat(weight * values, edges))
    assert running.estimate() == pytest.approx(expected)
    running.add(values[:1], weight[:1])
    assert running.estimate() == pytest.approx(expected, rel=0.3)


def test_the_interval_covers_the_difference_of_dependent_events() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        running = BlockSums()
        running.add(np.repeat(rng.normal(0.0, 1.0, 400), 20), np.ones(8000))
        mean, error = running.estimate() or (np.nan, np.nan)
        covered += abs(mean) <= 2.0 * error
    assert 180 <= covered <= 200
