"""SIGKILL of the service and of the child process at random moments of refits and promotions.

Events arrive meanwhile, each with its own id, and are sent again until they are acknowledged. In the end every event is in the
log once, in order; learning the log again gives the bits of every checkpoint; and each promotion in the log took effect.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest

from riata.run.state.replay import replay
from riata.store import records
from riata.store.sqlite.store import read_sqlite
from tests.chaos.test_kill import logged_ids
from tests.run.refit_rows import SLOW, rows
from tests.running import Running

FIRST: Final = 1200
ROWS: Final = 20  # events of one request meanwhile
REFIT_S: Final = 6.0  # a kill comes within this time of the start of a refit: before, while and after the child works
PROMOTION_S: Final = 0.15
NDJSON: Final = {"Content-Type": "application/x-ndjson"}
ENVIRONMENT: Final = {"RIATA_DISK_RESERVE_BYTES": "0"}
GONE_S: Final = 60.0
PAUSE_S: Final = 0.1  # between two requests: a child process of the lowest priority gets the rest


class Sender:
    """Sends numbered events, and repeats a request until it is acknowledged."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.sent = self.last_seq = 0

    def send(self, count: int) -> None:
        made = rows(count, seed=self.sent)
        body = "".join(json.dumps({**row, "event_id": f"e{self.sent + i}"}) + "\n" for i, row in enumerate(made))
        while True:
            try:
                answer = httpx.post(f"{self._running.url}/models/m/observe", content=body, headers=NDJSON, timeout=60)
            except httpx.TransportError:
                self.restart()
                continue
            time.sleep(PAUSE_S)
            if answer.status_code == 202:
                assert answer.json()["accepted"] + answer.json()["duplicate"] == count
                self.sent, self.last_seq = self.sent + count, answer.json()["seq"]
                return
            assert answer.status_code == 503, answer.text
            time.sleep(0.02)

    def restart(self) -> None:
        """Start the service again if it was killed."""
        if self._running.process.poll() is not None:
            self._running.start()
        else:
            time.sleep(0.02)


def children(running: Running) -> list[psutil.Process]:
    """The child processes of refits."""
    try:
        return [
            one
            for one in psutil.Process(running.process.pid).children()
            if "riata.run.candidates.refits.process" in one.cmdline()
        ]
    except psutil.Error:
        return []


def ask(running: Running, method: str, path: str, document: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Send a request; None if the service is killed meanwhile."""
    try:
        answer = httpx.request(method, f"{running.url}/models/m{path}", json=document, timeout=60)
    except httpx.TransportError:
        return None
    return dict(answer.json())


def one_round(running: Running, sender: Sender, target: str, rng: random.Random) -> str:
    """Refit, and kill at a random moment. Returns what the target was doing then."""
    begun = ask(running, "POST", "/refits", {"gamma": 2.0})
    assert begun is not None
    assert begun.get("state") == "running", begun
    path, known = f"/refits/{begun['id']}", set[psutil.Process]()
    wait_s = rng.uniform(0.0, REFIT_S)
    if target != "promotion":
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            known |= set(children(running))
            sender.send(ROWS)
        found = ask(running, "GET", path) or {}
        if target == "child":
            for child in children(running):
                child.kill()
            while (found := ask(running, "GET", path) or {})["state"] == "running":
                sender.send(ROWS)
            if found["state"] == "failed":
                assert found["error"]["code"] == "refit_failed", found
            return f"child: {found['state']}"
        running.kill()
        doing = found["stage"] or found["state"]
    else:
        while (ask(running, "GET", path) or {})["state"] == "running":
            sender.send(ROWS)
        threading.Timer(rng.uniform(0.0, PROMOTION_S), running.process.kill).start()
        promoted = ask(running, "POST", path + "/promote", {"force": True})
        running.process.wait()
        doing = "promotion under way" if promoted is None else "promoted"
    for child in known:  # none outlives the service for long
        child.wait(GONE_S)
    sender.restart()
    return f"service: {doing}"


def check_kills(directory: Path, targets: list[str], seed: int) -> Counter[str]:
    """Kill once in each round; returns what was killed when."""
    rng, seen = random.Random(seed), Counter[str]()
    with Running(directory, ENVIRONMENT) as running:
        running.start()
        document = {**SLOW, "checkpoint_every_s": 1, "publish_every_ms": 20}
        httpx.put(f"{running.url}/models/m", json=document, timeout=300).raise_for_status()
        sender = Sender(running)
        sender.send(FIRST)
        for target in targets:
            seen[one_round(running, sender, target, rng)] += 1
            sender.send(ROWS)
        sender.send(1)
        assert ask(running, "GET", f"/predict?x=1&_min_seq={sender.last_seq}") is not None
        figures = ask(running, "GET", "/metrics")
        assert figures is not None
        assert figures["cumulative"]["examples"] == sender.sent
        assert running.stop() == 0, running.output()
    wanted = [hashlib.blake2b(f"e{number}".encode(), digest_size=16).digest() for number in range(sender.sent)]
    assert logged_ids(directory) == wanted  # nothing lost, nothing twice, nothing out of order
    with closing(read_sqlite(directory)) as store:
        report = replay(store, "m")
        promotions = [one for one in store.read("m", 0, 2**30) if one.kind == "restore"]
    assert report.equal
    assert report.state.progressive.examples == sender.sent
    assert all(records.decode_through(one.payload) is not None for one in promotions)
    assert set(report.state.changes) == {1, *(one.first for one in promotions)}  # every one took effect, whole
    return seen


def test_two_kills_lose_nothing_and_leave_no_half_promotion(tmp_path: Path) -> None:
    seen = check_kills(tmp_path / "data", ["service", "promotion"], seed=1)
    assert seen.total() == 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_sixty_kills_lose_nothing_and_leave_no_half_promotion(tmp_path: Path) -> None:
    seen = check_kills(tmp_path / "data", ["child", "service", "promotion"] * 20, seed=2)
    assert seen.total() == 60
    assert len([kind for kind in seen if kind.startswith("service")]) > 3, seen  # kills fall into different stages
