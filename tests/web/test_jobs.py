"""The routes of jobs."""

from __future__ import annotations

from tests.web.asking import Client
from tests.web.serving import Whole

ROW = '{"features":{"a":1},"label":1}'


def test_a_job_is_listed_and_cancelled(client: Client, service: Whole) -> None:
    assert client.get("/jobs").json() == {"jobs": []}
    with service.unchanged(client):
        begun = client.post("/models/default/forget", '{"subject":"ann"}').json()
        at = f"/jobs/{begun['id']}"
        (listed,) = client.get("/jobs").json()["jobs"]
        assert listed == client.get(at).json() == begun
        assert (listed["kind"], listed["model"], listed["cancellable"]) == ("forget", "default", True)
        answer = client.ask("DELETE", at)
        assert (answer.status_code, answer.headers["location"], answer.json()["cancellable"]) == (202, at, False)
    found = client.job(at)
    assert (found["state"], found["result"], found["error"]["code"]) == ("cancelled", None, "job_cancelled")
    again = client.ask("DELETE", at)
    assert (again.status_code, again.json()["code"]) == (409, "job_ended")


def test_a_model_that_learns_the_log_of_another_first_is_answered_with_its_job(client: Client, service: Whole) -> None:
    client.post("/observe?wait=applied", ROW)
    service.service.jobs.patience_s = 0.0
    answer = client.put("/models/c", '{"follow":"default","backfill":true}')
    at = answer.headers["location"]
    assert (answer.status_code, at, answer.headers["retry-after"]) == (202, f"/jobs/{answer.json()['job']}", "5")
    assert (answer.json()["created"], answer.json()["state"]) == (False, "backfilling")
    job = client.job(at)
    assert (job["kind"], job["state"]) == ("backfill", "done")
    assert client.get("/models/default").json()["challengers"][0]["name"] == "c"


def test_an_unknown_job_is_not_found(client: Client) -> None:
    for method in ("GET", "DELETE"):
        answer = client.ask(method, "/jobs/f0")
        assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
    assert client.get("/jobs?model=default").json()["code"] == "unknown_option"
