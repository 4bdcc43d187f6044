"""Probes, metrics, version, and the headers of every answer."""

from __future__ import annotations

import logging
from threading import Event

import pytest

import riata
from riata.base.limits import DEDUPE_EVENTS
from tests.web.asking import Client, asking
from tests.web.serving import Whole

ROW = '{"features":{"a":1},"label":1}'


def metric(client: Client, line: str) -> float | None:
    """The value of one series, None if it does not exist."""
    for row in client.get("/metrics").text.splitlines():
        if row.startswith(line + " "):
            return float(row.rsplit(" ", 1)[1])
    return None


def test_probes_of_a_service_that_is_well(client: Client) -> None:
    for path in ("/livez", "/readyz", "/startupz", "/v2/health/live", "/v2/health/ready"):
        assert client.get(path).status_code == 200, path


def test_readiness_says_which_models_have_learnt_nothing(client: Client) -> None:
    assert client.get("/readyz").json()["models"]["default"]["has_learnt"] is False
    client.post("/observe?wait=applied", ROW)
    assert client.get("/readyz").json()["models"]["default"]["has_learnt"] is True


def test_a_service_that_is_not_ready_lives_and_says_what_it_waits_for(opening: Event) -> None:
    with asking(Whole().app(), ready=False) as client:
        assert client.get("/livez").status_code == 200
        for path in ("/readyz", "/v2/health/ready", "/startupz"):
            answer = client.get(path)
            assert answer.status_code == 503, path
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["reasons"] == ["the store is being opened"]
            assert answer.headers["retry-after"] == "1"
        assert metric(client, "riata_ready") == 0
        opening.set()
        while client.get("/readyz").status_code == 503:
            pass
        assert metric(client, "riata_ready") == 1


def test_a_dead_learner_is_noticed(client: Client, service: Whole) -> None:
    service.engine.fatal = "the writer ended"
    answer = client.get("/livez")
    assert (answer.status_code, answer.json()["detail"]) == (503, "the writer ended")
    assert client.get("/v2/health/live").status_code == 503


def test_version(client: Client) -> None:
    assert client.get("/version").json()["version"] == riata.__version__
    assert client.get("/version").json()["dedupe_events"] == DEDUPE_EVENTS


def test_requests_are_counted_by_template_and_status(client: Client) -> None:
    client.post("/observe", ROW)
    client.post("/models/default/observe", "{")
    client.get("/models/default")
    client.get("/models/nobody")
    client.get("/never/seen/before")
    series = 'riata_requests_total{code="%d",method="%s",route="%s"}'
    assert metric(client, series % (202, "POST", "/observe")) == 1
    assert metric(client, series % (400, "POST", "/models/{model}/observe")) == 1
    assert metric(client, series % (200, "GET", "/models/{model}")) == 1
    assert metric(client, series % (404, "GET", "/models/{model}")) == 1
    assert metric(client, series % (404, "GET", "unmatched")) == 1
    assert metric(client, 'riata_request_duration_seconds_count{route="/observe"}') == 1


def test_rows_are_counted_by_outcome(client: Client) -> None:
    client.post("/observe", f"{ROW}\n{{}}\n{ROW}", "application/x-ndjson", Idempotency_Key="k")
    client.post("/observe", ROW, Idempotency_Key="k")
    client.post("/observe", "[{},{}]")
    for outcome, count in (("accepted", 2), ("duplicate", 1), ("rejected", 3)):
        assert metric(client, f'riata_rows_total{{model="default",outcome="{outcome}"}}') == count


def test_gauges_are_those_of_the_moment(client: Client, service: Whole) -> None:
    assert metric(client, 'riata_log_seq{model="default"}') == 1
    client.post("/observe?wait=applied", ROW)
    assert metric(client, 'riata_log_seq{model="default"}') == 2
    assert metric(client, 'riata_lag_events{model="default"}') == 0
    assert metric(client, 'riata_non_zeros{model="default"}') == 1
    saved = metric(client, 'riata_checkpoints_total{outcome="ok"}')
    assert saved is not None
    assert client.ask("POST", "/models/default/snapshots").status_code == 201
    assert metric(client, 'riata_checkpoints_total{outcome="ok"}') == saved + 1
    assert metric(client, "riata_checkpoint_duration_seconds") == service.engine.tally.checkpoint_last_ms / 1000
    assert metric(client, "process_resident_memory_bytes") is not None


@pytest.mark.parametrize("path", ["/livez", "/predict?a=1", "/models", "/metrics", "/docs", "/nothing", "/models/nobody"])
def test_no_answer_may_be_cached_or_names_the_server(standing: Client, path: str) -> None:
    headers = standing.get(path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_logs_hold_no_payload(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client.post("/observe", '{"features":{"secret":"hush"},"label":1}')
    client.get("/predict?secret=hush")
    client.post("/observe", "hush")
    client.get("/hush")
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("riata")]
    assert any("route=/observe status=202" in line for line in ours)
    assert "hush" not in " ".join(ours)
    assert not any(record.exc_info for record in caplog.records)
