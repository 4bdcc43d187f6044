"""A real service with a model of which one row takes hours: others learn, it can be dropped, and the service can be stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from riata.run.state.config import Change, read_config
from riata.store.sqlite.store import open_sqlite
from riata.store.store import Append
from tests.running import HANG_S, Running
from tests.settings import sqlite_settings

ONE_EACH = httpx.Limits(max_keepalive_connections=0)  # a service that got no processor for long may close one that waits
STOP_S = 60.0  # the bench measures it; a step that is not given up takes hours
HOURS: dict[str, Any] = {
    "kind": "taylor_sketch", "mode": "exact", "block": 1, "warm_up": 0, "sweeps_max": 10**6, "tolerance": 1e-300,
    "shadow": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8],
}  # fmt: skip


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A service on a store that an older release left, which allowed such settings."""
    data = tmp_path / "data"
    data.mkdir()
    store = open_sqlite(data, sqlite_settings(dedupe_events=1000))
    store.create("slow", bytes(range(16)))
    store.append([Append("slow", "config", 0, payload=Change(read_config({"learner": HOURS})).payload())])
    store.close()
    with Running(data, {"RIATA_OBSERVE_TIMEOUT_MS": "1000"}) as process:
        process.start()
        yield process


def begin(client: httpx.Client) -> None:
    """Send the rows, and wait until the learner is busy with them."""
    rng = np.random.default_rng(3)
    rows = [{"features": {f"f{i}": float(rng.normal()) for i in range(400)}, "label": int(rng.random() < 0.5)} for _ in range(17)]
    body = "\n".join(map(json.dumps, rows)).encode()
    client.post("/models/slow/observe", content=body, headers={"content-type": "application/x-ndjson"}).raise_for_status()
    await_busy(client, True)


def await_busy(client: httpx.Client, busy: bool) -> None:
    deadline = time.monotonic() + HANG_S
    while (client.get("/readyz").json()["models"].get("slow", {"busy_s": 0.0})["busy_s"] > 1.0) != busy:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def learn(client: httpx.Client, model: str = "default") -> None:
    """Send an event and wait until it is served."""
    row = {"features": {"x": 1.0}, "label": 1}
    for _ in range(100):
        path = f"/models/{model}/observe?wait=applied"
        answer = client.post(path, json=row)
        assert answer.status_code == httpx.codes.OK, answer.text
        if answer.json()["seq"] <= client.get(f"/models/{model}").json()["served"]["seq"]:
            return
    raise AssertionError(f"{model} does not learn")


def test_others_learn_and_are_saved_while_one_step_takes_hours_and_requests_about_it_are_answered(running: Running) -> None:
    with httpx.Client(base_url=running.url, timeout=HANG_S, limits=ONE_EACH) as client:
        begin(client)
        learn(client)
        assert client.put("/models/other", json={}).status_code in (httpx.codes.CREATED, httpx.codes.OK)
        learn(client, "other")
        assert client.post("/models/other/snapshots").is_success
        status = client.get("/status").json()
        slow = next(one for one in status["models"] if one["name"] == "slow")
        assert slow["busy_s"] > 1.0
        assert slow["waiting_s"] >= slow["busy_s"]
        metrics = client.get("/metrics").text
        assert 'riata_learning_step_seconds{model="other"} 0.0' in metrics
        assert 'riata_learning_step_seconds{model="slow"} 0.0' not in metrics
        assert client.post("/models/slow/predict", json={"features": {"f1": 1.0}}).is_success
        asked = client.get("/models/slow/path")
        assert (asked.status_code, asked.json()["code"]) == (httpx.codes.SERVICE_UNAVAILABLE, "learner_busy")
        assert "busy with one step" in asked.json()["detail"]
        changed = client.patch("/models/slow", json={"publish_every_ms": 1000})
        assert (changed.status_code, changed.json()["code"]) == (httpx.codes.SERVICE_UNAVAILABLE, "not_yet")
        fresh = client.put("/models/slower", json={"learner": HOURS})
        assert (fresh.status_code, fresh.json()["code"]) == (httpx.codes.UNPROCESSABLE_ENTITY, "too_much")


def test_a_model_is_dropped_in_the_middle_of_its_step_and_its_name_is_free(running: Running) -> None:
    with httpx.Client(base_url=running.url, timeout=HANG_S, limits=ONE_EACH) as client:
        begin(client)
        assert client.delete("/models/slow?confirm=slow").is_success
        await_busy(client, False)
        assert client.put("/models/slow", json={}).is_success
        learn(client, "slow")


def test_a_stop_signal_ends_the_service_in_the_middle_of_a_step_and_saves_the_others(running: Running) -> None:
    with httpx.Client(base_url=running.url, timeout=HANG_S, limits=ONE_EACH) as client:
        begin(client)
        learn(client)
    begun = time.monotonic()
    assert running.stop() == 0
    assert time.monotonic() - begun < STOP_S
    with closing(open_sqlite(running.directory, sqlite_settings(dedupe_events=1000))) as store:
        assert store.generations("default")[0].applied == store.head("default").seq
        assert store.head("slow").seq == 18  # what is not learnt is in the log
