"""`riata backup` of a service that learns: killed, moved, started on the copy, replayed."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import httpx
import pytest

from riata.scorer.riata_scorer import Scorer
from tests.cli.test_verbs import run, succeeds
from tests.running import Running

ROWS = "".join(f'{{"features":{{"age":{i % 50},"n{i % 400}":1}},"label":{i % 2},"event_id":"{{}}-{i}"}}\n' for i in range(400))
LINES = {"Content-Type": "application/x-ndjson"}


class Load(threading.Thread):
    """Sends bodies one after the other until stopped, or until the service is gone; `sent` are those that were acknowledged."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.sent = 0
        self.over = threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=300) as client:
            while not self.over.is_set():
                try:
                    client.post("/observe", content=ROWS.replace("{}", str(self.sent)), headers=LINES).raise_for_status()
                except httpx.TransportError:
                    return
                self.sent += 1


def test_a_backup_under_load_starts_elsewhere_with_every_event_acknowledged_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RIATA_KEY", raising=False)
    service, copy = Running(tmp_path / "data"), tmp_path / "elsewhere" / "copy"
    service.start()
    load = Load(service.url)
    load.start()
    while load.sent < 20:
        load.over.wait(0.01)
    before = load.sent
    done = succeeds("backup", str(copy), "--url", service.url)
    assert "read back" in done.stdout
    during = load.sent
    service.kill()
    load.join()
    assert during > before  # events were accepted while the backup was made
    assert not list((tmp_path / "data" / "backups").glob("*"))
    again = run("backup", str(copy), "--url", service.url)
    assert (again.exit_code, "no backup is overwritten" in again.output) == (1, True)
    succeeds("backup", str(tmp_path / "stopped"), "--data", str(tmp_path / "data"))

    moved = Running(copy)
    moved.start()
    with httpx.Client(base_url=moved.url, timeout=300) as client:
        for number in range(before):
            told = client.post("/observe", content=ROWS.replace("{}", str(number)), headers=LINES).json()
            assert (told["accepted"], told["duplicate"]) == (0, 400)
        assert client.get("/predict?age=3").json()["model"]["seq"] > 400 * before
        succeeds("scorer", str(tmp_path / "scorer"), "--url", moved.url)
        succeeds("scorer", str(tmp_path / "pyfunc"), "--mlflow", "--url", moved.url)
        assert (tmp_path / "pyfunc" / "model.json").read_bytes() == (tmp_path / "scorer" / "model.json").read_bytes()
        scorer = Scorer(json.loads((tmp_path / "scorer" / "model.json").read_text()))
        for age in (0, 3, 49):
            row = {"age": age, f"n{age}": 1}
            served = client.post("/predict", json={"features": row}).json()
            assert scorer.margin(row) == served["margin"]
            assert scorer.probability(row) == pytest.approx(served["probability"])
    moved.stop()
    for directory in (copy, tmp_path / "stopped"):
        succeeds("replay", "--data", str(directory), "--verify")
