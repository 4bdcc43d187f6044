"""SIGKILL while a model replays and is served: nothing acknowledged is lost or counted twice, nothing is skipped.

Each start serves the checkpoint at once, accepts events, and is killed before it has learnt the rest of the log.
"""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path

import httpx
import pytest

from tests.chaos.repeats import slow
from tests.chaos.replaying import replayed
from tests.chaos.test_kill import ENVIRONMENT, ROWS, request_body
from tests.chaos.test_kill import logged_ids as ids_in
from tests.running import HANG_S, Running

DOCUMENT = {"encoder": {"bits": 18}, "checkpoint_every_s": 3600, "publish_every_ms": 20}
SAVED, LEFT = 5, 60  # requests before the checkpoint, and after it: two seconds of learning at each start
SENT = 3  # while it replays
LINES = {"Content-Type": "application/x-ndjson"}


class Sender:
    """Sends requests one after the other; each has rows of its own."""

    def __init__(self, running: Running) -> None:
        self.running, self.sent, self.acknowledged = running, 0, 0

    def send(self) -> None:
        """Send a request until it is acknowledged, whether what is logged is learnt yet or not."""
        body = request_body(self.sent, 3)
        self.sent += 1
        deadline = time.monotonic() + HANG_S
        while True:
            answer = httpx.post(f"{self.running.url}/models/m/observe", content=body, headers=LINES, timeout=HANG_S)
            if answer.status_code != 503 or time.monotonic() > deadline:  # the start is not complete yet
                break
            time.sleep(0.01)
        assert (answer.status_code, answer.json()["accepted"]) == (202, ROWS), answer.text
        self.acknowledged += ROWS


def await_serving(running: Running) -> int | None:
    """Wait until the model is served. Returns the event that it is served from, if it replays."""
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.get(f"{running.url}/models/m/predict?c1=1", timeout=HANG_S)
            if answer.status_code == 200:
                told = answer.json()["model"]
                return int(told["seq"]) if told.get("replaying") else None
        assert running.process.poll() is None, running.output()
        time.sleep(0.01)
    raise AssertionError(running.output())


@pytest.mark.parametrize("kills", [4, slow(40)])
def test_kills_while_a_model_replays_lose_and_skip_nothing(tmp_path: Path, kills: int) -> None:
    rng, caught, served = random.Random(7), 0, 0
    with Running(tmp_path / "data", ENVIRONMENT, module="tests.chaos.slowly") as running:
        running.start()
        httpx.put(f"{running.url}/models/m", json=DOCUMENT, timeout=HANG_S).raise_for_status()
        sender = Sender(running)
        for _ in range(SAVED):
            sender.send()
        saved = httpx.post(f"{running.url}/models/m/snapshots", timeout=HANG_S).json()["seq"]
        for _ in range(LEFT):
            sender.send()
        for _ in range(kills):
            running.kill()
            running.start(wait=False)
            at = await_serving(running)
            assert at is None or at >= max(saved, 1)
            for _ in range(rng.randint(0, SENT)):
                sender.send()
            time.sleep(rng.uniform(0.0, 0.5))
            replaying = httpx.get(f"{running.url}/readyz", timeout=HANG_S).json()["replaying"]
            caught += "m" in [one["model"] for one in replaying]
            served += at is not None
        running.kill()
    assert caught > 0
    assert served > 0
    with Running(tmp_path / "data", ENVIRONMENT) as running:
        running.start()
        model = httpx.get(f"{running.url}/models/m", timeout=HANG_S).json()
        assert (model["examples"], model["skipped"]) == (sender.acknowledged, 0)
        assert running.stop() == 0
    ids = ids_in(tmp_path / "data")
    assert len(ids) == len(set(ids)) == sender.acknowledged
    replayed(tmp_path / "data")
