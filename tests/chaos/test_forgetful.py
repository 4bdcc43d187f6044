"""SIGKILL between the append of a delayed label and the step that follows: nothing is lost, nothing is learnt twice."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.run.state.replay import replay
from riata.store.payload import decode_batch
from riata.store.sqlite.store import read_sqlite
from tests.running import HANG_S, Running

ROWS = [{"features": {"colour": colour, "size": i}} for i, colour in enumerate(["red", "green", "blue"] * 4)]
DEADLINE_S = 900.0


def served(directory: Path, dies_at: str = "") -> Running:
    """The service, which dies at `dies_at`; empty for one that does not."""
    return Running(directory, {"RIATA_DISK_RESERVE_BYTES": "0", "DIES_AT": dies_at}, module="tests.chaos.forgetful")


def make(running: Running, **settings: Any) -> None:
    httpx.put(f"{running.url}/models/m", json=settings, timeout=300).raise_for_status()


def predicted(running: Running) -> list[str]:
    """Predict ROWS; returns their ids."""
    answers = httpx.post(f"{running.url}/models/m/predict?remember=true", json=ROWS, timeout=300).json()
    return [answer["prediction_id"] for answer in answers]


def labelled(running: Running, ids: list[str], label: int = 1) -> httpx.Response:
    rows = [{"prediction_id": one, "label": label} for one in ids]
    return httpx.post(f"{running.url}/models/m/observe?wait=applied", json=rows, timeout=300)


def examples(running: Running) -> int:
    found: int = httpx.get(f"{running.url}/models/m", timeout=300).json()["examples"]
    return found


def died(running: Running) -> None:
    assert running.process.wait(HANG_S) == -signal.SIGKILL, running.output()


def logged_labels(directory: Path) -> list[float]:
    """The labels in the log after the service has stopped. A replay of the log must give the saved model."""
    with closing(read_sqlite(directory)) as store:
        report = replay(store, "m")
        assert report.equal
        assert report.compared
        payloads = [record.payload for record in store.read("m", 0, 2**30) if record.kind == "observe"]
        return [label for payload in payloads for label in decode_batch(payload).label.tolist()]


def test_a_death_between_the_default_labels_and_the_forgetting_applies_none_twice(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with served(directory, "forget") as running:
        running.start()
        make(running, label_ttl_s=1, default_label=0)
        predicted(running)
        died(running)
    with served(directory) as running:
        running.start()
        deadline = time.monotonic() + DEADLINE_S
        metrics = ""
        while 'riata_remembered_rows{model="m"} 0.0' not in metrics:  # it has swept once more, and forgotten
            assert time.monotonic() < deadline, metrics
            time.sleep(0.05)
            metrics = httpx.get(f"{running.url}/metrics", timeout=300).text
        assert 'riata_predictions_due_total{model="m",outcome="defaulted"} 0.0' in metrics
        assert examples(running) == len(ROWS)
        assert running.stop() == 0
    assert logged_labels(directory) == [0.0] * len(ROWS)


def test_a_death_between_a_label_and_its_mark_loses_it_not_and_doubles_it_not(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with served(directory, "mark") as running:
        running.start()
        make(running, label_ttl_s=3600, default_label=0)
        ids = predicted(running)
        with pytest.raises(httpx.TransportError):
            labelled(running, ids)
        died(running)
    with served(directory) as running:
        running.start()
        assert examples(running) == len(ROWS)
        again = labelled(running, ids).json()
        assert (again["accepted"], again["duplicate"]) == (0, len(ROWS))
        other = labelled(running, ids, label=0)
        assert (other.status_code, other.json()["errors"][0]["code"]) == (422, "label_conflict")
        assert running.stop() == 0
    assert logged_labels(directory) == [1.0] * len(ROWS)


def test_a_death_before_the_answer_to_a_prediction_costs_nothing_but_room(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with served(directory, "answer") as running:
        running.start()
        make(running)
        with pytest.raises(httpx.TransportError):
            predicted(running)
        died(running)
    with served(directory) as running:
        running.start()
        ids = predicted(running)
        assert labelled(running, ids).json()["accepted"] == len(ROWS)
        assert running.stop() == 0
    assert logged_labels(directory) == [1.0] * len(ROWS)


def test_an_id_is_valid_after_a_kill(tmp_path: Path) -> None:
    """Everything answered is on disk: the id before its answer, and the label before its own."""
    directory = tmp_path / "data"
    ids: list[str] = []
    with served(directory) as running:
        running.start()
        make(running)
        ids += predicted(running)
        running.kill()
        running.start()
        assert labelled(running, ids[:6]).json()["accepted"] == 6
        running.kill()
        running.start()
        reported = labelled(running, ids).json()
        assert (reported["accepted"], reported["duplicate"]) == (len(ROWS) - 6, 6)
        assert running.stop() == 0
    assert logged_labels(directory) == [1.0] * len(ROWS)
