"""The route of the card of a model."""

from __future__ import annotations

import asyncio
from typing import Final

from riata.base.clock import rfc3339
from riata.base.errors import BadInput, nearest
from riata.run.log.event_times import UNKNOWN
from riata.web.api.card import HORIZONS, card_of, markdown
from riata.web.api.route import AT, Call, Route
from riata.web.api.schemas import COUNT, FIGURE, NUMBER, TEXT, TIME, array, json_content, query, record, ref
from riata.web.auth.scopes import ADMIN, WATCH
from riata.web.server.answers import Answer, json_answer

FORMATS: Final = ("markdown", "json")


async def card(call: Call) -> Answer:
    """The card of a model: Markdown for people, or with `format=json` the same as a document."""
    model, options = call.asked()
    form = options.get("format", FORMATS[0])
    if form not in FORMATS:
        raise BadInput(f"format: {nearest(form[:64], FORMATS)}", "bad_option")
    service = call.parts.service
    published, names = service.published(model), service.names(model)
    seq = published.model.seq
    events = await service.event_times(model, [1, seq]) if seq else [UNKNOWN, UNKNOWN]
    times = [None if one.accepted_ms is None else rfc3339(one.accepted_ms) for one in events]
    changes, warnings = await service.changes(model), call.parts.meters.warnings(published, names)
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(None, card_of, published, names, (times[0], times[1]), changes, warnings)
    if form == "json":
        return json_answer(found)
    return Answer(200, markdown(found).encode(), b"text/markdown; charset=utf-8")


_ANYTHING: Final = {"type": "object"}
_TIME: Final = {"anyOf": [TIME, {"type": "null"}], "description": "null if the log has dropped the event"}
TAG: Final = "models"
SCHEMAS: Final = {
    "Card": record(
        {
            "model": record({"name": TEXT, "version": COUNT, "seq": COUNT, "lineage": TEXT}),
            "made_by": record({"riata": TEXT, "algorithm": COUNT}),
            "learner": record({"kind": TEXT, "about": TEXT}),
            "config": _ANYTHING,
            "settings": {**_ANYTHING, "description": "those that differ from the defaults, by path"},
            "data": record({"examples": COUNT, "skipped": COUNT, "first_event": _TIME, "last_event": _TIME}),
            "figures": record({name: ref("Figures") for name in HORIZONS}),
            "cost": {"anyOf": [{**_ANYTHING, "additionalProperties": FIGURE}, {"type": "null"}]},
            "warnings": array(ref("Warning")),
            "weights": record(
                {
                    "non_zeros": COUNT,
                    "intercept": NUMBER,
                    "link": TEXT,
                    "largest": array(
                        record({"feature": {"type": ["string", "null"]}, "slot": COUNT, "weight": NUMBER, "std_error": FIGURE})
                    ),
                }
            ),
            "changes": array(_ANYTHING),
        }
    )
}
_FORMAT: Final = query("format", {"type": "string", "enum": list(FORMATS), "default": FORMATS[0]}, "form of the answer")
ROUTES: Final = (
    Route(
        "GET",
        f"{AT}/card",
        (ADMIN, WATCH),
        card,
        "The card of a model: configuration, data, figures, warnings, largest weights and changes, to be kept beside a decision.",
        {200: {"text/markdown": {"schema": TEXT}, **json_content("Card")}},
        (404, 422, 503),
        (_FORMAT,),
    ),
)
