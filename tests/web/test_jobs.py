"""The routes of jobs."""

from __future__ import annotations

import pytest

from riata.run.candidates.challengers import Backfilling
from riata.run.jobs.job import Job
from tests.web.asking import Client
from tests.web.fake_jobs import LINEAGE
from tests.web.fake_service import FakeService


def test_a_job_is_listed_and_cancelled(client: Client) -> None:
    assert client.get("/jobs").json() == {"jobs": []}
    begun = client.post("/models/default/forget", '{"subject":"annab"}').json()
    at = f"/jobs/{begun['id']}"
    (listed,) = client.get("/jobs").json()["jobs"]
    assert listed == client.get(at).json() == {**begun, "progress": 0.5}
    assert (listed["kind"], listed["model"], listed["cancellable"]) == ("forget", "default", True)
    answer = client.ask("DELETE", at)
    assert (answer.status_code, answer.headers["location"], answer.json()["cancellable"]) == (202, at, False)
    while (found := client.get(at).json())["state"] == "running":
        pass
    assert (found["state"], found["result"], found["error"]["code"]) == ("cancelled", None, "job_cancelled")
    again = client.ask("DELETE", at)
    assert (again.status_code, again.json()["code"]) == (409, "job_ended")


def test_a_model_that_learns_the_log_of_another_first_is_answered_with_its_job(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job("b1", "backfill", "default", LINEAGE.hex(), {"leader": "other"}, 0, share=0.25)
    service.jobs.put(job)

    async def put_model(*_: object, **_how: object) -> None:
        raise Backfilling(job)

    monkeypatch.setattr(service, "put_model", put_model)
    answer = client.ask("PUT", "/models/default", content=b"{}", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["location"], answer.headers["retry-after"]) == (202, "/jobs/b1", "5")
    assert {key: answer.json()[key] for key in ("created", "state", "job")} == {
        "created": False, "state": "backfilling", "job": "b1"
    }  # fmt: skip
    assert client.get("/jobs/b1").json()["progress"] == 0.25


def test_an_unknown_job_is_not_found(client: Client) -> None:
    for method in ("GET", "DELETE"):
        answer = client.ask(method, "/jobs/f0")
        assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
    assert client.get("/jobs?model=default").json()["code"] == "unknown_option"
