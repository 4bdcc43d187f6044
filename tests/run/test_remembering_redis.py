"""Delayed labels with several processes on a real Redis, some of which are killed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from riata.run.state.replay import replay
from riata.store.payload import decode_batch
from riata.store.redis.store import open_redis
from tests.redis_server import RedisServer, redis_version
from tests.run.test_roles_redis import Fleet, make_model, patiently, until
from tests.running import Running
from tests.settings import redis_settings

pytestmark = pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")

EXIT_LOST = 75
ROWS = [{"features": {"colour": colour, "size": i}} for i, colour in enumerate(["red", "green", "blue"] * 4)]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


def predicted(running: Running) -> list[str]:
    answers = patiently(lambda: httpx.post(f"{running.url}/models/m/predict?remember=true", json=ROWS, timeout=300))
    assert answers.status_code == 200, answers.text
    return [answer["prediction_id"] for answer in answers.json()]


def label(running: Running, ids: list[str], label: int = 1) -> httpx.Response:
    rows = [{"prediction_id": one, "label": label} for one in ids]
    return httpx.post(f"{running.url}/models/m/observe", json=rows, timeout=300)


def examples(running: Running) -> int:
    found: int = httpx.get(f"{running.url}/models/m", timeout=300).json().get("examples", -1)  # a refusal has none
    return found


def logged_labels(server: RedisServer) -> list[float]:
    """The labels in the log. A replay of the log must give the saved model."""
    with closing(open_redis(server.url, redis_settings())) as store:
        assert replay(store, "m").equal
        payloads = [record.payload for record in store.read("m", 0, 2**30) if record.kind == "observe"]
        return [label for payload in payloads for label in decode_batch(payload).label.tolist()]


def test_a_label_outlives_the_process_that_predicted_and_the_redis_it_is_kept_in(fleet: Fleet) -> None:
    writer = fleet.add("writer", "writer", RIATA_LEASE_TTL_MS="600000")  # no other may lead, however busy the machine
    one, other = fleet.add("one", "web"), fleet.add("other", "web")
    make_model(one)
    until(lambda: httpx.get(f"{other.url}/models/m", timeout=5).status_code == 200)
    ids = predicted(one)
    one.kill()
    with ThreadPoolExecutor(8) as pool:
        reported = [answer.json() for answer in pool.map(lambda _: patiently(lambda: label(other, ids[:6])), range(8))]
    assert (sum(t["accepted"] for t in reported), sum(t["duplicate"] for t in reported)) == (6, 42)
    fleet.redis.kill()
    assert label(other, ids[6:]).status_code == 503
    fleet.redis.start()
    until(lambda: label(other, ids[6:]).status_code == 202)
    again = patiently(lambda: label(other, ids)).json()
    assert (again["accepted"], again["duplicate"]) == (0, 12)
    assert patiently(lambda: label(other, ids, 0)).json()["errors"][0]["code"] == "label_conflict"

    def learnt() -> bool:
        """Restart the writer, as its supervisor does after its lease expired while Redis was away."""
        if writer.process.poll() is not None:
            assert writer.process.returncode == EXIT_LOST
            writer.start(wait=False)
        return examples(other) == 12

    until(learnt)
    assert writer.stop() == 0
    assert logged_labels(fleet.redis) == [1.0] * 12


@pytest.mark.slow
def test_default_labels_are_given_once_though_the_writer_that_gives_them_is_killed(fleet: Fleet) -> None:
    first, web = fleet.add("first", "writer"), fleet.add("web", "web")
    make_model(web, {"encoder": {"bits": 12}, "label_ttl_s": 2, "default_label": 0})
    ids = predicted(web)
    assert label(web, ids[:3]).json()["accepted"] == 3
    first.kill()
    second = fleet.add("second", "writer", wait=False)
    until(lambda: examples(web) == 12)
    until(lambda: 'riata_remembered_rows{model="m"} 0.0' in httpx.get(f"{second.url}/metrics", timeout=5).text)
    assert label(web, ids[3:]).json()["errors"][0]["code"] == "prediction_late"
    assert second.stop() == 0
    assert logged_labels(fleet.redis) == [1.0] * 3 + [0.0] * 9
