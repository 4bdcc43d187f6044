"""The route that forgets subjects."""

from __future__ import annotations

from typing import Any, Final

from riata.base.errors import BadInput, nearest
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.jobs import done_or_accepted
from riata.web.api.schemas import COUNT, TEXT, YES_OR_NO, answer, array, json_body, record, ref
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer, json_answer
from riata.wire.codes import BAD_SUBJECT, SLUGS
from riata.wire.subjects import SUBJECT_BYTES_MAX, is_subject

SUBJECTS_MAX: Final = 1000
BODY_BYTES_MAX: Final = 2 * SUBJECTS_MAX * (SUBJECT_BYTES_MAX + 4)
KEYS: Final = ("subject", "drop_trimmed")


async def forget(call: Call) -> Answer:
    """Forget the rows of subjects. Answers when they are no longer in the model, or 202 if that takes long."""
    model, _ = call.asked()
    call.parts.service.published(model)
    subjects, drop_trimmed = read_request(await call.json(BODY_BYTES_MAX))
    job = await call.parts.service.forgetting.forget(model, subjects, drop_trimmed)
    return done_or_accepted(job, job.document())


async def list_forgotten(call: Call) -> Answer:
    """The last requests to forget, newest first, with their progress or result."""
    model, _ = call.asked()
    return json_answer({"forget": call.parts.service.forgetting.listed(model)})


def read_request(document: dict[str, Any]) -> tuple[list[str], bool]:
    """Read the body: subjects, and whether what was trimmed may be dropped. Raises `BadInput`, which names the key."""
    for key in document:
        if key not in KEYS:
            raise BadInput(f"{key}: unknown key; {nearest(key, KEYS)}", "unknown_key")
    if "subject" not in document:
        raise BadInput("subject: expected the subject whose rows are to be forgotten, or a list of subjects", "missing_key")
    given = document["subject"]
    subjects = given if isinstance(given, list) else [given]
    if not 1 <= len(subjects) <= SUBJECTS_MAX:
        raise BadInput(
            f"subject: expected 1 to {SUBJECTS_MAX} subjects, got {len(subjects)}; send several requests", "wrong_type"
        )
    if not all(map(is_subject, subjects)):
        slug, sentence = SLUGS[BAD_SUBJECT]
        raise BadInput(f"subject: {sentence}", slug)
    drop_trimmed = document.get("drop_trimmed", False)
    if type(drop_trimmed) is not bool:
        raise BadInput("drop_trimmed: expected true or false", "wrong_type")
    return subjects, drop_trimmed


TAG: Final = "models"
_SUBJECT: Final = {"type": "string", "minLength": 1, "maxLength": SUBJECT_BYTES_MAX}
_FIGURES: Final = {"type": "object", "description": "the cumulative figures of `GET /models/{model}/metrics`"}
SCHEMAS: Final = {
    "Forget": record(
        {
            "subject": {"anyOf": [_SUBJECT, array(_SUBJECT, minItems=1, maxItems=SUBJECTS_MAX)]},
            "drop_trimmed": {
                **YES_OR_NO,
                "default": False,
                "description": "of a log that was trimmed, go on from what it still has: without everything before it",
            },
        },
        optional=("drop_trimmed",),
    ),
    "Forgotten": record(
        {
            "model": TEXT,
            "seq": {**COUNT, "description": "the event that forgot them; 0 if no row was found"},
            "rows": {**COUNT, "description": "rows of the subjects that the model no longer includes"},
            "of": {**COUNT, "description": "rows that it included"},
            "in_log": {
                **COUNT,
                "description": "rows whose bytes stay in the log until it is trimmed, never learnt again",
            },
            "predictions": {**COUNT, "description": "remembered predictions of the subjects that were deleted"},
            "snapshots_deleted": COUNT,
            "saved_deleted": {
                **array(record({"generation": COUNT, "note": TEXT})),
                "description": "those of them that somebody had saved, with their notes",
            },
            "refits_undone": {**array(COUNT), "description": "events that promoted refits made with such rows; refit again"},
            "trimmed": {**COUNT, "description": "events before the log begins: not searched, and not in the model any more"},
            "before": _FIGURES,
            "after": _FIGURES,
        }
    ),
    "ForgetJobs": record({"forget": array(ref("Job"))}),
}
ROUTES: Final = (
    Route(
        "POST",
        f"{AT}/forget",
        (ADMIN,),
        forget,
        "Forget the rows of subjects. 202: it goes on, also after a restart; `GET` of its `Location` tells when it is done.",
        answer("Forgotten") | answer("Job", 202),
        (404, 409, 503, 507),
        body=json_body("Forget", {"subject": "customer-4711"}),
    ),
    Route(
        "GET",
        f"{AT}/forget",
        (ADMIN, WATCH),
        list_forgotten,
        "The last requests to forget since the start of the process, newest first.",
        answer("ForgetJobs"),
        (404, 409, 503),
    ),
)
