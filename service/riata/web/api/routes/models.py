"""Routes of models: create, list, describe, drop, metrics and weights."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from riata.base.clock import rfc3339
from riata.base.document import write_document
from riata.base.errors import BadInput, RiataError, nearest
from riata.learn.learner import Weights as LearntWeights
from riata.predict.explain import top_weights
from riata.predict.model import Model as Predictor
from riata.predict.posterior import PosteriorModel, require_posterior
from riata.run.candidates.challengers import CHALLENGERS_MAX, Backfilling
from riata.run.log.event_times import EventTime
from riata.run.served_model import NotServedYet
from riata.run.service import Service
from riata.run.state.config import ModelConfig
from riata.run.state.damage import ModelDamaged
from riata.run.writer.published import Published
from riata.watch.warnings import CODES
from riata.web.api.options import SEQ_MAX, flag, new_model_name, share, whole, words
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes import challengers
from riata.web.api.routes.challengers import Challenger, Follow
from riata.web.api.routes.jobs import accepted
from riata.web.api.schema_of import schema_of
from riata.web.api.schemas import (
    Count,
    Document,
    Figure,
    Figures,
    ModelName,
    Named,
    Number,
    Object,
    Source,
    Time,
    answer,
    json_body,
)
from riata.web.auth.keys import ADMIN, ANY, PREDICT, WATCH, require_visible, visible
from riata.web.server.answers import Answer, json_answer
from riata.web.settings import MODEL_BYTES_MAX, WEIGHTS_SHOWN_MAX

TOP_DEFAULT: Final = 50
LEVEL: Final = 0.95
CONFIRM: Final = words("confirm", "the name of the model again, to confirm", required=True)
SINCE: Final = whole("since", "add the points of the learning curve after this event", 0, SEQ_MAX, None)
TIMES: Final = flag("times", "with since: add when the event of each point was accepted; null if the log has dropped it")
TOP: Final = whole("top", "number of weights", 1, WEIGHTS_SHOWN_MAX, TOP_DEFAULT)
PREFIX: Final = words("prefix", "only weights whose name begins with this prefix")
SHARE: Final = share("level", "probability of the intervals of the weights; the learner has to keep a posterior", default=LEVEL)
CLASS: Final = words("class", "of a model of several classes: the class whose weights are meant")

Point = Annotated[
    Object,
    Meta(
        extra_json_schema={
            "properties": {"time": {"type": ["string", "null"]}, "ts": {"type": ["string", "null"]}},
            "additionalProperties": {"type": ["number", "null"]},
        }
    ),
]


class ModelWarning(Document):
    """What is wrong with a model.

    detail   : what was measured, and what to set
    features : names of the features concerned; empty if it concerns the model as a whole
    """

    code: Annotated[str, Meta(extra_json_schema={"enum": list(CODES)})]
    detail: str
    features: list[str]


class Metrics(Document, kw_only=True):
    """Test-then-train figures of a model.

    calibration        : of all events, by probability
    window_calibration : the same of the window
    cost               : if the model has costs: mean cost of an event of the window, realised with the labels that came, expected
        by the model, and that of other rules
    classes            : of several classes: recall, precision, f1 and log loss of each by horizon
    macro              : of several classes: the means of these figures over the classes that occurred
    drift              : if the model has a detector: its signals, and the last alarms, newest first
    mixed              : if the learner mixes several step sizes: the steps, the share of each in the served weights, and that of
        the base rate
    recent             : of the last 1,000 events, or those of the window if it has fewer; `refused`: rows that this process
        refused while it accepted the last 1,000
    minute             : of the events that were learnt in the last minute; `seconds`: how long that is, 60 to 65, less after a
        start or a restore; `refused`: rows that this process refused in it. The AUC is that of a coarse histogram
    history            : with since: points of the learning curve; those learnt in another log have the seq of their import. With
        times: when the event of the point was accepted, and the newest `ts` of the rows of its request up to it. Both are read
        from the log, and null for events that it no longer has
    """

    model: Source
    cumulative: Figures
    faded: Figures
    window: Figures
    recent: Figures | UnsetType = UNSET
    minute: Figures | UnsetType = UNSET
    calibration: list[dict[str, Figure]]
    window_calibration: list[dict[str, Figure]] | UnsetType = UNSET
    cost: dict[str, Figure] | UnsetType = UNSET
    classes: list[Object] | UnsetType = UNSET
    macro: Object | UnsetType = UNSET
    drift: Object | UnsetType = UNSET
    mixed: Object | UnsetType = UNSET
    warnings: list[ModelWarning]
    non_zeros: Count
    history: list[Point] | UnsetType = UNSET


class Served(Document):
    """What is served of a model."""

    version: Count
    seq: Count
    generation: Count
    published: Time
    age_s: float


class ModelLine(Document):
    """A model in short.

    mode               : mode of the learner, if it has several
    memory_bytes_total : memory of the model; `memory_bytes` of one model has its parts
    """

    name: ModelName
    learner: str
    mode: str | None
    examples: Count
    skipped: Count
    non_zeros: Count
    seq_logged: Count
    seq_applied: Count
    memory_bytes_total: Count
    served: Served


class DamagedModel(Document):
    """A model that is damaged.

    damaged : what is damaged, and the command that repairs it
    """

    name: ModelName
    damaged: str


class UnservedModel(Document):
    """A model that is not served yet.

    waits : what is done before it is served
    """

    name: ModelName
    waits: str


MODEL_LIST: Final = Named(
    "ModelList",
    lambda: {
        "type": "object",
        "properties": {"models": {"type": "array", "items": {"anyOf": [ModelLine, DamagedModel, UnservedModel]}}},
        "required": ["models"],
        "additionalProperties": False,
    },
)


class StdError(Document):
    """Whether predictions have standard errors."""

    available: bool
    why_not: str | None


class Names(Document):
    """The names of features that are kept."""

    kept: Count
    kept_max: Count


class ModelLog(Document):
    """The log of a model."""

    last_seq: Count
    lineage: str


class Model(ModelLine):
    """All about a model.

    follow      : the model whose events it learns
    challengers : models that learn the events of this one
    """

    config: Object
    follow: Follow | None
    challengers: Annotated[list[Challenger], Meta(max_length=CHALLENGERS_MAX)]
    warnings: list[ModelWarning]
    metrics: Object
    drift: Object | None
    mixed: Object | None
    memory_bytes: Object
    std_error: StdError
    posterior: Object | None
    vocabulary_full: bool
    names: Names
    log: ModelLog


class ModelPut(Document):
    """A model after it was created or changed.

    job : while it is backfilling
    """

    name: str
    created: bool
    state: Literal["ready", "backfilling"]
    config: Object
    job: str | UnsetType = UNSET


class ModelDropped(Document):
    """A model was dropped."""

    name: str
    dropped: bool


class Marginal(Document):
    """The distribution of a weight."""

    level: Number
    low: Number
    high: Number
    positive: Number


class ModelWeight(Document):
    """A weight.

    slot      : hash >> (32 - bits)
    std_error : approximate standard error of the weight, as in a prediction; null if unknown
    posterior : if the learner keeps a posterior: the central interval of probability level of the weight, and the probability
        that it is above zero
    """

    feature: str | None
    slot: Count
    weight: Number
    names: list[str]
    std_error: Annotated[Figure, Meta(extra_json_schema={"minimum": 0})]
    posterior: Marginal | UnsetType = UNSET


class Weights(Document):
    """The largest weights of a model.

    shaped_columns : how many numeric columns add what their weights do not show, see `GET /models/{model}/shapes`
    intercept_posterior : if the learner keeps a posterior: the central interval of probability level of the weight, and the
        probability that it is above zero
    """

    model: Source
    intercept: Number
    bits: Annotated[int, Meta(ge=1, le=32)]
    non_zeros: Count
    shaped_columns: Count
    weights: list[ModelWeight]
    intercept_posterior: Marginal | UnsetType = UNSET


async def list_models(call: Call) -> Answer:
    """List the models, each with its learner, its counts and its served version."""
    call.options()
    shown = [line for line in call.parts.service.models() if visible(call.request.scope, line["name"])]
    return json_answer({"models": shown})


async def put_model(call: Call) -> Answer:
    """Create a model from a configuration document, or change its changeable settings. 201 if it was created; 202 while a
    challenger learns the log of its leader: it follows when the request is sent again."""
    name = new_model_name(call.request.path_params["model"])
    call.options()
    body = await call.json(MODEL_BYTES_MAX)
    if type(leader := body.get("follow")) is str:
        require_visible(call.request.scope, leader)
    location = (b"location", f"/models/{name}".encode())
    try:
        created, config = await call.creating(name, lambda: call.parts.admin.put_model(name, body, patient=False))
    except Backfilling as waiting:
        again = (b"retry-after", str(math.ceil(waiting.retry_after_s)).encode())
        config, job = call.parts.admin.read(body), waiting.job
        document = {"name": name, "created": False, "state": "backfilling", "config": write_document(config), "job": job.id}
        return accepted(call, job, document, again)
    document = {"name": name, "created": created, "state": "ready", "config": write_document(config)}
    return call.answer(document, 201 if created else 200, *([location] if created else ()))


async def describe_model(call: Call) -> Answer:
    """Configuration, counters, served version, progressive metrics and memory by part."""
    model, _ = call.asked()
    service, scope = call.parts.service, call.request.scope
    document = service.describe(model)
    with contextlib.suppress(RiataError):  # nothing is served yet
        document["warnings"] = call.parts.meters.warnings(service.published(model), service.names(model))
    return call.answer({**document, "challengers": [one for one in document["challengers"] if visible(scope, one["name"])]})


async def drop_model(call: Call) -> Answer:
    """Drop a model, served or not, with its log and checkpoints. `confirm` repeats the name."""
    model, options = call.asked()
    require_there(call.parts.service, model)
    if CONFIRM.of(options) != model:
        raise BadInput("confirm: repeat the name of the model; dropping it deletes all its data", "confirm_needed")
    await call.parts.admin.drop_model(model)
    return call.answer({"name": model, "dropped": True})


async def model_metrics(call: Call) -> Answer:
    """Test-then-train figures; with `since` also the points of the learning curve after that event."""
    model, options = call.asked()
    since = SINCE.of(options)
    published = call.parts.service.published(model)
    meters = call.parts.meters
    warnings = meters.warnings(published, call.parts.service.names(model))
    document = metrics_document(published, meters.figures(published), warnings, since)
    if TIMES.of(options) and since is not None:
        points = document["history"]
        times = await call.parts.service.event_times(model, [point["seq"] for point in points])
        document["history"] = dated(points, times)
    return call.answer(document)


async def model_weights(call: Call) -> Answer:
    """The largest weights, with slots and every name seen in the slot."""
    model, options = call.asked()
    top = TOP.of(options)
    published, book = call.parts.service.published(model), call.parts.service.names(model)
    loop = asyncio.get_running_loop()
    weights, prefix = weights_of_class(published, CLASS.of(options)), PREFIX.of(options) or ""
    of_model = published.model.weights
    errors = published.model.weight_errors if weights is of_model else lambda: np.full(len(weights.slot), np.nan)
    found = await loop.run_in_executor(None, lambda: top_weights(weights, errors(), top, prefix, book))
    level = SHARE.of(options)
    has = isinstance(published.model, PosteriorModel)
    told = await loop.run_in_executor(None, marginals_of, published.model, level or LEVEL) if has or level is not None else None
    document = {
        "model": source(published),
        "intercept": weights.intercept,
        "bits": weights.bits,
        "non_zeros": weights.non_zeros,
        "shaped_columns": weights.shaped_columns,
        "weights": found,
    }
    if told is not None:
        document |= {
            "intercept_posterior": told[-1],
            "weights": [asdict(weight) | {"posterior": told[weight.slot]} for weight in found],
        }
    return call.answer(document)


def weights_of_class(published: Published, name: str | None) -> LearntWeights:
    """Return the weights of a model, of several classes those of the class of this name. Raises `BadInput` (code `bad_option`)
    if there is no such class, or if a class is missing or given to a model that has none."""
    weights, names = published.model.weights, published.config.classes.names
    if weights.heads is None:
        if name is not None:
            raise BadInput("class: this model has no classes by name; leave it out", "bad_option")
        return weights
    if name not in names:
        told = "the model has several classes; name one" if name is None else nearest(name[:64], names)
        raise BadInput(f"class: {told}", "bad_option")
    return weights.heads[names.index(name)]


def marginals_of(model: Predictor, level: float) -> dict[int, dict[str, float]]:
    """Return the distribution of each weight by its slot; that of the intercept by -1. Raises as `require_posterior` does."""
    base, each = require_posterior(model).marginals(level)
    named = zip([-1, *model.weights.slot.tolist()], [base, *each], strict=True)
    return {slot: {"level": level, **asdict(marginal)} for slot, marginal in named}


def require_there(service: Service, model: str) -> None:
    """Raise as `published` does unless the model exists, served or not."""
    with contextlib.suppress(ModelDamaged, NotServedYet):
        service.published(model)


def source(published: Published) -> dict[str, Any]:
    """Return name, version and seq of the model that an answer comes from."""
    return {"name": published.model.origin.name, "version": published.version, "seq": published.model.seq}


def metrics_document(
    published: Published, figures: dict[str, Any], warnings: list[dict[str, Any]], since: int | None
) -> dict[str, Any]:
    """Return the metrics of a model; `since` adds the points of its learning curve after that event."""
    non_zeros = published.model.weights.non_zeros
    # Slices have a route of their own; the edition of a newer version may have more.
    figures = {name: value for name, value in figures.items() if name in Metrics.__struct_fields__}
    document = {"model": source(published), **figures, "non_zeros": non_zeros, "warnings": warnings}
    if since is not None:
        document["history"] = [point for point in published.history if point["seq"] > since]
    return document


TAG: Final = "models"
CONFIG: Final = Named("ModelConfig", lambda: challengers.with_follow(schema_of(ModelConfig)))
_SEEN: Final = (PREDICT, WATCH)
_READ: Final = (404, 422, 503)

ROUTES: Final = (
    Route("GET", "/models", ANY, list_models, "List all models.", answer(MODEL_LIST), (422, 503)),
    Route(
        "PUT",
        AT,
        (ADMIN,),
        put_model,
        "Create a model, or change the changeable settings of an existing one. With `follow` it learns the events of another.",
        answer(ModelPut, 200, 201, 202),
        (404, 409, 503, 507),
        body=json_body(CONFIG, {"learner": {"kind": "truncated_gradient"}, "labels": "0/1"}),
        creates=True,
    ),
    Route("GET", AT, ANY, describe_model, "Show one model.", answer(Model), _READ),
    Route(
        "DELETE",
        AT,
        (ADMIN,),
        drop_model,
        "Drop a model.",
        answer(ModelDropped),
        (*_READ, 409),
        (CONFIRM,),
    ),
    Route("GET", f"{AT}/metrics", _SEEN, model_metrics, "Test-then-train figures.", answer(Metrics), _READ, (SINCE, TIMES)),
    Route(
        "GET",
        f"{AT}/weights",
        _SEEN,
        model_weights,
        "The largest weights.",
        answer(Weights),
        (*_READ, 409),
        (TOP, PREFIX, SHARE, CLASS),
    ),
)


# The points of a learning curve with their times, as answers show them.


def dated(points: Sequence[Mapping[str, Any]], times: Sequence[EventTime]) -> list[dict[str, Any]]:
    """Return the points with the times of their events; None where unknown."""
    return [
        {**point, "time": _text(time.accepted_ms), "ts": _text(time.ts_ms)} for point, time in zip(points, times, strict=True)
    ]


def _text(time_ms: int | None) -> str | None:
    return None if time_ms is None else rfc3339(time_ms)
