"""Routes to tune a model while it learns: the regularisation path, and changing settings."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from riata.base.document import write_document
from riata.base.errors import BadInput
from riata.learn.registry import SPECS
from riata.run.state.config import ModelConfig, require_one_margin
from riata.run.state.config_changes import CHANGEABLE
from riata.run.writer.queue import PathQuestion
from riata.web.api.options import positive, whole
from riata.web.api.route import AT, Call, Route
from riata.web.api.schema_of import schema_of
from riata.web.api.schemas import Count, Document, Figure, Named, Number, Object, Schema, Source, answer, json_body
from riata.web.auth.keys import ADMIN, PREDICT, WATCH
from riata.web.server.answers import Answer
from riata.web.settings import GAMMAS_DEFAULT, GAMMAS_MAX, GAMMAS_MIN
from riata.wire.encoder import EncoderConfig

Gamma = Annotated[Number, Meta(extra_json_schema={"minimum": 0})]
Loss = Annotated[Figure, Meta(extra_json_schema={"minimum": 0})]


class PathPoint(Document):
    """The optimum under one penalty.

    objective      : log-likelihood of the sketch minus penalties, relative to that of all weights zero
    in_force       : whether this is the penalty that the model learns with now
    log_loss       : test-then-train, if this penalty is among the learner's shadows; otherwise null. An estimate unless it is the
        penalty in force: the sketch is linearised about the weights of that one
    faded_log_loss : test-then-train, if this penalty is among the learner's shadows; otherwise null. An estimate unless it is the
        penalty in force: the sketch is linearised about the weights of that one
    """

    gamma: Gamma
    non_zeros: Count
    objective: Number
    in_force: bool
    log_loss: Loss
    faded_log_loss: Loss


class Shadow(Document):
    """A penalty that the learner follows beside its own."""

    gamma: Gamma
    weight: Gamma
    log_loss: Gamma
    faded_weight: Gamma
    faded_log_loss: Gamma


class Path(Document):
    """The regularisation path.

    points         : from the largest penalty to the smallest, including the current one and those of the shadows
    log_loss       : test-then-train, of the model itself under the penalties it had at the time
    faded_log_loss : test-then-train, of the model itself under the penalties it had at the time
    """

    model: Source
    gamma: Gamma
    log_loss: Loss
    faded_log_loss: Loss
    points: list[PathPoint]
    shadows: list[Shadow]


class ModelChanged(Document):
    """The configuration of a model after a change.

    seq : the served model includes this log position
    """

    name: str
    created: bool
    config: Object
    seq: Count


GAMMAS: Final = whole("gammas", "number of penalties in the grid", GAMMAS_MIN, GAMMAS_MAX, GAMMAS_DEFAULT)
FROM: Final = positive(
    "from", "largest penalty of the grid; by default the smallest one that makes every weight it applies to zero"
)
TO: Final = positive("to", "smallest penalty of the grid, below `from`; by default a hundredth of the current one")


async def model_path(call: Call) -> Answer:
    """The regularisation path: number of weights and objective under other penalties, for the data so far. Read only."""
    model, options = call.asked()
    require_one_margin(call.parts.service.published(model).config, "a regularisation path")
    return call.answer(await call.parts.service.path(model, read_path_question(options)))


async def change_model(call: Call) -> Answer:
    """Change settings of a model while it learns; answers once the served model has them."""
    model, _ = call.asked()
    call.parts.service.published(model)
    config, seq = await call.parts.admin.change(model, await call.json())
    return call.answer({"name": model, "created": False, "config": write_document(config), "seq": seq})


def read_path_question(options: dict[str, str]) -> PathQuestion:
    """Read the options of a path. Raises `BadInput` (bad_option) if they do not form a grid."""
    top, bottom = FROM.of(options), TO.of(options)
    if top is not None and bottom is not None and top <= bottom:
        raise BadInput("from: expected a number above to; the path goes from large penalties to small ones", "bad_option")
    return PathQuestion(GAMMAS.of(options), top, bottom)


def _change() -> Schema:
    """Return the schema of a PATCH body: the changeable settings of a model and of its learner."""
    whole_config = schema_of(ModelConfig)["properties"]
    whole_config |= {"fields": schema_of(EncoderConfig)["properties"]["fields"]}
    settings = {name: whole_config[name] for name in sorted(CHANGEABLE)}
    for spec in SPECS.values():
        for name in sorted(spec.adjustable):
            settings[name] = schema_of(spec.config)["properties"][name]
    for setting in settings.values():
        setting.pop("default", None)  # an absent setting stays as it is
    return {"type": "object", "properties": settings, "additionalProperties": False}


TAG: Final = "models"
MODEL_CHANGE: Final = Named("ModelChange", _change)
ROUTES: Final = (
    Route(
        "GET",
        f"{AT}/path",
        (PREDICT, WATCH),
        model_path,
        "The regularisation path: the weights that other penalties would choose from what was learnt so far. Changes nothing.",
        answer(Path),
        (404, 409, 422, 503),
        (GAMMAS, FROM, TO),
    ),
    Route(
        "PATCH",
        AT,
        (ADMIN,),
        change_model,
        "Change settings of a model while it learns; answers once the served model uses them.",
        answer(ModelChanged),
        (404, 409, 503, 507),
        body=json_body(MODEL_CHANGE, {"publish_every_ms": 200}),
    ),
)
