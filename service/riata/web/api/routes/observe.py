"""The contract of the routes that take labelled rows. Their handler is `riata.web.api.observe`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from riata.base.limits import ERRORS_SHOWN_MAX, ROWS_PER_REQUEST_MAX
from riata.web.api.options import choice, flag, whole
from riata.web.api.route import AT, Hot, Route
from riata.web.api.schemas import Count, Document, Example, PredictionLabel, RejectedCodes, RowError, answer, rows_body
from riata.web.auth.keys import OBSERVE

TAG: Final = "observe"


class Observed(Document, kw_only=True):
    """What became of the rows.

    seq     : log position of the last accepted row
    applied : only with wait=applied: the served model includes these rows
    """

    accepted: Count
    duplicate: Count
    rejected: Count
    rejected_codes: RejectedCodes | UnsetType = UNSET
    seq: Count
    outcome: Literal["accepted", "duplicate"]
    durability: Annotated[str, Meta(extra_json_schema={"enum": ["fsync", "memory"]})]
    errors: Annotated[list[RowError], Meta(max_length=ERRORS_SHOWN_MAX)]
    applied: bool | UnsetType = UNSET


WAIT: Final = choice("wait", "answer 200 once the served model includes the rows", ("applied",), None)
ATOMIC: Final = flag("atomic", "refuse all rows if any row is refused")
IDS: Final = whole(
    "ids",
    "the number of rows: their event ids, 16 bytes each, follow the rows at the end of the body, in any format. A row with "
    "an event_id of its own keeps that one",
    1,
    ROWS_PER_REQUEST_MAX,
    None,
)
LABELS: Final = choice(
    "labels", "refuse rows one by one, even if the labels of all rows are those of another setting `labels`", ("by_row",), None
)
OPTIONS: Final = (
    WAIT,
    ATOMIC,
    IDS,
    LABELS,
    {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
        "description": "rows without an event_id get the id key/index, with the index counted from 0; a retry is then safe",
    },
)


def _observe(path: str) -> Route:
    return Route(
        "POST",
        path,
        (OBSERVE,),
        Hot.OBSERVE,
        "Send labelled rows, or labels of predictions made with remember=true. 202: the rows are durable. 200: they are durable "
        "and the served model includes them (wait=applied).",
        answer(Observed, 202, 200),
        (404, 429, 503, 507),
        OPTIONS,
        rows_body((Example, PredictionLabel), labelled=True),
    )


ROUTES: Final = (_observe("/observe"), _observe(f"{AT}/observe"))
