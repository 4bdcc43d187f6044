"""The route of backups."""

from __future__ import annotations

from typing import Final

from riata.web.api.route import Call, Route
from riata.web.api.schemas import Count, Document, answer
from riata.web.auth.keys import ADMIN, Forbidden
from riata.web.server.answers import Answer


class Backup(Document):
    """A copy of the store.

    directory : on the machine of the service, inside its data directory; yours to move away
    models    : the last event of each model in the copy; every event acknowledged before is in it
    """

    directory: str
    bytes: Count
    seconds: float
    models: dict[str, Count]


async def back_up(call: Call) -> Answer:
    """Copy the store; answers once the copy is durable. Takes no body."""
    call.options()
    key = call.key
    if key is not None and key.models is not None:
        raise Forbidden(f"the key {key.id} does not allow this: a backup holds every model, and the key is for some")
    return call.answer(await call.parts.admin.back_up(), 201)


TAG: Final = "operations"
ROUTES: Final = (
    Route(
        "POST",
        "/backup",
        (ADMIN,),
        back_up,
        "Copy the store of the running service into its data directory: log, event ids, snapshots and remembered predictions.",
        answer(Backup, 201),
        (409, 422, 503, 507),
    ),
)
