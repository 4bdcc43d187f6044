"""Roles as separate processes on a real Redis: two web processes, two writers, a replica."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.run.state.replay import replay
from riata.store.redis.store import open_redis
from tests.redis_server import RedisServer, redis_version
from tests.run.node import events
from tests.running import HANG_S, Running
from tests.settings import redis_settings
from tests.trees.hand_made import DOWN, FLAT, UP, text_of, two_splits

pytestmark = pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")

WAIT_S = 900.0
NDJSON = {"Content-Type": "application/x-ndjson"}
DOCUMENT = {"encoder": {"bits": 12}, "publish_every_ms": 20}


class Fleet:
    """A Redis and the processes of one service on it."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.redis = stack.enter_context(RedisServer(directory / "redis"))
        self._stack = stack

    def add(self, name: str, role: str, wait: bool = True, **environment: str) -> Running:
        """Start a process."""
        running = Running.of_role(self.directory / name, role, self.redis.url, environment)
        self._stack.enter_context(running).start(wait)
        return running


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


def until(what: Callable[[], object], wait_s: float = WAIT_S) -> None:
    """Wait until `what` is true; a refused connection counts as false."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            if what():
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def body(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def observe(running: Running, rows: list[dict[str, Any]], model: str = "m", wait: bool = False) -> httpx.Response:
    """Send one request once."""
    url = f"{running.url}/models/{model}/observe{'?wait=applied' if wait else ''}"
    return httpx.post(url, content=body(rows), headers=NDJSON, timeout=300)


def patiently(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Send until the answer is not 503: the store may not answer in time on a busy machine."""
    answers: list[httpx.Response] = []

    def answered() -> bool:
        answers.append(ask())
        return answers[-1].status_code != 503

    until(answered)
    return answers[-1]


def observe_until_taken(running: Running, rows: list[dict[str, Any]], model: str = "m") -> int:
    """Send until acknowledged; returns the number of the last event."""
    answer = patiently(lambda: observe(running, rows, model))
    assert answer.status_code == 202, answer.text
    return int(answer.json()["seq"])


def predict(running: Running, query: str = "colour=red&size=3", model: str = "m", **options: object) -> httpx.Response:
    more = "".join(f"&_{name}={value}" for name, value in options.items())
    return httpx.get(f"{running.url}/models/{model}/predict?{query}{more}", timeout=300)


def predict_until_served(running: Running, seq: int) -> dict[str, Any]:
    """Request until the answer includes event `seq`. A follower that lags answers with an error after a while, and is asked
    again.
    """
    answers: list[httpx.Response] = []

    def served() -> bool:
        answers.append(predict(running, min_seq=seq))
        assert answers[-1].status_code == 200 or answers[-1].json()["code"] == "not_yet", answers[-1].text
        return answers[-1].status_code == 200

    until(served)
    found: dict[str, Any] = answers[-1].json()
    return found


def ready(running: Running) -> httpx.Response:
    return httpx.get(f"{running.url}/readyz", timeout=10)


def metric(running: Running, name: str) -> float:
    """The value of one series; 0 if it does not exist."""
    for line in httpx.get(f"{running.url}/metrics", timeout=10).text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def make_model(running: Running, document: dict[str, Any] = DOCUMENT) -> None:
    answer = patiently(lambda: httpx.put(f"{running.url}/models/m", json=document, timeout=300))
    assert answer.status_code in (200, 201), answer.text


def replayed_margin_source(fleet: Fleet) -> tuple[bytes, str]:
    """Weights and digest of m from an offline replay."""
    with closing(open_redis(fleet.redis.url, redis_settings())) as store:
        report = replay(store, "m")
    return report.state.learner.weights().beta.tobytes(), report.digest


def curves_answer_everywhere(fleet: tuple[Running, ...]) -> None:
    """Create a model of curves at the first process, learn at the second, and compare what every process answers and explains."""
    document = {**DOCUMENT, "encoder": {"bits": 12, "curves": {"ecg": text_of(two_splits())}}}
    made = patiently(lambda: httpx.put(f"{fleet[0].url}/models/curves", json=document, timeout=300))
    assert made.status_code == 201, made.text
    until(lambda: httpx.get(f"{fleet[1].url}/models/curves", timeout=300).status_code == 200)
    rows = [{"features": {"ecg": curve}, "label": int(curve is DOWN)} for curve in (UP, DOWN, FLAT) * 20]
    seq = patiently(lambda: observe(fleet[1], rows, "curves", wait=True)).json()["seq"]
    answers = []
    for running in fleet:
        url = f"{running.url}/models/curves/predict?_min_seq={seq}&_explain=true&ecg=3&ecg=2&ecg=1&ecg=0"
        until(lambda url=url: httpx.get(url, timeout=300).status_code == 200)  # type: ignore[misc]
        answers.append(httpx.get(url, timeout=300).json())
    assert len({answer["margin"] for answer in answers}) == 1
    assert answers[0]["margin"] > 0.0
    assert [[one["feature"] for one in answer["contributions"]] for answer in answers] == [["ecg#3"]] * len(fleet)


def shapes_are_the_same_everywhere(fleet: tuple[Running, ...]) -> None:
    """Create a model at the first process, learn numeric columns at the second, and compare the shapes that every process has."""
    made = patiently(lambda: httpx.put(f"{fleet[0].url}/models/shapes", json={}, timeout=300))
    assert made.status_code == 201, made.text
    until(lambda: httpx.get(f"{fleet[1].url}/models/shapes", timeout=300).status_code == 200)
    rows = [{"features": {"x": i % 50 + 0.5, "y": i % 7 + 0.5}, "label": int(20 < i % 50 < 30)} for i in range(300)]
    seq = patiently(lambda: observe(fleet[1], rows, "shapes", wait=True)).json()["seq"]
    found = []
    for running in fleet:
        url = f"{running.url}/models/shapes"
        until(lambda url=url: httpx.get(f"{url}/predict?_min_seq={seq}&x=1", timeout=300).status_code == 200)  # type: ignore[misc]
        until(lambda url=url: all(one["feature"] for one in httpx.get(f"{url}/shapes", timeout=300).json()["columns"]))  # type: ignore[misc]
        found.append(httpx.get(f"{url}/shapes", timeout=300).json() | {"model": ""})
    assert [one["feature"] for one in found[0]["columns"]] == ["x", "y"]
    assert found == [found[0]] * len(fleet)


def test_a_fleet_learns_events_accepted_by_any_web_and_survives_its_writer_and_its_redis(fleet: Fleet) -> None:
    first, a, b = fleet.add("w1", "writer", wait=False), fleet.add("a", "web", wait=False), fleet.add("b", "web", wait=False)
    replica = fleet.add("r", "replica", wait=False)
    for running in (first, a, b, replica):
        running.wait_until_ready()
    second = fleet.add("w2", "writer", wait=False)
    until(lambda: ready(second).status_code == 503 and "standing by; " in ready(second).json()["detail"])
    make_model(a)
    until(lambda: predict(b).status_code == 200)

    # Events through both, read at the other at once; the same rows again change nothing.
    rows = events(300, first_id=0)
    for start in range(0, 300, 50):
        to, other = (a, b) if start % 100 else (b, a)
        seq = observe_until_taken(to, rows[start : start + 50])
        assert predict_until_served(other, seq)["model"]["seq"] >= seq
    assert patiently(lambda: observe(b, rows[:50])).json()["duplicate"] == 50
    answers = [predict_until_served(running, 301) for running in (first, a, b, replica)]
    assert len({answer["margin"] for answer in answers}) == 1
    assert answers[0]["model"]["stale_s"] == 0.0
    curves_answer_everywhere((a, b, first, replica))
    shapes_are_the_same_everywhere((a, b, first, replica))

    # The writer dies; the other takes over; what it serves is what a replay of the log gives.
    first.kill()
    seq = observe_until_taken(a, events(100, seed=1, first_id=1000))
    until(lambda: ready(second).status_code == 200)
    until(lambda: predict(b, min_seq=seq).status_code == 200)
    saved = patiently(lambda: httpx.post(f"{second.url}/models/m/snapshots", timeout=300))
    assert saved.json()["state_digest"] == replayed_margin_source(fleet)[1]
    assert metric(second, "riata_elections_total") == 1
    assert metric(second, "riata_epoch") == 2
    refused = httpx.post(f"{a.url}/models/m/snapshots", timeout=300)
    assert (refused.status_code, refused.json()["code"]) == (409, "other_role")

    # The Redis dies: every process predicts, none accepts, none restarts; a replica even starts.
    until(lambda: predict(replica, min_seq=seq).status_code == 200)
    expected = predict(replica).json()["margin"]
    until(lambda: (fleet.directory / "r" / "copies" / "m.edition").exists())
    assert replica.stop() == 0  # what it follows is on its disk now
    fleet.redis.kill()
    for running in (a, b):
        refused = observe(running, events(1))
        assert (refused.status_code, refused.json()["outcome"]) in ((503, "not_accepted"), (503, "unknown")), refused.text
        assert int(refused.headers["Retry-After"]) >= 1
        assert httpx.get(f"{running.url}/livez", timeout=300).status_code == 200
        assert predict(running).json()["margin"] == expected
    until(lambda: observe(a, events(1)).json()["code"] == "store_unreachable")
    replica.start()
    assert predict(replica).json()["margin"] == expected
    assert predict(replica).json()["model"]["stale_s"] > 0.0
    until(lambda: ready(replica).json()["warnings"])
    fleet.redis.start()
    seq = observe_until_taken(a, events(50, seed=2, first_id=5000))
    for running in (second, a, b, replica):
        until(lambda running=running: predict(running, min_seq=seq).status_code == 200)  # type: ignore[misc]
    for running in (second, a, b, replica):
        assert running.stop() == 0, running.output()


def test_a_writer_that_was_paused_past_its_lease_continues_unless_another_took_it(fleet: Fleet) -> None:
    writer, web = fleet.add("w1", "writer", wait=False), fleet.add("a", "web", wait=False)
    writer.wait_until_ready()
    web.wait_until_ready()
    make_model(web)
    writer.pause()
    with closing(open_redis(fleet.redis.url, redis_settings())) as store:
        until(lambda: store.holder() is None)
    writer.resume()
    seq = observe_until_taken(web, events(50, first_id=1000))
    until(lambda: predict(web, min_seq=seq).status_code == 200)
    assert writer.process.poll() is None


def test_a_role_begins_before_its_redis_does(fleet: Fleet) -> None:
    fleet.redis.stop()
    one = fleet.add("one", "all", wait=False)
    until(lambda: ready(one).status_code == 503)
    assert httpx.get(f"{one.url}/livez", timeout=300).status_code == 200
    fleet.redis.start()
    one.wait_until_ready()
    until(lambda: observe(one, events(5), "default").status_code == 202)
    assert one.stop() == 0, one.output()


def test_a_role_needs_a_store_that_is_shared(tmp_path: Path) -> None:
    running = Running.of_role(tmp_path / "d", "web", "sqlite:")
    with running:
        running.start(wait=False)
        assert running.wait(HANG_S) == 2
        assert "needs a store that several processes share" in running.output()
