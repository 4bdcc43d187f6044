"""SIGKILL while limits of columns are sought, before and after the first are found: restarts change no bit."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.repeats import slow
from tests.chaos.test_kill import ENVIRONMENT
from tests.running import HANG_S, Running

ROWS = 40  # of a request: limits are sought in the requests 3, 6, 12 and 25
SAVED = 2  # the request after which the first rows are in a checkpoint
KILLED = (
    1,
    2,
    3,
    3,
    6,
    12,
)  # requests after which the process is killed, while it may still learn their rows; the last one twice
REQUESTS = 14
DOCUMENT: dict[str, Any] = {"encoder": {"bits": 18}, "checkpoint_every_s": 3600, "publish_every_ms": 20}
MODELS: dict[str, dict[str, Any]] = {
    "shapes": {},
    "ftrl": {"learner": {"kind": "ftrl_proximal"}},
    "classes": {"learner": {"kind": "ftrl_proximal"}, "labels": "classes"},
    "classes with shapes": {"labels": "classes"},
}
LINES = {"Content-Type": "application/x-ndjson"}


def body(number: int) -> str:
    """The events of request `number`: two numbers, of which one is 999 in every tenth row."""
    rng = random.Random(number)
    rows = []
    for i in range(ROWS):
        age, size = round(rng.gauss(40.0, 10.0), 2), round(rng.gauss(0.0, 1.0), 2)
        features = {"age": 999 if i % 10 == 0 else age, "size": size}
        rows.append(json.dumps({"features": features, "label": int(age + 10.0 * size > 40.0), "event_id": f"{number}-{i}"}))
    return "\n".join(rows)


def learnt(directory: Path, model: dict[str, Any], killed: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
    """Learn all requests; returns the digest of the state at the end, and what is exported."""
    with Running(directory, ENVIRONMENT) as running:
        running.start()
        httpx.put(f"{running.url}/models/m", json={**DOCUMENT, **model}, timeout=HANG_S).raise_for_status()
        for number in range(REQUESTS):
            sent = httpx.post(f"{running.url}/models/m/observe", content=body(number), headers=LINES, timeout=HANG_S)
            assert (sent.status_code, sent.json()["accepted"]) == (202, ROWS), sent.text
            for _ in range(killed.count(number)):
                running.kill()
                running.start()
            if number == SAVED:
                httpx.post(f"{running.url}/models/m/snapshots", timeout=HANG_S).raise_for_status()
        saved = httpx.post(f"{running.url}/models/m/snapshots", timeout=HANG_S).raise_for_status()
        export = httpx.get(f"{running.url}/models/m/export?format=json", timeout=HANG_S).raise_for_status()
        assert running.stop() == 0, running.output()
    return str(saved.json()["state_digest"]), export.json()


@pytest.mark.parametrize("name", ["classes with shapes", "ftrl", slow("shapes"), slow("classes")])
def test_kills_while_limits_are_sought_change_no_bit(name: str, tmp_path: Path) -> None:
    digest, export = learnt(tmp_path / "killed", MODELS[name], KILLED)
    undisturbed, whole = learnt(tmp_path / "undisturbed", MODELS[name], ())
    assert digest == undisturbed
    assert (export["apart"], export["limits"]) == (whole["apart"], whole["limits"])
    assert [one["value"] for one in export["apart"]] == [999.0]
    assert len(export["limits"]) == 2
