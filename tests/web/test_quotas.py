"""Quotas of keys: what is refused, and what survives a restart, a new day and other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from riata.base.clock import SystemClock
from riata.base.errors import Busy, Unavailable
from riata.base.settings import Settings
from riata.run.admin import Admin
from riata.run.service import Service
from riata.web.app import create_app
from riata.web.auth.gate import Buckets, Gate, KeysFile
from riata.web.auth.keys import Key, KeyEntry, digest_of, entry_text, new_token, parse_keys, ring_of
from riata.web.auth.quotas import DAY_MS, FILE, FileLedger, Ledger, Quotas, StoreLedger
from riata.web.metrics.collectors import FrontCollector
from riata.web.server.bounds import ListenerState
from riata.web.server.server import build_server
from riata.wiring import build_engine
from tests.doubles.manual_clock import ManualClock
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.settings import connection_bounds, web_settings
from tests.web.serving import serving

ROW = {"features": {"a": 1.0}, "label": 1}
TOKENS = {name: new_token(name) for name in ("rows", "bytes", "models", "free", "limited")}
ENTRIES = [
    KeyEntry("rows", digest_of(TOKENS["rows"]), ["observe", "predict"], "*", events_a_day=3),
    KeyEntry("bytes", digest_of(TOKENS["bytes"]), ["observe", "predict"], "*", bytes_a_day=100),
    KeyEntry("models", digest_of(TOKENS["models"]), ["admin"], "*", models_max=3),
    KeyEntry("free", digest_of(TOKENS["free"]), ["observe", "admin", "watch"], "*"),
    KeyEntry("limited", digest_of(TOKENS["limited"]), ["watch"], ["default"], events_a_day=9),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("usage")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    engine = build_engine(Settings(store="memory:", refit_nice=0), lambda reason: pytest.fail(reason))
    file = KeysFile(Path("/nowhere"), ring_of(ENTRIES))
    gate = Gate(SystemClock(), file, Buckets(0.0, 0.0))
    gate.quotas.ledger = FileLedger(folder)
    app = create_app(Service(engine), Admin(engine), web_settings(), engine.clock, gate=gate)
    app.state.meters.registry.register(
        FrontCollector(build_server(app, "127.0.0.1", 0, 1, ListenerState(connection_bounds())), gate)
    )
    with serving(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as asking:
        while asking.get("/readyz").status_code != 200:
            pass
        yield asking


def auth(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[name]}"}


def test_events_of_a_day(client: httpx.Client) -> None:
    for body in ([ROW], [ROW, ROW, {**ROW, "label": 7}], [ROW]):  # of the second request two rows are accepted
        last = client.post("/observe", json=body, headers=auth("rows"))
    assert (last.status_code, last.json()["code"]) == (429, "quota_used_up")
    assert "its 3 events of today (events_a_day)" in last.json()["detail"]
    assert 0 < int(last.headers["retry-after"]) <= DAY_MS // 1000
    assert client.post("/predict", json=[{"features": {"a": 1.0}}], headers=auth("rows")).status_code == 200
    assert client.post("/observe", json=[ROW], headers=auth("free")).status_code == 202
    own = client.get("/whoami", headers=auth("rows")).json()["quotas"]
    assert (own["events_a_day"], own["events_today"]) == (3, 3)
    assert own["bytes_today"] > 100
    free = client.get("/whoami", headers=auth("free")).json()["quotas"]
    assert set(free.values()) == {None}


def test_bytes_of_a_day(client: httpx.Client) -> None:
    codes = [client.post("/predict", json=[{"features": {"abcdefgh": 1.0}}], headers=auth("bytes")).status_code for _ in range(5)]
    assert codes == [200, 200, 200, 200, 429]  # 31 bytes each: the fourth goes beyond
    refused = client.post("/observe", content=b"x", headers=auth("bytes"))
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_used_up")
    assert client.get("/predict?a=1", headers=auth("bytes")).status_code == 200  # a GET has no body


def test_models_that_a_key_may_create(client: httpx.Client) -> None:
    codes = [
        client.put(f"/models/{name}", json={}, headers=auth("models")).status_code for name in ("a", "b", "b", "c", "default")
    ]
    assert codes == [201, 201, 200, 403, 200]
    refused = client.put("/models/c", json={}, headers=auth("models")).json()
    assert refused["code"] == "models_quota"
    assert "models_max" in refused["detail"]
    exported = client.get("/models/a/export", headers=auth("free")).content
    how = {**auth("models"), "Content-Type": "application/octet-stream"}
    assert client.post("/models/c/import", content=exported, headers=how).status_code == 403
    assert client.delete("/models/b?confirm=b", headers=auth("models")).status_code in (200, 204)
    assert client.post("/models/c/import", content=exported, headers=how).status_code == 200


def test_metrics_show_each_key_to_those_who_may_see_it(client: httpx.Client) -> None:
    every = client.get("/metrics", headers=auth("free")).text
    assert 'riata_key_quota_used_ratio{key="rows",quota="events_a_day"} 1.0' in every
    own = client.get("/metrics", headers=auth("limited")).text
    assert 'key="limited"' in own
    assert 'key="rows"' not in own


def quotas(clock: ManualClock, ledger: Ledger | None) -> Quotas:
    return Quotas(clock, ledger)


def key(name: str = "k") -> Key:
    return Key(name, b"", frozenset(), None, None, None, events_a_day=10, bytes_a_day=1000)


def test_what_was_used_survives_a_restart_and_not_the_day(tmp_path: Path) -> None:
    clock = ManualClock()
    for _ in range(2):
        one = Quotas(clock, FileLedger(tmp_path))
        asyncio.run(one.share())
        one.add(key(), events=4, size=100)
        asyncio.run(one.share())
    again = Quotas(clock, FileLedger(tmp_path))
    asyncio.run(again.share())
    assert again.used(key()) == (8, 200)
    again.add(key(), events=2)
    with pytest.raises(Busy, match="10 events"):
        again.check(key(), takes_rows=True)
    again.check(key(), takes_rows=False)
    clock.now_ms += DAY_MS
    again.check(key(), takes_rows=True)
    again.add(key(), events=1)
    asyncio.run(again.share())
    assert again.used(key()) == (1, 0)
    (tmp_path / FILE).write_bytes(b"{")
    asyncio.run((damaged := Quotas(clock, FileLedger(tmp_path))).share())
    assert damaged.used(key()) == (0, 0)


def test_processes_on_one_store_know_of_each_other() -> None:
    clock, store = ManualClock(), SharedMemoryStore()

    def ledger(source: str) -> StoreLedger:
        async def call(work: object) -> object:
            return work(store)  # type: ignore[operator]

        return StoreLedger(call, source)

    one, other = Quotas(clock, ledger("1")), Quotas(clock, ledger("2"))
    for of, events in ((one, 6), (other, 3), (one, 2)):
        of.add(key(), events=events)
        asyncio.run(of.share())
    assert other.used(key()) == (9, 0)  # as of its last exchange
    asyncio.run(other.share())
    assert one.used(key()) == other.used(key()) == (11, 0)
    with pytest.raises(Busy):
        other.check(key(), takes_rows=True)


def test_a_store_that_does_not_answer_loses_no_count() -> None:
    class Failing:
        is_shared, fails = True, True

        async def exchange(self, day: int, used: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
            if self.fails:
                raise Unavailable("down")
            self.got = (day, dict(used))
            return {}

    ledger = Failing()
    one = Quotas(ManualClock(), ledger)  # type: ignore[arg-type]
    one.add(key(), events=5)
    asyncio.run(one.share())
    ledger.fails = False
    asyncio.run(one.share())
    assert ledger.got[1] == {"k": (5, 0)}


def test_the_file_of_keys_holds_quotas() -> None:
    entry = KeyEntry("k", "0" * 64, ["admin"], "*", models_max=2, events_a_day=10**9, bytes_a_day=5)
    assert parse_keys(entry_text(entry).encode(), "here") == [entry]
