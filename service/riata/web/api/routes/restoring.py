"""Routes that go back: to a stored generation, or to any event that the log and the generations lead to."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType, field

from riata.run.candidates.going_back import Restore, restore_document
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.jobs import AnyJob, done_or_accepted
from riata.web.api.schemas import Count, Document, Object, Time, answer, json_body
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer


class RestoreUndone(Document):
    """What going back undoes.

    events         : examples that are learnt now, and were not then
    from           : the first of them
    to             : the last of them
    from_time      : when the first was accepted; null if the log no longer has it
    to_time        : when the last was accepted
    brought_back   : examples that an earlier restore undid and that count again
    configurations : changes of the configuration since
    forgets        : requests to forget since; their rows stay forgotten
    """

    events: Count
    from_: Count | None = field(name="from")
    to: Count | None
    from_time: Time | None
    to_time: Time | None
    brought_back: Count
    configurations: Count
    restores: Count
    promotions: Count
    forgets: Count


class RestoreFigures(Document):
    """A state at an event.

    non_zeros : weights
    """

    seq: Count
    non_zeros: Count
    cumulative: Object
    faded: Object


class Restored(Document, kw_only=True):
    """Where the model went back to.

    generation      : of a request that names a snapshot
    seq             : the event of the log that put the state in place; 0 for a dry run
    taken_off       : challengers that were taken off: they have learnt what is undone
    to              : the event whose state it is
    to_time         : when that event was accepted
    at              : the moment that was named, with its zone
    last            : the last event of the log when it was read
    from_generation : the snapshot that it was learnt from; 0: from the first event on
    relearnt        : whether it was learnt again without rows that were forgotten since
    refits_undone   : events that promoted refits made with forgotten rows; left out
    now             : before going back
    after           : what is served since; not of a dry run
    """

    generation: Count | UnsetType = UNSET
    seq: Count
    taken_off: list[str]
    model: str | UnsetType = UNSET
    to: Count | UnsetType = UNSET
    to_time: Time | UnsetType | None = UNSET
    at: str | UnsetType | None = UNSET
    last: Count | UnsetType = UNSET
    from_generation: Count | UnsetType = UNSET
    relearnt: bool | UnsetType = UNSET
    refits_undone: list[Count] | UnsetType = UNSET
    undone: RestoreUndone | UnsetType = UNSET
    then: RestoreFigures | UnsetType = UNSET
    now: RestoreFigures | UnsetType = UNSET
    after: RestoreFigures | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class RestoreJob(AnyJob, kw_only=True):
    """A request to go back.

    result : the answer, once it is done
    """

    dry_run: bool
    result: Restored | None


class Reachable(Document):
    """An event that can be gone back to."""

    seq: Count
    generation: Count


class Reach(Document):
    """Which events can be gone back to.

    since   : every event from this one on can be gone back to; null: none
    exactly : besides, these events alone: the log after them is trimmed
    """

    since: Count | None
    exactly: list[Reachable]


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
