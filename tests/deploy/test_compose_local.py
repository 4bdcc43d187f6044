"""docker-compose.yml as processes of this machine: real Redis, real HAProxy, real Prometheus, five processes of the service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deploy.compose_local import ROOT, Compose, load, missing_programs
from tests.deploy.monitoring import panels, rules
from tests.redis_server import redis_version
from tests.running import wait_for

COMPOSE = ROOT / "docker-compose.yml"
LACKS = missing_programs(load(COMPOSE))
LEASE_S = 10.0  # as by default
SOON_S = 900.0

pytestmark = [
    pytest.mark.skipif(bool(LACKS), reason=f"not installed: {', '.join(LACKS)}"),
    pytest.mark.skipif(redis_version() < (7, 0), reason="docker-compose.yml is for Redis 7 and newer"),
]


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    with Compose(COMPOSE, tmp_path_factory.mktemp("compose")) as found:
        found.up()
        yield found


def predict_served(url: str, seq: int) -> dict[str, Any]:
    """Request until the answer includes event `seq`. A process that lags answers with an error after a while, and is asked
    again.
    """
    answers: list[httpx.Response] = []

    def served() -> bool:
        answers.append(httpx.get(f"{url}/predict", params={"a": 1, "_min_seq": seq}, timeout=300))
        assert answers[-1].status_code == 200 or answers[-1].json()["code"] == "not_yet", answers[-1].text
        return answers[-1].status_code == 200

    wait_for(f"event {seq} is served", served)
    found: dict[str, Any] = answers[-1].json()
    return found


def observe(url: str, event: str, value: float = 1.0) -> dict[str, Any]:
    answer = httpx.post(f"{url}/observe", json={"features": {"a": value}, "label": 1, "event_id": event}, timeout=300)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def query(compose: Compose, expression: str) -> list[Any]:
    answer = httpx.get(f"{compose.url('prometheus', '9090')}/api/v1/query", params={"query": expression}, timeout=10)
    assert answer.json()["status"] == "success", f"{expression}: {answer.text}"
    found: list[Any] = answer.json()["data"]["result"]
    return found


def leader(compose: Compose) -> str | None:
    """The writer that learns, if there is one."""
    for name in compose.of_role("writer"):
        if compose.process(name).poll() is None and httpx.get(f"{compose.url(name)}/readyz", timeout=300).is_success:
            return name
    return None


def test_an_event_through_either_web_process_is_learnt_once_and_read_everywhere(compose: Compose) -> None:
    first = observe(compose.url("web-1"), "both")
    again = observe(compose.url("web-2"), "both")
    assert (first["accepted"], again["accepted"], again["duplicate"]) == (1, 0, 1)
    last = observe(compose.url("front"), "front")
    answers = [
        predict_served(compose.url(name), last["seq"])
        for name in ("web-1", "web-2", "replica", "front", *compose.of_role("writer"))
    ]
    assert len({answer["margin"] for answer in answers}) == 1
    assert all(answer["model"]["seq"] >= last["seq"] for answer in answers)


def test_a_request_for_the_learner_is_routed_to_it(compose: Compose) -> None:
    refused = httpx.post(f"{compose.url('web-1')}/models/default/snapshots", timeout=300)
    assert (refused.status_code, refused.json()["code"]) == (409, "other_role")
    wait_for(
        "front knows the writer", lambda: httpx.post(f"{compose.url('front')}/models/default/snapshots", timeout=300).is_success
    )
    assert httpx.get(f"{compose.url('front')}/metrics", timeout=300).status_code == 404


def test_no_service_knows_the_password_but_by_its_file(compose: Compose) -> None:
    password = (compose.directory / "volumes" / "secrets" / "redis").read_text().strip()
    assert len(password) == 64
    for name in compose.services:
        pid = compose.process(name).pid
        if compose.process(name).poll() is None:
            for what in ("cmdline", "environ"):
                assert password.encode() not in Path(f"/proc/{pid}/{what}").read_bytes(), name
        assert password not in compose.output(name)


def test_prometheus_reads_every_process_and_evaluates_every_rule(compose: Compose) -> None:
    observe(compose.url("web-1"), "counted")
    wait_for("every process is scraped", lambda: len(query(compose, 'up{job="riata"} == 1')) == 5)
    wait_for("a counter is seen", lambda: query(compose, 'sum(riata_rows_total{outcome="accepted"}) > 0'))
    wait_for("the writer is seen", lambda: query(compose, 'sum(riata_lease_held{job="riata"}) == 1'))

    def evaluated() -> dict[str, str]:
        groups = httpx.get(f"{compose.url('prometheus', '9090')}/api/v1/rules", timeout=10).json()["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    wait_for("every rule is evaluated", lambda: set(evaluated().values()) == {"ok"})
    assert evaluated().keys() == rules().keys()


def test_prometheus_accepts_every_panel(compose: Compose) -> None:
    wait_for("a scrape", lambda: query(compose, "riata_ready"))
    for _, expression in panels():
        query(compose, expression)
    wait_for("well", lambda: query(compose, 'sum(riata_lease_held{job="riata"}) == 1'))
    assert query(compose, 'ALERTS{alertstate="firing", severity="page"}') == []


def test_a_killed_writer_is_replaced_and_nothing_is_refused_meanwhile(compose: Compose) -> None:
    wait_for("a writer leads", lambda: leader(compose))
    killed = str(leader(compose))
    compose.kill(killed)
    sent = 0
    deadline = time.monotonic() + LEASE_S + SOON_S
    while leader(compose) is None:
        assert time.monotonic() < deadline, "no process took over"
        assert observe(compose.url("front"), f"meanwhile-{sent}")["accepted"] == 1
        assert httpx.get(f"{compose.url('replica')}/predict?a=1", timeout=300).is_success
        sent += 1
    assert sent > 0
    assert leader(compose) != killed
    last = observe(compose.url("front"), "after")
    assert predict_served(compose.url("replica"), last["seq"])["model"]["seq"] >= last["seq"]
    compose.start(killed)
    wait_for("the killed one stands by", lambda: compose.healthy(killed))
    wait_for("two writers, one lease", lambda: httpx.get(f"{compose.url(killed, '8081')}/startupz", timeout=300).is_success)
    assert leader(compose) != killed


def test_the_front_continues_without_one_of_the_web_processes(compose: Compose) -> None:
    compose.kill("web-1")
    wait_for("the front has noticed", lambda: httpx.get(f"{compose.url('front')}/readyz", timeout=300).is_success)
    for number in range(10):
        assert observe(compose.url("front"), f"one-web-{number}")["accepted"] == 1
    compose.start("web-1")
    wait_for("it is back", lambda: compose.healthy("web-1"))


def test_everything_stops_within_its_grace_and_well(compose: Compose) -> None:
    took_s = compose.down()
    assert took_s.keys() == compose.services.keys()
    codes = {name: compose.process(name).returncode for name in compose.services}
    assert codes == dict.fromkeys(compose.services, 0)
