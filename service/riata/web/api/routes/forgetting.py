"""The route that forgets subjects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from riata.base.document import DocumentValue, read_document
from riata.base.errors import BadInput
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.jobs import Job, done_or_accepted
from riata.web.api.schemas import Count, Document, Object, Schema, answer, json_body
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer
from riata.wire.codes import BAD_SUBJECT, SLUGS, SUBJECT_BYTES_MAX, is_subject

SUBJECTS_MAX: Final = 1000
BODY_BYTES_MAX: Final = 2 * SUBJECTS_MAX * (SUBJECT_BYTES_MAX + 4)


class Subjects(tuple[str, ...], DocumentValue):
    """Whom to forget."""

    @staticmethod
    def read(given: object) -> Subjects:
        """Read one subject, or a list of them. Raises `BadInput`."""
        subjects: list[Any] = given if isinstance(given, list) else [given]
        if not 1 <= len(subjects) <= SUBJECTS_MAX:
            told = f"subject: expected 1 to {SUBJECTS_MAX} subjects, got {len(subjects)}; send several requests"
            raise BadInput(told, "wrong_type")
        if not all(map(is_subject, subjects)):
            slug, sentence = SLUGS[BAD_SUBJECT]
            raise BadInput(f"subject: {sentence}", slug)
        return Subjects(subjects)

    @staticmethod
    def schema() -> Schema:
        """As of a `DocumentValue`."""
        one = {"type": "string", "minLength": 1, "maxLength": SUBJECT_BYTES_MAX}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": SUBJECTS_MAX}]}


@dataclass(frozen=True, slots=True)
class Forget:
    """The body of a request to forget."""

    subject: Subjects
    drop_trimmed: Annotated[bool, "of a log that was trimmed, go on from what it still has: without everything before it"] = False


class SavedSnapshot(Document):
    """A snapshot that somebody saved."""

    generation: Count
    note: str


class Forgotten(Document):
    """What was forgotten.

    seq           : the event that forgot them; 0 if no row was found
    rows          : rows of the subjects that the model no longer includes
    of            : rows that it included
    in_log        : rows whose bytes stay in the log until it is trimmed, never learnt again
    predictions   : remembered predictions of the subjects that were deleted
    saved_deleted : those of them that somebody had saved, with their notes
    refits_undone : events that promoted refits made with such rows; refit again
    trimmed       : events before the log begins: not searched, and not in the model any more
    before        : the cumulative figures of `GET /models/{model}/metrics`
    after         : the cumulative figures of `GET /models/{model}/metrics`
    """

    model: str
    seq: Count
    rows: Count
    of: Count
    in_log: Count
    predictions: Count
    snapshots_deleted: Count
    saved_deleted: list[SavedSnapshot]
    refits_undone: list[Count]
    trimmed: Count
    before: Object
    after: Object


class ForgetJobs(Document):
    """Requests to forget, newest first."""

    forget: list[Job]


async def forget(call: Call) -> Answer:
    """Forget the rows of subjects. Answers when they are no longer in the model, or 202 if that takes long."""
    model, _ = call.asked()
    call.parts.service.published(model)
    body = await call.json(BODY_BYTES_MAX)
    asked = read_document(Forget, {**body, "subject": Subjects.read(body["subject"])} if "subject" in body else body)
    job = await call.parts.service.forgetting.forget(model, asked.subject, asked.drop_trimmed)
    return done_or_accepted(call, job, job.document())


async def list_forgotten(call: Call) -> Answer:
    """The last requests to forget, newest first, with their progress or result."""
    model, _ = call.asked()
    return call.answer({"forget": call.parts.service.forgetting.listed(model)})


TAG: Final = "models"
ROUTES: Final = (
    Route(
        "POST",
        f"{AT}/forget",
        (ADMIN,),
        forget,
        "Forget the rows of subjects. 202: it goes on, also after a restart; `GET` of its `Location` tells when it is done.",
        answer(Forgotten) | answer(Job, 202),
        (404, 409, 503, 507),
        body=json_body(Forget, {"subject": "customer-4711"}),
    ),
    Route(
        "GET",
        f"{AT}/forget",
        (ADMIN, WATCH),
        list_forgotten,
        "The last requests to forget since the start of the process, newest first.",
        answer(ForgetJobs),
        (404, 409, 503),
    ),
)
