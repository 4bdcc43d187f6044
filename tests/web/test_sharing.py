"""What a process on a shared store reports about itself, and about the age of its predictions."""

from __future__ import annotations

from riata.base.errors import Busy, Conflict, Unavailable
from riata.run.health import Sharing
from tests.web.asking import Client
from tests.web.fake_service import FakeService
from tests.web.test_health import metric

ROW = '{"features":{"a":1},"label":1}'


def test_a_process_alone_on_its_store_leads_and_takes_events(client: Client) -> None:
    ready = client.get("/readyz").json()
    assert (ready["role"], ready["leads"], ready["accepting"]) == ("all", True, True)
    assert metric(client, 'riata_role{role="all"}') == 1
    assert metric(client, "riata_lease_held") == 1
    assert metric(client, "riata_accepting") == 1
    assert metric(client, "riata_elections_total") is None


def test_a_web_that_the_store_keeps_from_accepting_is_ready_and_reports_it(client: Client, service: FakeService) -> None:
    service.sharing = Sharing(
        role="web",
        leads=False,
        accepting=("store_unreachable", "no route"),
        counts={"editions_followed": 3, "editions_corrupt": 1, "rollbacks_seen": 2, "stores_exchanged": 0},
        refusals={"store_unreachable": 4},
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


def test_a_writer_reports_its_lease(client: Client, service: FakeService) -> None:
    counts = {"elections": 1, "fenced": 0, "log_forks": 0, "recovery_retries": 2, "editions_published": 9}
    service.sharing = Sharing(role="writer", leads=True, epoch=7, renewed_s=1.5, counts=counts, recovery_s=12.5)
    assert client.get("/readyz").json()["accepting"] is False
    assert metric(client, "riata_epoch") == 7
    assert metric(client, "riata_lease_renewed_seconds") == 1.5
    assert metric(client, "riata_recovery_estimate_seconds") == 12.5
    for name, count in counts.items():
        assert metric(client, f"riata_{name}_total") == count


def test_a_prediction_says_for_how_long_it_is_not_known_to_be_the_newest_and_beyond_the_bound_there_is_none(
    client: Client, service: FakeService
) -> None:
    assert client.get("/predict?a=1").json()["model"]["stale_s"] == 0.0
    service.stale = 7.5
    assert client.post("/predict", '[{"features":{"a":1}}]').json()[0]["model"]["stale_s"] == 7.5
    assert metric(client, 'riata_staleness_seconds{model="default"}') == 0.0  # the fake's health has none
    service.stale = 3601.0
    for answer in (client.get("/predict?a=1"), client.post("/predict", '{"features":{"a":1}}')):
        assert (answer.status_code, answer.json()["code"]) == (503, "too_stale")
        assert int(answer.headers["retry-after"]) >= 1
    assert client.get("/models/default").status_code == 200  # looking is no prediction


def test_work_of_another_role_is_refused_as_a_conflict_and_work_without_a_process_as_unavailable(
    client: Client, service: FakeService
) -> None:
    for error, status, code, again in (
        (
            Conflict("a replica process accepts no events; send them to a process with role web or all", "other_role"),
            409,
            "other_role",
            False,
        ),
        (Unavailable("appendfsync is no", "store_refuses"), 503, "store_refuses", True),
        (Unavailable("no route", "store_unreachable"), 503, "store_unreachable", True),
        (Busy("changed by others", "changed_meanwhile"), 503, "changed_meanwhile", True),
    ):
        service.fail = error
        answer = client.post("/observe", ROW)
        assert (answer.status_code, answer.json()["code"], answer.json()["outcome"]) == (status, code, "not_accepted")
        assert answer.json()["retryable"] is again
        assert ("retry-after" in answer.headers) is again
        assert answer.json()["detail"] == error.detail


def test_a_process_alone_on_its_store_reports_why_it_accepts_no_events(client: Client, service: FakeService) -> None:
    service.sharing = Sharing(accepting=("disk_reserve", "the disk is nearly full"), refusals={"disk_reserve": 2})
    assert client.get("/readyz").json()["accepting"] is False
    assert metric(client, "riata_accepting") == 0
    assert metric(client, 'riata_store_refuses{code="disk_reserve"}') == 1
    assert metric(client, 'riata_store_refusals_total{code="disk_reserve"}') == 2
