"""Routes of jobs, and the one answer of every route whose work goes on after it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from riata.base.errors import NotFound
from riata.run.jobs.jobs import Job as JobOfModel
from riata.web.api.route import Call, Route
from riata.web.api.schemas import Document, Error, ModelName, Object, Time, answer
from riata.web.auth.keys import ADMIN, WATCH, visible
from riata.web.server.answers import Answer


class AnyJob(Document, kw_only=True):
    """Work that goes on after its request.

    stage       : what is being done, of kinds that have stages
    actor       : id of the key that asked for it
    progress    : share of the work that is done; of a refit, `stage` says more
    cancellable : whether `DELETE` would end it: it runs, and has not begun to change the model
    error       : why there is no result
    """

    id: str
    kind: Literal["backfill", "forget", "refit", "restore"]
    model: ModelName
    state: Literal["running", "done", "failed", "cancelled", "interrupted"]
    stage: str | None
    created: Time
    actor: str | None
    progress: Annotated[float, Meta(ge=0, le=1)]
    cancellable: bool
    error: Error | None


class Job(AnyJob, kw_only=True):
    """A job.

    result : once it is done, what the request would have been answered
    """

    result: Object | None


class Jobs(Document):
    """Jobs, newest first."""

    jobs: list[Job]


def accepted(call: Call, job: JobOfModel, document: dict[str, Any], *headers: tuple[bytes, bytes]) -> Answer:
    """Answer 202: the work goes on, and `Location` is the address of its job."""
    return call.answer(document, 202, (b"location", f"/jobs/{job.id}".encode()), *headers)


def done_or_accepted(call: Call, job: JobOfModel, document: dict[str, Any]) -> Answer:
    """Answer the result of a job, or 202 with a document while it runs."""
    return accepted(call, job, document) if job.state == "running" else call.answer(job.found)


async def list_jobs(call: Call) -> Answer:
    """The jobs of the models that the key may see, newest first."""
    call.options()
    jobs = call.parts.service.jobs.listed()
    return call.answer({"jobs": [job for job in jobs if visible(call.request.scope, job["model"])]})


async def describe_job(call: Call) -> Answer:
    """One job: its progress while it runs, then its result or error."""
    return call.answer(_asked(call).document())


async def cancel_job(call: Call) -> Answer:
    """Ask a job to end."""
    job = call.parts.service.jobs.cancel(_asked(call).id)
    return accepted(call, job, job.document())


def _asked(call: Call) -> JobOfModel:
    """Return the job of the address. One of a model that the key may not see is as if it were not there."""
    call.options()
    number = call.request.path_params["job"]
    job = call.parts.service.jobs.get(number)
    if not visible(call.request.scope, job.model):
        raise NotFound(f"no job {number[:64]!r} is known here; GET /jobs lists them", "job_not_found")
    return job


TAG: Final = "jobs"
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
        answer(Jobs),
        (409, 422, 503),
    ),
    Route(
        "GET",
        "/jobs/{job}",
        (ADMIN, WATCH),
        describe_job,
        "One job: progress, then result or error.",
        answer(Job),
        (404, 409, 422, 503),
        (_JOB,),
    ),
    Route(
        "DELETE",
        "/jobs/{job}",
        (ADMIN,),
        cancel_job,
        "Ask a job to end before it changes the model.",
        answer(Job, 202),
        (404, 409, 422, 503),
        (_JOB,),
    ),
)
