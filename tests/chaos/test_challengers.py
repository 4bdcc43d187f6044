"""SIGKILL of a service while a model follows another, and while one learns the log of the other first: the follower has what its
leader has, once, and takes its place.
"""

from __future__ import annotations

import random
import threading
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx

from riata.run.state.replay import replay
from riata.store.sqlite.store import read_sqlite
from tests.chaos.test_refits import ENVIRONMENT, Sender
from tests.running import Running

FASTER: Final = {"follow": "m", "learner": {"eta": 0.1}}
ROUNDS: Final = 8
KILLED_WITHIN_S: Final = 0.6


def test_a_follower_has_each_event_of_its_leader_once_after_kills(tmp_path: Path) -> None:
    rng = random.Random(19)
    with Running(tmp_path / "data", ENVIRONMENT) as running:
        running.start()
        document = {"encoder": {"bits": 12}, "checkpoint_every_s": 1, "publish_every_ms": 20}
        httpx.put(f"{running.url}/models/m", json=document, timeout=300).raise_for_status()
        httpx.put(f"{running.url}/models/b", json=FASTER, timeout=300).raise_for_status()
        sender = Sender(running)
        sender.send(20)
        threading.Timer(rng.uniform(0.0, KILLED_WITHIN_S), running.process.kill).start()
        for _ in range(ROUNDS):
            sender.send(20)  # the request that the kill interrupts is sent again
        running.kill()
        running.start()
        sender.send(20)
        killed = running.process
        kill = threading.Timer(rng.uniform(0.0, KILLED_WITHIN_S / 2), killed.kill)
        kill.start()
        backfill(running, sender)
        kill.join()
        killed.wait()
        if running.process is killed:  # it followed before
            running.start()
        promoted = httpx.post(f"{running.url}/models/m/promote", json={"challenger": "b", "force": True}, timeout=60)
        assert promoted.status_code == 200, promoted.text
        assert httpx.get(f"{running.url}/models/m", timeout=60).json()["challengers"][0]["events"] == sender.sent
        assert running.stop() == 0, running.output()
    with closing(read_sqlite(tmp_path / "data")) as store:
        logs = {name: [one for one in store.read(name, 0, 2**30) if one.kind == "observe"] for name in ("m", "b", "c")}
        reports = [replay(store, name) for name in logs]
    assert [one.digest for one in logs["b"]] == [one.digest for one in logs["m"]]
    assert sum(one.count for one in logs["m"]) == sender.sent
    assert all(report.equal for report in reports)
    assert [report.state.progressive.examples for report in reports] == [sender.sent] * 3
    learners = [report.state.learner.freeze() for report in reports]
    for other in learners[1:]:  # c has learnt what came before it followed too
        assert all(learners[0][name].tobytes() == array.tobytes() for name, array in other.items())


def backfill(running: Running, sender: Sender) -> None:
    """Have model c learn the log of its leader and follow it; ask again whenever the service was killed."""
    while True:
        sender.send(20)
        try:
            answer = httpx.put(f"{running.url}/models/c", json={**FASTER, "backfill": True}, timeout=60)
        except httpx.TransportError:
            sender.restart()
            continue
        if answer.status_code in (200, 201):
            return
        assert answer.status_code in (202, 503), answer.text
