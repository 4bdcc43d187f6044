"""Routes of jobs, and the one answer of every route whose work goes on after it."""

from __future__ import annotations

from typing import Any, Final

from riata.base.errors import NotFound
from riata.run.jobs.job import Job
from riata.web.api.route import Call, Route
from riata.web.api.schemas import NAME_PATTERN, TEXT, TIME, YES_OR_NO, answer, array, record, ref
from riata.web.auth.keys import ADMIN, WATCH, visible
from riata.web.server.answers import Answer, json_answer


def accepted(job: Job, document: dict[str, Any], *headers: tuple[bytes, bytes]) -> Answer:
    """Answer 202: the work goes on, and `Location` is the address of its job."""
    return json_answer(document, 202, ((b"location", f"/jobs/{job.id}".encode()), *headers))


def done_or_accepted(job: Job, document: dict[str, Any]) -> Answer:
    """Answer the result of a job, or 202 with a document while it runs."""
    return accepted(job, document) if job.state == "running" else json_answer(job.found)


async def list_jobs(call: Call) -> Answer:
    """The jobs of the models that the key may see, newest first."""
    call.options()
    jobs = call.parts.service.jobs.listed()
    return json_answer({"jobs": [job for job in jobs if visible(call.request.scope, job["model"])]})


async def describe_job(call: Call) -> Answer:
    """One job: its progress while it runs, then its result or error."""
    return json_answer(_asked(call).document())


async def cancel_job(call: Call) -> Answer:
    """Ask a job to end."""
    job = call.parts.service.jobs.cancel(_asked(call).id)
    return accepted(job, job.document())


def _asked(call: Call) -> Job:
    """Return the job of the address. One of a model that the key may not see is as if it were not there."""
    call.options()
    number = call.request.path_params["job"]
    job = call.parts.service.jobs.get(number)
    if not visible(call.request.scope, job.model):
        raise NotFound(f"no job {number[:64]!r} is known here; GET /jobs lists them", "job_not_found")
    return job


TAG: Final = "jobs"
JOB: Final = {
    "id": TEXT,
    "kind": {**TEXT, "enum": ["backfill", "forget", "refit", "restore"]},
    "model": {**TEXT, "pattern": NAME_PATTERN},
    "state": {**TEXT, "enum": ["running", "done", "failed", "cancelled", "interrupted"]},
    "stage": {"type": ["string", "null"], "description": "what is being done, of kinds that have stages"},
    "created": TIME,
    "actor": {"type": ["string", "null"], "description": "id of the key that asked for it"},
    "progress": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "share of the work that is done; of a refit, `stage` says more",
    },
    "cancellable": {**YES_OR_NO, "description": "whether `DELETE` would end it: it runs, and has not begun to change the model"},
    "result": {"type": ["object", "null"], "description": "once it is done, what the request would have been answered"},
    "error": {"anyOf": [record({"code": TEXT, "detail": TEXT}), {"type": "null"}], "description": "why there is no result"},
}
SCHEMAS: Final = {"Job": record(JOB), "Jobs": record({"jobs": array(ref("Job"))})}
_JOB: Final = {
    "name": "job",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[bfr][0-9]{1,19}$"},
    "description": "id of a job",
}
ROUTES: Final = (
    Route(
        "GET",
        "/jobs",
        (ADMIN, WATCH),
        list_jobs,
        "Jobs since the start of the process, and those that the former one left, newest first.",
        answer("Jobs"),
        (409, 422, 503),
    ),
    Route(
        "GET",
        "/jobs/{job}",
        (ADMIN, WATCH),
        describe_job,
        "One job: progress, then result or error.",
        answer("Job"),
        (404, 409, 422, 503),
        (_JOB,),
    ),
    Route(
        "DELETE",
        "/jobs/{job}",
        (ADMIN,),
        cancel_job,
        "Ask a job to end before it changes the model.",
        answer("Job", 202),
        (404, 409, 422, 503),
        (_JOB,),
    ),
)
