"""The route of challengers: a model goes on as one that has followed it. `PUT` and `GET` of a model are in `models.py`."""

from __future__ import annotations

from typing import Any, Final

from riata.base.errors import BadInput, nearest
from riata.run.candidates.challengers import CHALLENGERS_MAX
from riata.web.api.route import AT, Call, Route
from riata.web.api.schemas import COUNT, NAME_PATTERN, PROMOTION, TEXT, YES_OR_NO, Schema, answer, array, json_body, record, ref
from riata.web.auth.keys import ADMIN, require_visible
from riata.web.server.answers import Answer, json_answer


async def promote(call: Call) -> Answer:
    """Have the model go on as one of its challengers. The interval of the difference decides, unless `force` is true."""
    model, _ = call.asked()
    call.parts.service.published(model)
    challenger, force = read_promotion(await call.json())
    require_visible(call.request.scope, challenger)
    return json_answer(await call.parts.admin.promote(model, challenger, force))


def read_promotion(document: dict[str, Any]) -> tuple[str, bool]:
    """Read the body of a promotion: the challenger, and whether it is forced. Raises `BadInput`, which names the key."""
    for key in document:
        if key not in ("challenger", "force"):
            raise BadInput(f"{key}: unknown key; {nearest(key, ['challenger', 'force'])}", "unknown_key")
    if "challenger" not in document:
        raise BadInput("challenger: missing; name a model that follows this one", "missing_key")
    challenger, force = document["challenger"], document.get("force", False)
    if type(challenger) is not str:
        raise BadInput("challenger: expected the name of a model", "wrong_type")
    if type(force) is not bool:
        raise BadInput("force: expected true or false", "wrong_type")
    return challenger, force


def with_follow(config: Schema) -> Schema:
    """Return the schema of the document of `PUT`: a configuration, or what a challenger has other than the model it follows."""
    follow = {
        "type": "string",
        "pattern": NAME_PATTERN,
        "description": "a model whose events this one learns; its settings hold where the document has none",
    }
    backfill = {
        **YES_OR_NO,
        "default": False,
        "description": "with `follow`: learn what the log of that model still has first. 202 until that is done; send it again",
    }
    return {**config, "properties": {**config["properties"], "follow": follow, "backfill": backfill}}


_NUMBER_OR_NULL: Final = {"type": ["number", "null"]}
_NAME: Final = {"type": "string", "pattern": NAME_PATTERN}
_COMPARISON: Final = {
    "measure": TEXT,
    "compared": {**COUNT, "description": "events whose losses are compared: whole blocks of events that both have learnt"},
    "difference": {**_NUMBER_OR_NULL, "description": "mean loss of the challenger minus that of the model, before learning"},
    "standard_error": {**_NUMBER_OR_NULL, "description": "of the difference, over blocks of consecutive events"},
    "interval": {
        "anyOf": [array({"type": "number"}, minItems=2, maxItems=2), {"type": "null"}],
        "description": "two standard errors on each side of the difference",
    },
}
TAG: Final = "models"
SCHEMAS: Final = {
    "Follow": record(
        {
            "model": _NAME,
            "events": {**COUNT, "description": "learnt since it follows"},
            "lag_events": {**COUNT, "description": "in its log and not learnt yet"},
            "detached": {**YES_OR_NO, "description": "whether the other model no longer knows it as a challenger"},
        }
    ),
    "Challenger": record(
        {
            "name": _NAME,
            "learner": {"type": "object"},
            "events": COUNT,
            "non_zeros": COUNT,
            **_COMPARISON,
            "past": {
                "anyOf": [record(_COMPARISON), {"type": "null"}],
                "description": "of a challenger with `backfill`: its loss over the events that the log had, minus the loss that "
                "the settings of the model have over them, both learnt from the oldest on",
            },
        }
    ),
    "ChallengerPromotion": record({"challenger": _NAME, "force": {**YES_OR_NO, "default": False}}, optional=("force",)),
    "ChallengerPromoted": record(
        {
            "challenger": _NAME,
            **PROMOTION,
            "verdict": record(
                {"decision": {"type": "string", "enum": ["PROMOTE", "HOLD", "REJECT"]}, "why": TEXT, **_COMPARISON}
            ),
        }
    ),
}
CHALLENGERS: Final = array(ref("Challenger"), maxItems=CHALLENGERS_MAX, description="models that learn the events of this one")
FOLLOW: Final = {"anyOf": [ref("Follow"), {"type": "null"}], "description": "the model whose events it learns"}
ROUTES: Final = (
    Route(
        "POST",
        f"{AT}/promote",
        (ADMIN,),
        promote,
        "Have the model go on as one of its challengers, if that is better beyond doubt or by force. It is an event of the log.",
        answer("ChallengerPromoted"),
        (404, 409, 503, 507),
        body=json_body("ChallengerPromotion", {"challenger": "faster", "force": False}),
    ),
)
