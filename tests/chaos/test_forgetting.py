"""SIGKILL while a model learns its log again to forget a subject."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from pathlib import Path
from typing import Final

import httpx

from riata.client import Riata
from riata.run.replay import replay
from riata.store.sqlite.store import read_sqlite
from tests.run.test_forgetting import never, of, rows
from tests.running import Running

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
        running.start()
        with Riata(running.url) as riata:
            held = riata.metrics()["cumulative"]["examples"]
            assert held in (sent, sent - sent // 5)
            answer = riata.forget("ann")
            assert answer["rows"] == held - (sent - sent // 5)
            assert riata.forget(["bob", "ann"])["rows"] == sent // 5
            assert riata.metrics()["cumulative"]["examples"] == sent - 2 * sent // 5
        assert running.stop() == 0, running.output()
    store = read_sqlite(tmp_path / "data")
    try:
        report, end = replay(store, "default"), store.head("default").seq
        twin = never(store, of(store, "ann", "bob", model="default"), end, "default")
    finally:
        store.close()
    assert report.equal
    assert len(report.compared) > 1
    assert report.digest == replay(twin, "default").digest
