"""`riata jobs` against a service that really runs."""

from __future__ import annotations

import json

from riata.cli.jobs import sentence
from riata.client import Riata
from tests.cli.test_verbs import run
from tests.running import Running

ROWS = [{"features": {"age": i % 50}, "label": i % 2, "subject": f"s{i % 7}"} for i in range(100)]


def test_jobs_are_listed_awaited_and_not_cancelled_after_their_end(service: Running) -> None:
    url = service.url
    assert run("jobs", "list", "--url", url).stdout == "no jobs\n"
    with Riata(url) as client:
        client.observe(ROWS, wait_applied=True)
        forgotten = client.forget("s3")
    (job,) = json.loads(run("jobs", "list", "--json", "--url", url).stdout)["jobs"]
    assert (job["kind"], job["state"], job["result"]) == ("forget", "done", forgotten)
    assert run("jobs", "list", "--url", url).stdout == f"{job['id']}  forget of model 'default', {job['created']}: done\n"
    awaited = run("jobs", "wait", job["id"], "--url", url)
    assert (awaited.exit_code, json.loads(awaited.stdout)) == (0, forgotten)
    for words, why in ((("cancel", job["id"]), "has ended already: it is done"), (("wait", "f0"), "no job 'f0' is known here")):
        refused = run("jobs", *words, "--url", url)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert why in refused.stderr


def test_a_job_is_a_line_for_people() -> None:
    job = {"id": "r1", "kind": "refit", "model": "m", "created": "now", "stage": "solving", "progress": 0.25, "error": None}
    assert sentence({**job, "state": "running", "actor": "ann"}) == "r1  refit of model 'm', now, asked for by ann: solving, 25%"
    failed = {**job, "state": "failed", "actor": None, "error": {"code": "x", "detail": "no way"}}
    assert sentence(failed) == "r1  refit of model 'm', now: failed: no way"
