"""Routes that go back: to a stored generation, or to any event that the log and the generations lead to."""

from __future__ import annotations

from typing import Final

from riata.base.moments import SYNTAX
from riata.run.candidates.going_back import restore_document
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.jobs import JOB, done_or_accepted
from riata.web.api.schemas import COUNT, TEXT, TIME, YES_OR_NO, Schema, answer, array, json_body, record, ref
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer, json_answer


async def restore(call: Call) -> Answer:
    """Go back to an event, a moment or a generation. Answers when that is served, or 202 if it takes long."""
    model, _ = call.asked()
    call.parts.service.published(model)
    going_back = call.parts.service.going_back
    asked = going_back.read(await call.json())
    if isinstance(asked, int):
        return json_answer(await call.parts.admin.restore(model, asked))
    job = await going_back.restore(model, asked)
    return done_or_accepted(job, restore_document(job))


async def list_restores(call: Call) -> Answer:
    """Which events can be gone back to, and the last requests, newest first, with their progress or result."""
    model, _ = call.asked()
    return json_answer(await call.parts.service.going_back.listed(model))


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


TAG: Final = "snapshots"
_EVENT: Final = {"type": "integer", "minimum": 1}
_TIME_OR_NULL: Final = _or_null(TIME)
SCHEMAS: Final = {
    "Restore": record(
        {
            "to": {
                "anyOf": [_EVENT, TEXT],
                "description": f"an event; or {SYNTAX}, which means the last event accepted before it. Without a zone: UTC",
            },
            "generation": {**_EVENT, "description": "instead of `to`: a retained snapshot"},
            "dry_run": {**YES_OR_NO, "default": False, "description": "with `to`: change nothing, only say what would be undone"},
        },
        optional=("to", "generation", "dry_run"),
    ),
    "RestoreUndone": record(
        {
            "events": {**COUNT, "description": "examples that are learnt now, and were not then"},
            "from": {**_or_null(COUNT), "description": "the first of them"},
            "to": {**_or_null(COUNT), "description": "the last of them"},
            "from_time": {**_TIME_OR_NULL, "description": "when the first was accepted; null if the log no longer has it"},
            "to_time": {**_TIME_OR_NULL, "description": "when the last was accepted"},
            "brought_back": {**COUNT, "description": "examples that an earlier restore undid and that count again"},
            "configurations": {**COUNT, "description": "changes of the configuration since"},
            "restores": COUNT,
            "promotions": COUNT,
            "forgets": {**COUNT, "description": "requests to forget since; their rows stay forgotten"},
        }
    ),
    "RestoreFigures": record(
        {
            "seq": COUNT,
            "non_zeros": {**COUNT, "description": "weights"},
            "cumulative": {"type": "object"},
            "faded": {"type": "object"},
        }
    ),
    "Restored": record(
        {
            "generation": {**COUNT, "description": "of a request that names a snapshot"},
            "seq": {**COUNT, "description": "the event of the log that put the state in place; 0 for a dry run"},
            "taken_off": {**array(TEXT), "description": "challengers that were taken off: they have learnt what is undone"},
            "model": TEXT,
            "to": {**COUNT, "description": "the event whose state it is"},
            "to_time": {**_TIME_OR_NULL, "description": "when that event was accepted"},
            "at": {**_or_null(TEXT), "description": "the moment that was named, with its zone"},
            "last": {**COUNT, "description": "the last event of the log when it was read"},
            "from_generation": {**COUNT, "description": "the snapshot that it was learnt from; 0: from the first event on"},
            "relearnt": {**YES_OR_NO, "description": "whether it was learnt again without rows that were forgotten since"},
            "refits_undone": {**array(COUNT), "description": "events that promoted refits made with forgotten rows; left out"},
            "undone": ref("RestoreUndone"),
            "then": ref("RestoreFigures"),
            "now": {**ref("RestoreFigures"), "description": "before going back"},
            "after": {**ref("RestoreFigures"), "description": "what is served since; not of a dry run"},
            "warning": TEXT,
        },
        optional=(
            "generation", "model", "to", "to_time", "at", "last", "from_generation", "relearnt", "refits_undone", "undone",
            "then", "now", "after", "warning",
        ),
    ),
    "RestoreJob": record(
        {
            **JOB,
            "dry_run": YES_OR_NO,
            "result": {**_or_null(ref("Restored")), "description": "the answer, once it is done"},
        }
    ),
    "RestoreJobs": record(
        {
            "reach": record(
                {
                    "since": {**_or_null(COUNT), "description": "every event from this one on can be gone back to; null: none"},
                    "exactly": {
                        **array(record({"seq": COUNT, "generation": COUNT})),
                        "description": "besides, these events alone: the log after them is trimmed",
                    },
                }
            ),
            "restore": array(ref("RestoreJob")),
        }
    ),
}  # fmt: skip
ROUTES: Final = (
    Route(
        "POST",
        f"{AT}/restore",
        (ADMIN,),
        restore,
        "Go back to an event, a moment or a snapshot. 202: it goes on; `GET` of its `Location` tells when it is done.",
        answer("Restored") | answer("RestoreJob", 202),
        (404, 409, 503, 507),
        body=json_body("Restore", {"to": 1, "dry_run": True}),
    ),
    Route(
        "GET",
        f"{AT}/restore",
        (ADMIN, WATCH),
        list_restores,
        "Which events can be gone back to, and the last requests since the start of the process, newest first.",
        answer("RestoreJobs"),
        (404, 409, 503),
    ),
)
