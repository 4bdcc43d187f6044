"""SIGKILL at random moments under load: every acknowledged event is there once, and the model equals one never killed."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from riata.store.payload import decode_batch
from riata.store.sqlite.store import read_sqlite
from tests.chaos.repeats import slow
from tests.chaos.replaying import replayed
from tests.running import HANG_S, Running

ROWS = 40  # events of one request
DOCUMENT: dict[str, Any] = {"encoder": {"bits": 18}, "checkpoint_every_s": 1, "publish_every_ms": 20}
SKETCH = {"kind": "taylor_sketch", "gamma": 0.5, "block": 25, "warm_up": 100, "shadow": [0.1], "rho": 0.9999}
LEARNERS: dict[str, dict[str, Any]] = {
    "hybrid": {**SKETCH, "mode": "hybrid", "k": 60, "rounds": 2},
    "strict": {**SKETCH, "mode": "strict", "k": 60, "rounds": 2},
    "exact": {**SKETCH, "mode": "exact", "features_max": 200, "beyond": "hybrid"},
    "ftrl": {"kind": "ftrl_proximal"},
}
CHANGED_AT = 7  # before this request the penalty of a sketch is changed
ENVIRONMENT = {"RIATA_DISK_RESERVE_BYTES": "0"}


def request_body(number: int, seed: int) -> bytes:
    """The events of request `number`: always the same, each with its own id."""
    rng = np.random.default_rng([seed, number])
    lines = []
    for i in range(ROWS):
        features = {
            f"c{int(c)}": float(np.round(v, 3)) for c, v in zip(rng.zipf(1.4, 12) % 5000, rng.normal(size=12), strict=True)
        }
        lines.append(json.dumps({"features": features, "label": int(rng.random() < 0.3), "event_id": f"{number}-{i}"}))
    return "\n".join(lines).encode()


def send_until_acknowledged(running: Running, number: int, seed: int, restart: Iterator[None]) -> int:
    """Post request `number` until it is acknowledged; restart the service if it was killed."""
    body = request_body(number, seed)
    while True:
        try:
            answer = httpx.post(
                f"{running.url}/models/m/observe", content=body, headers={"Content-Type": "application/x-ndjson"}, timeout=HANG_S
            )
        except httpx.TransportError:
            if running.process.poll() is None:
                time.sleep(0.02)  # it listens not yet, or the kill has cut the answer and is not noticed yet
            else:
                next(restart)
            continue
        if answer.status_code == 202:
            report = answer.json()
            assert report["accepted"] + report["duplicate"] == ROWS
            assert report["rejected"] == 0
            return int(report["seq"])
        assert answer.status_code == 503, answer.text
        time.sleep(0.02)


def change_until_acknowledged(running: Running, gamma: float, restart: Iterator[None]) -> None:
    """Change the penalty; restart the service if it was killed. Repeating the request changes nothing."""
    while True:
        try:
            answer = httpx.patch(f"{running.url}/models/m", json={"gamma": gamma}, timeout=300)
        except httpx.TransportError:
            if running.process.poll() is None:
                time.sleep(0.02)
            else:
                next(restart)
            continue
        if answer.status_code == 200:
            assert answer.json()["config"]["learner"]["gamma"] == gamma
            return
        assert answer.status_code == 503, answer.text
        time.sleep(0.02)


class Killer:
    """Kills the service after a seeded random time, from its start or from when it was ready."""

    def __init__(self, running: Running, kills: int, rng: random.Random) -> None:
        self._running = running
        self._left = kills
        self._rng = rng
        self.done = 0

    def arm(self) -> None:
        if self._left == 0:
            return
        self._left -= 1
        process = self._running.process
        timer = threading.Timer(self._rng.uniform(0.0, 1.2), process.kill)
        timer.daemon = True
        timer.start()

    def restarts(self) -> Iterator[None]:
        while True:
            self.done += 1
            early = self._rng.random() < 0.2  # some kills fall into the recovery itself
            self._running.start(wait=False)
            if early:
                self.arm()
            else:
                try:
                    self._running.wait_until_ready()
                finally:
                    self.arm()
            yield


def stream(
    directory: Path, kills: int, seed: int, requests: int | None = None, learner: dict[str, Any] | None = None
) -> tuple[str, int, int]:
    """Run the service on `directory`, post until `kills` have happened (or `requests` were sent); returns the digest of the
    final checkpoint, how many requests were acknowledged, and how often the service was killed."""
    rng = random.Random(seed)
    with Running(directory, ENVIRONMENT) as running:
        running.start()
        document = DOCUMENT if learner is None else {**DOCUMENT, "learner": learner}
        httpx.put(f"{running.url}/models/m", json=document, timeout=300).raise_for_status()
        killer = Killer(running, kills, rng)
        restarts = killer.restarts()
        killer.arm()
        sent, last = 0, 0
        while (killer.done < kills or sent <= CHANGED_AT) if requests is None else (sent < requests):
            if sent == CHANGED_AT and learner is not None and "gamma" in learner:
                change_until_acknowledged(running, 2.0, restarts)
            seq = send_until_acknowledged(running, sent, seed, restarts)
            assert seq > last
            sent, last = sent + 1, seq
        final = httpx.post(f"{running.url}/models/m/snapshots", timeout=300)
        final.raise_for_status()
        assert running.stop() == 0, running.output()
    return str(final.json()["state_digest"]), sent, killer.done


def logged_ids(directory: Path) -> list[bytes]:
    """Ids of the events in the log, in its order."""
    with closing(read_sqlite(directory)) as store:
        ids: list[bytes] = []
        after = 0
        while found := store.read("m", after):
            for record in found:
                if record.kind == "observe":
                    batch = decode_batch(record.payload)
                    assert batch.has_id.all()
                    ids += [row.tobytes() for row in batch.event_id]
            after = found[-1].last
        return ids


def check_kills(tmp_path: Path, kills: int, seed: int, learner: dict[str, Any] | None = None) -> None:
    digest, sent, killed = stream(tmp_path / "killed", kills, seed, learner=learner)
    assert killed == kills
    wanted = [hashlib.blake2b(f"{number}-{i}".encode(), digest_size=16).digest() for number in range(sent) for i in range(ROWS)]
    assert logged_ids(tmp_path / "killed") == wanted  # nothing lost, nothing twice, nothing out of order
    assert replayed(tmp_path / "killed").digest == digest
    undisturbed, _, _ = stream(tmp_path / "undisturbed", 0, seed, requests=sent, learner=learner)
    assert undisturbed == digest


@pytest.mark.slow
def test_ten_kills_lose_nothing_and_change_no_bit(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=10, seed=1)


@pytest.mark.parametrize("name", ["exact", slow("hybrid"), slow("ftrl")])
def test_two_kills_change_no_bit_of_the_other_learners_with_a_change_of_penalty_among_them(name: str, tmp_path: Path) -> None:
    check_kills(tmp_path, kills=2, seed=3, learner=LEARNERS[name])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LEARNERS)
def test_sixty_kills_change_no_bit_of_the_other_learners(name: str, tmp_path: Path) -> None:
    check_kills(tmp_path, kills=60, seed=4, learner=LEARNERS[name])


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_three_hundred_hundred_kills_lose_nothing_and_change_no_bit(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=300, seed=2)
