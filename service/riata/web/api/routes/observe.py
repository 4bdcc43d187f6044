"""The contract of the routes that take labelled rows. Their handler is `riata.web.api.observe`."""

from __future__ import annotations

from typing import Final

from riata.base.limits import ERRORS_SHOWN_MAX, ROWS_PER_REQUEST_MAX
from riata.web.api.route import AT, Hot, Route
from riata.web.api.schemas import COUNT, FLAG, REJECTED_CODES, YES_OR_NO, Schema, answer, array, query, record, ref, rows_body
from riata.web.auth.keys import OBSERVE

TAG: Final = "observe"
SCHEMAS: Final = {
    "Observed": record(
        {
            "accepted": COUNT,
            "duplicate": COUNT,
            "rejected": COUNT,
            "seq": {**COUNT, "description": "log position of the last accepted row"},
            "outcome": {"enum": ["accepted", "duplicate"]},
            "durability": {"enum": ["fsync", "memory"]},
            "errors": array(ref("RowError"), maxItems=ERRORS_SHOWN_MAX),
            "rejected_codes": REJECTED_CODES,
            "applied": {**YES_OR_NO, "description": "only with wait=applied: the served model includes these rows"},
        },
        optional=("rejected_codes", "applied"),
    )
}
OPTIONS: Final[tuple[Schema, ...]] = (
    query("wait", {"type": "string", "enum": ["applied"]}, "answer 200 once the served model includes the rows"),
    query("atomic", FLAG, "refuse all rows if any row is refused"),
    query(
        "ids",
        {"type": "integer", "minimum": 1, "maximum": ROWS_PER_REQUEST_MAX},
        "the number of rows: their event ids, 16 bytes each, follow the rows at the end of the body, in any format. A row with "
        "an event_id of its own keeps that one",
    ),
    query(
        "labels",
        {"type": "string", "enum": ["by_row"]},
        "refuse rows one by one, even if the labels of all rows are those of another setting `labels`",
    ),
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
        answer("Observed", 202, 200),
        (404, 429, 503, 507),
        OPTIONS,
        rows_body("Observation", "Observations", labelled=True),
    )


ROUTES: Final = (_observe("/observe"), _observe(f"{AT}/observe"))
