"""The route of challengers: a model goes on as one that has followed it. `PUT` and `GET` of a model are in `models.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from riata.web.api.route import AT, Call, Route
from riata.web.api.schemas import (
    NAME_PATTERN,
    YES_OR_NO,
    Count,
    Document,
    ModelName,
    Object,
    Promotion,
    Schema,
    answer,
    json_body,
)
from riata.web.auth.keys import ADMIN, require_visible
from riata.web.server.answers import Answer


@dataclass(frozen=True, slots=True)
class ChallengerPromotion:
    """The body of a promotion: a model that follows this one."""

    challenger: Annotated[str, ("pattern", NAME_PATTERN)]
    force: bool = False


class Compared(Document):
    """The losses of two models over the same events.

    compared       : events whose losses are compared: whole blocks of events that both have learnt
    difference     : mean loss of the challenger minus that of the model, before learning
    standard_error : of the difference, over blocks of consecutive events
    interval       : two standard errors on each side of the difference
    """

    measure: str
    compared: Count
    difference: float | None
    standard_error: float | None
    interval: tuple[float, float] | None


class Follow(Document):
    """What a challenger follows.

    events     : learnt since it follows
    lag_events : in its log and not learnt yet
    detached   : whether the other model no longer knows it as a challenger
    """

    model: ModelName
    events: Count
    lag_events: Count
    detached: bool


class Challenger(Compared):
    """A model that learns the events of another.

    past : of a challenger with `backfill`: its loss over the events that the log had, minus the loss that the settings of the
        model have over them, both learnt from the oldest on
    """

    name: ModelName
    learner: Object
    events: Count
    non_zeros: Count
    past: Compared | None


class ChallengerVerdict(Compared):
    """Whether a challenger is better."""

    decision: Literal["PROMOTE", "HOLD", "REJECT"]
    why: str


class ChallengerPromoted(Promotion):
    """The model went on as its challenger."""

    challenger: ModelName
    verdict: ChallengerVerdict


async def promote(call: Call) -> Answer:
    """Have the model go on as one of its challengers. The interval of the difference decides, unless `force` is true."""
    model, _ = call.asked()
    call.parts.service.published(model)
    asked = await call.read(ChallengerPromotion)
    require_visible(call.request.scope, asked.challenger)
    return call.answer(await call.parts.admin.promote(model, asked.challenger, asked.force))


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


TAG: Final = "models"
ROUTES: Final = (
    Route(
        "POST",
        f"{AT}/promote",
        (ADMIN,),
        promote,
        "Have the model go on as one of its challengers, if that is better beyond doubt or by force. It is an event of the log.",
        answer(ChallengerPromoted),
        (404, 409, 503, 507),
        body=json_body(ChallengerPromotion, {"challenger": "faster", "force": False}),
    ),
)
