"""Routes that go back: to a stored generation, or to any event that the log and the generations lead to."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, UnsetType, field

from riata.run.candidates.going_back import Restore, restore_document
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.jobs import AnyJob, done_or_accepted
from riata.web.api.schemas import (
    Count,
    Document,
    Object,
    Time,
    answer,
    json_body,
    says,
)
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer


class RestoreUndone(Document):
    """What going back undoes."""

    events: Annotated[Count, says("examples that are learnt now, and were not then")]
    from_: Annotated[Count | None, says("the first of them")] = field(name="from")
    to: Annotated[Count | None, says("the last of them")]
    from_time: Annotated[Time | None, says("when the first was accepted; null if the log no longer has it")]
    to_time: Annotated[Time | None, says("when the last was accepted")]
    brought_back: Annotated[Count, says("examples that an earlier restore undid and that count again")]
    configurations: Annotated[Count, says("changes of the configuration since")]
    restores: Count
    promotions: Count
    forgets: Annotated[Count, says("requests to forget since; their rows stay forgotten")]


class RestoreFigures(Document):
    """A state at an event."""

    seq: Count
    non_zeros: Annotated[Count, says("weights")]
    cumulative: Object
    faded: Object


class Restored(Document, kw_only=True):
    """Where the model went back to."""

    generation: Annotated[Count, says("of a request that names a snapshot")] | UnsetType = UNSET
    seq: Annotated[Count, says("the event of the log that put the state in place; 0 for a dry run")]
    taken_off: Annotated[list[str], says("challengers that were taken off: they have learnt what is undone")]
    model: str | UnsetType = UNSET
    to: Annotated[Count, says("the event whose state it is")] | UnsetType = UNSET
    to_time: Annotated[Time | None, says("when that event was accepted")] | UnsetType = UNSET
    at: Annotated[str | None, says("the moment that was named, with its zone")] | UnsetType = UNSET
    last: Annotated[Count, says("the last event of the log when it was read")] | UnsetType = UNSET
    from_generation: Annotated[Count, says("the snapshot that it was learnt from; 0: from the first event on")] | UnsetType = (
        UNSET
    )
    relearnt: Annotated[bool, says("whether it was learnt again without rows that were forgotten since")] | UnsetType = UNSET
    refits_undone: Annotated[list[Count], says("events that promoted refits made with forgotten rows; left out")] | UnsetType = (
        UNSET
    )
    undone: RestoreUndone | UnsetType = UNSET
    then: RestoreFigures | UnsetType = UNSET
    now: Annotated[RestoreFigures, says("before going back")] | UnsetType = UNSET
    after: Annotated[RestoreFigures, says("what is served since; not of a dry run")] | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class RestoreJob(AnyJob, kw_only=True):
    """A request to go back."""

    dry_run: bool
    result: Annotated[Restored | None, says("the answer, once it is done")]


class Reachable(Document):
    """An event that can be gone back to."""

    seq: Count
    generation: Count


class Reach(Document):
    """Which events can be gone back to."""

    since: Annotated[Count | None, says("every event from this one on can be gone back to; null: none")]
    exactly: Annotated[list[Reachable], says("besides, these events alone: the log after them is trimmed")]


class RestoreJobs(Document):
    """Requests to go back, newest first."""

    reach: Reach
    restore: list[RestoreJob]


async def restore(call: Call) -> Answer:
    """Go back to an event, a moment or a generation. Answers when that is served, or 202 if it takes long."""
    model, _ = call.asked()
    call.parts.service.published(model)
    going_back = call.parts.service.going_back
    asked = going_back.read(await call.json())
    if isinstance(asked, int):
        return call.answer(await call.parts.admin.restore(model, asked))
    job = await going_back.restore(model, asked)
    return done_or_accepted(call, job, restore_document(job))


async def list_restores(call: Call) -> Answer:
    """Which events can be gone back to, and the last requests, newest first, with their progress or result."""
    model, _ = call.asked()
    return call.answer(await call.parts.service.going_back.listed(model))


TAG: Final = "snapshots"
ROUTES: Final = (
    Route(
        "POST",
        f"{AT}/restore",
        (ADMIN,),
        restore,
        "Go back to an event, a moment or a snapshot. 202: it goes on; `GET` of its `Location` tells when it is done.",
        answer(Restored) | answer(RestoreJob, 202),
        (404, 409, 503, 507),
        body=json_body(Restore, {"to": 1, "dry_run": True}),
    ),
    Route(
        "GET",
        f"{AT}/restore",
        (ADMIN, WATCH),
        list_restores,
        "Which events can be gone back to, and the last requests since the start of the process, newest first.",
        answer(RestoreJobs),
        (404, 409, 503),
    ),
)
