"""SIGKILL while a model learns its log again to forget a subject."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from pathlib import Path
from typing import Final

import httpx
import pytest

from riata.client import ApiError, Riata
from riata.run.state.replay import replay
from riata.store.redis.store import open_redis
from riata.store.sqlite.store import read_sqlite
from tests.redis_server import RedisServer, redis_version
from tests.run.test_forgetting import never, of, rows
from tests.running import Running
from tests.settings import redis_settings

ROWS: Final = 100  # of a request, of which a fifth are of each of two subjects
REQUESTS: Final = 4
FORGETTING_S: Final = 0.3  # the kill comes within this time of the request
NDJSON: Final = {"Content-Type": "application/x-ndjson"}


def test_a_kill_while_a_subject_is_forgotten_leaves_all_of_its_rows_or_none(tmp_path: Path) -> None:
    rng, sent = random.Random(3), ROWS * REQUESTS
    with Running(tmp_path / "data", {"RIATA_DISK_RESERVE_BYTES": "0"}) as running:
        running.start()
        for seed in range(REQUESTS):
            body = "".join(json.dumps(row) + "\n" for row in rows(ROWS, seed))
            httpx.post(f"{running.url}/observe?wait=applied", content=body, headers=NDJSON, timeout=300).raise_for_status()
        threading.Timer(rng.uniform(0.0, FORGETTING_S), running.process.kill).start()
        with contextlib.suppress(httpx.TransportError):
            httpx.post(f"{running.url}/models/default/forget", json={"subject": "ann"}, timeout=300)
        running.process.wait()
        is_noted = any((tmp_path / "data").glob("jobs/*.json"))
        running.start()
        with Riata(running.url) as riata:
            while any(one["state"] == "running" for one in httpx.get(f"{running.url}/models/default/forget").json()["forget"]):
                time.sleep(0.05)
            held = riata.metrics()["cumulative"]["examples"]
            assert held in ((sent - sent // 5,) if is_noted else (sent, sent - sent // 5))
            answer = riata.forget("ann")
            assert answer["rows"] == held - (sent - sent // 5)
            assert riata.forget(["bob", "ann"])["rows"] == sent // 5
            assert riata.metrics()["cumulative"]["examples"] == sent - 2 * sent // 5
        assert running.stop() == 0, running.output()
    with contextlib.closing(read_sqlite(tmp_path / "data")) as store:
        report, end = replay(store, "default"), store.head("default").seq
        twin = never(store, of(store, "ann", "bob", model="default"), end, "default")
    assert report.equal
    assert len(report.compared) > 1
    assert report.digest == replay(twin, "default").digest


@pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")
def test_on_a_shared_store_the_writer_forgets_and_the_web_processes_serve_the_result(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "redis") as redis,
        Running.of_role(tmp_path / "writer", "writer", redis.url) as writer,
        Running.of_role(tmp_path / "web", "web", redis.url) as web,
    ):
        writer.start()
        web.start()
        with Riata(web.url) as riata, Riata(writer.url) as learning:
            riata.observe(rows(ROWS, 1), wait_applied=True)
            with pytest.raises(ApiError) as refused:
                riata.forget("ann")
            assert (refused.value.status, refused.value.code) == (409, "other_role")
            answer = learning.forget("ann")
            assert (answer["rows"], answer["of"]) == (ROWS // 5, ROWS)
            riata.predict([{"features": {"size": 1}}], min_seq=answer["seq"])
            assert riata.metrics()["cumulative"]["examples"] == ROWS - ROWS // 5
        with contextlib.closing(open_redis(redis.url, redis_settings())) as store:
            report = replay(store, "default")
            assert report.equal
            assert [one.applied for one in store.generations("default")] == [answer["seq"]] * 3
