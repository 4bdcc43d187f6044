"""Faults inside the process that do not kill it: an update that raises midway, and memory that runs out.

Nothing half learnt is ever served or saved, and what was acknowledged is there, once.
"""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import httpx
import psutil
import pytest

from riata.run.state.recovery import DEATHS_MAX
from tests.chaos.poisoned import POISON
from tests.chaos.raising import RAISES
from tests.chaos.replaying import replayed
from tests.chaos.test_kill import logged_ids
from tests.running import Running

NO_RESERVE = {"RIATA_DISK_RESERVE_BYTES": "0"}
ROWS, POISONED = 30, 17
WAIT_S = 900.0
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", pytest.param("arithmetic", marks=pytest.mark.slow)])
def test_an_update_that_raises_midway_is_never_served_and_is_left_out_alone(tmp_path: Path, kind: str) -> None:
    environment = {**NO_RESERVE, RAISES: kind}
    with Running(tmp_path / "data", environment, module="tests.chaos.raising") as running:
        running.start()
        good = [{"features": {"a": i + 1.0}, "label": i % 2} for i in range(ROWS)]
        assert httpx.post(f"{running.url}/observe?wait=applied", json=good, timeout=WAIT_S).status_code == 200
        before = httpx.get(f"{running.url}/predict?a=3", timeout=WAIT_S).json()
        bad = [{"features": {"a": POISON if i == POISONED else 9.0}, "label": 1} for i in range(ROWS)]
        assert httpx.post(f"{running.url}/observe", json=bad, timeout=WAIT_S).json()["accepted"] == ROWS  # it is in the log
        deadline = time.monotonic() + WAIT_S
        while httpx.get(f"{running.url}/livez", timeout=WAIT_S).status_code == 200:
            assert time.monotonic() < deadline, "nothing reports that learning has ended"
            time.sleep(0.02)
        after = httpx.get(f"{running.url}/predict?a=3", timeout=WAIT_S).json()
        assert (after["margin"], after["model"]["seq"]) == (before["margin"], before["model"]["seq"])
        refused = httpx.post(f"{running.url}/observe", json=good[:1], timeout=WAIT_S)
        assert (refused.status_code, refused.json()["outcome"]) == (503, "not_accepted")
        running.kill()
        starts = 1
        while not running.lives():  # it serves what it has learnt, until it comes to the event; then its liveness probe fails
            starts += 1
            if running.process.poll() is None:
                running.kill()
            assert starts <= DEATHS_MAX + 3
        model = httpx.get(f"{running.url}/models/default", timeout=WAIT_S).json()
        assert (model["examples"], model["skipped"]) == (2 * ROWS - 1, 1)
        assert httpx.post(f"{running.url}/models/default/snapshots", timeout=WAIT_S).status_code == 201
        assert running.stop() == 0
    assert replayed(tmp_path / "data", "default").state.skipped == 1


def test_a_body_for_which_there_is_no_memory_fails_alone(tmp_path: Path) -> None:
    with Running(tmp_path / "data", NO_RESERVE) as running:
        running.start()
        httpx.put(f"{running.url}/models/m", json={"encoder": {"bits": 12}}, timeout=WAIT_S).raise_for_status()
        row = {"features": {f"n{i}": 1.5 for i in range(75)}, "label": 1}
        small = json.dumps({**row, "event_id": "small"}).encode()
        assert httpx.post(f"{running.url}/models/m/observe", content=small, headers=LINES, timeout=WAIT_S).status_code == 202
        large = b"\n".join(json.dumps({**row, "event_id": f"large-{i}"}).encode() for i in range(9000))
        process = psutil.Process(running.process.pid)
        unlimited = resource.prlimit(process.pid, resource.RLIMIT_AS)
        resource.prlimit(process.pid, resource.RLIMIT_AS, (process.memory_info().vms + 8 * 2**20, unlimited[1]))
        outcomes = [post(running, large) for _ in range(3)]
        if running.process.poll() is None:
            resource.prlimit(process.pid, resource.RLIMIT_AS, unlimited)
        assert 202 not in outcomes, "the limit is too wide to show anything"
        if running.process.poll() is not None:
            running.start()
        assert post(running, small) == 202  # a duplicate now
        assert post(running, large) == 202
        assert httpx.post(f"{running.url}/models/m/snapshots", timeout=WAIT_S).status_code == 201
        assert httpx.get(f"{running.url}/models/m", timeout=WAIT_S).json()["examples"] == 9001
        assert running.stop() == 0, running.output()
    assert len(set(logged_ids(tmp_path / "data"))) == len(logged_ids(tmp_path / "data")) == 9001
    assert replayed(tmp_path / "data").state.skipped == 0


def post(running: Running, body: bytes) -> int:
    """Status of an answer; 0 if there is none."""
    try:
        answer = httpx.post(f"{running.url}/models/m/observe", content=body, headers=LINES, timeout=WAIT_S)
    except httpx.TransportError:
        return 0
    if answer.status_code != 202:
        assert answer.json()["outcome"] in ("not_accepted", "unknown")
    return answer.status_code
