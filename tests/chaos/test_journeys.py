"""Row 53: a state imported from another log learns, its log is trimmed, its process is killed. It starts again, and replay
gives the same bits.

Many more journeys, with kills that are copies of the files, are in tests/run/test_journeys.py.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.repeats import slow
from tests.running import HANG_S, Running

GOLDEN = Path(__file__).parents[1] / "golden"
SAVES = 3  # as many let go all of the log before them
SETTINGS = {"RIATA_LOG_KEEP_EVENTS": "0", "RIATA_GENERATIONS_KEPT": "3", "RIATA_DISK_RESERVE_BYTES": "0"}
LEARNERS: dict[str, dict[str, Any]] = {
    "truncated_gradient": {"kind": "truncated_gradient"},
    "taylor_sketch": {"kind": "taylor_sketch", "k": 20, "gamma": 0.5},
    "ftrl_proximal": {"kind": "ftrl_proximal"},
}


def lines(count: int, seed: int) -> bytes:
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        words = rng.sample(range(60), 4)
        rows.append({"features": {f"w{word}": 1 for word in words}, "label": int(min(words) < 12)})
    return "\n".join(json.dumps(row) for row in rows).encode()


class Service:
    """A running service and the requests of this test."""

    def __init__(self, running: Running) -> None:
        self.running = running

    def ask(
        self, method: str, path: str, content: bytes | dict[str, Any] = b"", kind: str = "application/json"
    ) -> httpx.Response:
        body = json.dumps(content).encode() if isinstance(content, dict) else content
        answer = httpx.request(method, self.running.url + path, content=body, headers={"Content-Type": kind}, timeout=HANG_S)
        assert answer.status_code < 300, f"{path}: {answer.status_code} {answer.text}"
        return answer

    def teach(self, model: str, count: int, seed: int) -> None:
        answer = self.ask("POST", f"/models/{model}/observe?wait=applied", lines(count, seed), "application/x-ndjson")
        assert answer.json()["accepted"] == count

    def bring(self, model: str, content: bytes) -> None:
        self.ask("POST", f"/models/{model}/import", content, "application/octet-stream")

    def save(self, model: str) -> None:
        for _ in range(SAVES):
            assert self.ask("POST", f"/models/{model}/snapshots").json()["verified"]

    def killed_and_started(self) -> None:
        self.running.kill()
        replayed(self.running.directory)
        self.running.start()

    def margin(self, model: str) -> float:
        margin: float = self.ask("POST", f"/models/{model}/predict", {"features": {"w3": 1, "w40": 1}}).json()["margin"]
        return margin


def replayed(directory: Path) -> str:
    """The report of `riata replay --verify`, which must find no difference."""
    command = [sys.executable, "-m", "riata", "replay", "--data", str(directory), "--verify"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Running(tmp_path / "data", SETTINGS) as running:
        running.start()
        yield Service(running)


@pytest.mark.parametrize("learner", ["taylor_sketch", slow("truncated_gradient"), slow("ftrl_proximal")])
def test_row_53_an_exported_model_continues_under_another_name(learner: str, service: Service) -> None:
    service.ask("PUT", "/models/a", {"learner": LEARNERS[learner]})
    service.teach("a", 8000, 1)
    service.bring("b", service.ask("GET", "/models/a/export").content)
    assert service.margin("b") == service.margin("a")
    service.teach("b", 1500, 2)
    service.save("b")
    margin = service.margin("b")
    service.killed_and_started()
    assert service.margin("b") == margin
    kept = service.ask("GET", "/models/b/snapshots").json()["snapshots"]
    service.teach("b", 100, 3)
    service.ask("POST", "/models/b/restore", {"generation": kept[0]["generation"]})  # the newest; the import saved one too
    assert service.margin("b") == margin
    service.save("b")
    service.killed_and_started()
    assert service.margin("b") == margin


def test_row_53_a_model_fitted_from_a_file_continues_in_a_service(service: Service, tmp_path: Path) -> None:
    (tmp_path / "rows.ndjson").write_bytes(lines(5000, 1))
    command = [sys.executable, "-m", "riata", "fit", "--online", str(tmp_path / "rows.ndjson"), "--out", str(tmp_path / "fitted")]
    subprocess.run(command, capture_output=True, timeout=200, check=True)
    service.bring("fitted", (tmp_path / "fitted").read_bytes())
    service.teach("fitted", 1500, 2)
    service.save("fitted")
    margin = service.margin("fitted")
    service.killed_and_started()
    assert service.margin("fitted") == margin
    history = service.ask("GET", "/models/fitted/metrics?since=0").json()["history"]
    assert [(point["seq"], point["examples"]) for point in history][-3:] == [(2, 4000), (2, 5000), (1002, 6000)]


def test_row_53_a_directory_broken_by_an_older_release_continues(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "riata.db").write_bytes(gzip.decompress((GOLDEN / "carried_curve.db.gz").read_bytes()))
    assert "trimmed: snapshot 3 at event 152: equal" in replayed(directory)
    with Running(directory, SETTINGS) as running:
        running.start()
        service = Service(running)
        for model in ("whole", "trimmed"):
            service.teach(model, 1200, 4)
            service.save(model)
        service.killed_and_started()
        assert "failed verification" not in running.output()
