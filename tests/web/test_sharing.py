"""What a process on a shared store reports about itself, and about the age of its predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from riata.base.errors import Unavailable
from riata.run.health import Sharing
from tests.web.asking import Client, asking
from tests.web.serving import Whole
from tests.web.test_health import metric

ROW = '{"features":{"a":1},"label":1}'


def test_a_process_alone_on_its_store_leads_and_takes_events(client: Client) -> None:
    ready = client.get("/readyz").json()
    assert (ready["role"], ready["leads"], ready["accepting"]) == ("all", True, True)
    assert metric(client, 'riata_role{role="all"}') == 1
    assert metric(client, "riata_lease_held") == 1
    assert metric(client, "riata_accepting") == 1
    assert metric(client, "riata_elections_total") is None


Share = Callable[[Sharing], None]


@pytest.fixture
def share(service: Whole, monkeypatch: pytest.MonkeyPatch) -> Share:
    """The service says of itself what processes of other roles do."""
    own = service.service.health

    def shared(sharing: Sharing) -> None:
        monkeypatch.setattr(service.service, "health", lambda: replace(own(), sharing=sharing))

    return shared


def test_a_web_that_the_store_keeps_from_accepting_is_ready_and_reports_it(client: Client, share: Share) -> None:
    share(
        Sharing(
            role="web",
            leads=False,
            accepting=("store_unreachable", "no route"),
            counts={"editions_followed": 3, "editions_corrupt": 1, "rollbacks_seen": 2, "stores_exchanged": 0},
            refusals={"store_unreachable": 4},
        )
    )
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert (ready.json()["role"], ready.json()["leads"], ready.json()["accepting"]) == ("web", False, False)
    assert metric(client, 'riata_role{role="web"}') == 1
    assert metric(client, "riata_lease_held") == 0
    assert metric(client, "riata_accepting") == 0
    assert metric(client, "riata_editions_followed_total") == 3
    assert metric(client, "riata_editions_corrupt_total") == 1
    assert metric(client, "riata_rollbacks_seen_total") == 2
    assert metric(client, "riata_stores_exchanged_total") == 0
    assert metric(client, 'riata_store_refusals_total{code="store_unreachable"}') == 4
    assert metric(client, 'riata_store_refuses{code="store_unreachable"}') == 1
    assert metric(client, "riata_recovery_estimate_seconds") is None


def test_a_writer_reports_its_lease(client: Client, share: Share) -> None:
    counts = {"elections": 1, "fenced": 0, "log_forks": 0, "recovery_retries": 2, "editions_published": 9}
    share(Sharing(role="writer", leads=True, epoch=7, renewed_s=1.5, counts=counts, recovery_s=12.5))
    assert client.get("/readyz").json()["accepting"] is False
    assert metric(client, "riata_epoch") == 7
    assert metric(client, "riata_lease_renewed_seconds") == 1.5
    assert metric(client, "riata_recovery_estimate_seconds") == 12.5
    for name, count in counts.items():
        assert metric(client, f"riata_{name}_total") == count


def test_a_prediction_says_for_how_long_it_is_not_known_to_be_the_newest_and_beyond_the_bound_there_is_none(
    client: Client, service: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/predict?a=1").json()["model"]["stale_s"] == 0.0
    monkeypatch.setattr(service.engine, "settings", replace(service.engine.settings, shared=True, max_staleness_s=3600.0))
    monkeypatch.setattr(service.engine, "unrenewed_s", lambda: 7.5)
    assert client.post("/predict", '[{"features":{"a":1}}]').json()[0]["model"]["stale_s"] == 7.5
    assert metric(client, 'riata_staleness_seconds{model="default"}') == 7.5
    monkeypatch.setattr(service.engine, "unrenewed_s", lambda: 3601.0)
    for answer in (client.get("/predict?a=1"), client.post("/predict", '{"features":{"a":1}}')):
        assert (answer.status_code, answer.json()["code"]) == (503, "too_stale")
        assert int(answer.headers["retry-after"]) >= 1
    assert client.get("/models/default").status_code == 200  # looking is no prediction


@pytest.mark.parametrize("code", ["store_refuses", "store_unreachable"])
def test_work_without_a_store_is_refused_and_may_be_tried_again(client: Client, service: Whole, code: str) -> None:
    service.refuse(Unavailable("no route", code))
    answer = client.post("/observe", ROW)
    assert (answer.status_code, answer.json()["code"], answer.json()["outcome"]) == (503, code, "not_accepted")
    assert (answer.json()["retryable"], "retry-after" in answer.headers) == (True, True)
    assert answer.json()["detail"] == "no route"


def test_work_of_another_role_is_refused_as_a_conflict() -> None:
    with asking(Whole(role="replica").app()) as client:
        answer = client.post("/observe", ROW)
        assert (answer.status_code, answer.json()["code"], answer.json()["outcome"]) == (409, "other_role", "not_accepted")
        assert (answer.json()["retryable"], "retry-after" in answer.headers) == (False, False)
        assert answer.json()["detail"] == "a replica process accepts no events; send them to a process with role web or all"
        remembered = client.post("/predict?remember=true", '{"features":{"a":1}}')
        assert (remembered.status_code, remembered.json()["code"]) == (409, "other_role")


def test_a_process_alone_on_its_store_reports_why_it_accepts_no_events(client: Client, service: Whole) -> None:
    service.refuse(Unavailable("the disk is nearly full", "disk_reserve"))
    assert client.get("/readyz").json()["accepting"] is False
    assert metric(client, "riata_accepting") == 0
    assert metric(client, 'riata_store_refuses{code="disk_reserve"}') == 1
    assert metric(client, 'riata_store_refusals_total{code="disk_reserve"}') == 1
