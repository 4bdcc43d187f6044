"""The open inference protocol, version 2: predictions as tensors, for clients and gateways that know no Riata.

Source: the Open Inference Protocol specification, the REST interface. Rows are read by `wire.tensors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

import riata
from riata.base.arrays import F64
from riata.base.errors import BadInput, RiataError, nearest
from riata.base.limits import BODY_BYTES_MAX, ROWS_PER_REQUEST_MAX
from riata.predict.model import Scores
from riata.predict.name_book import NameBook
from riata.predict.unknown_rows import unknown_rows
from riata.web.api.predictions import winners
from riata.web.api.problems import refuse_errors, refuse_rows
from riata.web.api.route import V2_AT, Call, Handler, Route
from riata.web.api.schemas import Count, Document, answer, json_body
from riata.web.auth.keys import ANY, PREDICT, WATCH
from riata.web.server.answers import NDJSON, Answer
from riata.wire.parse import explain_rows, parse_examples

Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]
Scalar = float | int | bool | str | None

TAG: Final = "open inference protocol"
EXTENSIONS: Final[list[str]] = []
_KNOWN_SHOWN: Final = 8


# Rows of features from tensors, as the open inference protocol has them: a tensor of n values is a column of n rows, one of
# n rows and k > 1 columns the features `name_0` to `name_{k-1}`.


class Tensor(msgspec.Struct):
    """A tensor of a request; `data` is flat in row order, or nested once."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    shape: Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(min_length=1, max_length=2)]
    datatype: Datatype
    data: list[Scalar | list[Scalar]]
    parameters: dict[str, Any] = {}


def rows_of(inputs: Sequence[Tensor]) -> list[dict[str, Scalar]]:
    """The features of each row; null is an absent value. Raises `BadInput` (bad_inference)."""
    rows = inputs[0].shape[0]
    if not 0 < rows <= ROWS_PER_REQUEST_MAX:
        raise bad(inputs[0], f"shape: expected 1 to {ROWS_PER_REQUEST_MAX:,} rows, got {rows:,}")
    made: list[dict[str, Scalar]] = [{} for _ in range(rows)]
    taken: set[str] = set()
    for one in inputs:
        columns = columns_of(one)
        if one.shape[0] != rows:
            raise bad(one, f"shape: {one.shape[0]:,} rows, but the input '{inputs[0].name[:64]}' has {rows:,}")
        flat = [value for each in one.data for value in (each if isinstance(each, list) else (each,))]
        if len(flat) != rows * columns:
            raise bad(one, f"data: {len(flat):,} values, but the shape {one.shape} has {rows * columns:,}")
        names = named(one)  # no more than there are data
        if any(isinstance(value, str) != (one.datatype == "BYTES") for value in flat if value is not None):
            raise bad(one, "data: strings are values of the datatype BYTES, and only of it")
        if not taken.isdisjoint(names):
            raise bad(one, "two inputs give the same feature")
        taken.update(names)
        for at, row in enumerate(made):
            values = zip(names, flat[at * columns : (at + 1) * columns], strict=True)
            row.update((name, value) for name, value in values if value is not None)
    return made


def bad(tensor: Tensor, why: str) -> RiataError:
    """The refusal of one input."""
    return BadInput(f"input '{tensor.name[:64]}': {why}", "bad_inference")


class Wanted(msgspec.Struct):
    """A tensor that the answer is to have."""

    name: str
    parameters: dict[str, Any] = {}


class InferenceRequest(msgspec.Struct):
    """The body of a request."""

    inputs: Annotated[list[Tensor], msgspec.Meta(min_length=1)]
    id: str | None = None
    outputs: list[Wanted] = []
    parameters: dict[str, Any] = {}


class TensorForm(Document):
    """A tensor without its data. shape : -1 stands for the number of rows."""

    name: str
    datatype: str
    shape: list[Annotated[int, Meta(ge=-1)]]


class OutputTensor(Document):
    """A tensor of the answer, flat in row order."""

    name: str
    datatype: str
    shape: list[Count]
    data: list[Annotated[Any, Meta(extra_json_schema={"type": ["number", "string", "null"]})]]


class InferenceServer(Document):
    """The service."""

    name: str
    version: str
    extensions: list[str]


class InferenceModel(Document):
    """What goes in and comes out of a model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorForm]
    outputs: list[TensorForm]


class InferenceReady(Document):
    """The model predicts."""

    name: str
    ready: bool


class InferenceParameters(Document):
    """What else is told of the rows. unknown_features : of all rows together, those that have no weight"""

    unknown_features: Count


class Inference(Document):
    """Predictions as tensors. parameters : absent if every feature has a weight"""

    model_name: str
    model_version: str
    outputs: list[OutputTensor]
    id: str | UnsetType = UNSET
    parameters: InferenceParameters | UnsetType = UNSET


MARGIN: Final = TensorForm("margin", "FP64", [-1])
PROBABILITY: Final = TensorForm("probability", "FP64", [-1])


async def server(call: Call) -> Answer:
    """Name and version of the service."""
    call.options()
    return call.answer(InferenceServer("riata", riata.__version__, EXTENSIONS))


async def metadata(call: Call) -> Answer:
    """What goes in and comes out. A sparse model takes any features, so the inputs are examples of the form."""
    model, _ = call.asked()
    published = call.parts.service.published(model)
    inputs = [TensorForm("<feature>", "FP64", [-1]), TensorForm("<category>", "BYTES", [-1])]
    outputs = outputs_of(published.config.classes.names)
    return call.answer(InferenceModel(model, [str(published.version)], "riata", inputs, outputs))


async def is_ready(call: Call) -> Answer:
    """Whether the model predicts. Raises `NotFound`, and as long as it is loaded `NotReady`."""
    model, _ = call.asked()
    call.parts.service.published(model)
    return call.answer(InferenceReady(model, True))


async def infer(call: Call) -> Answer:
    """Predict the rows of the tensors."""
    model, _ = call.asked()
    service = call.parts.service
    service.published(model)  # an unknown model is refused before its body is read
    asked = read_inference(await call.json(BODY_BYTES_MAX))
    published, context = service.published(model), service.context(model, labelled=False)
    rows = rows_of(asked.inputs)  # whose shapes are those of their data
    if published.examples and all(map(is_positional, asked.inputs)):
        require_known(asked.inputs, service.names(model))
    body = b"\n".join(msgspec.json.encode({"features": row}) for row in rows)

    def predicted() -> Scores:
        parsed = parse_examples(body, NDJSON.decode(), context, labelled=False)
        refuse_errors(parsed)
        scores = published.model.score(parsed.batch)
        if published.config.unknown_rows == "refuse":
            named = partial(explain_rows, body, NDJSON.decode(), context)
            refuse_rows(unknown_rows(scores, named, service.names(model), parsed.row), parsed.rows)
        return scores

    scores = await asyncio.to_thread(predicted)
    outputs, unknown = tensors(scores, published.config.classes.names, asked.outputs), int(scores.unknown.sum())
    found = Inference(model, str(published.version), outputs, UNSET if asked.id is None else asked.id)
    return call.answer(msgspec.structs.replace(found, parameters=InferenceParameters(unknown)) if unknown else found)


def is_positional(tensor: Tensor) -> bool:
    """Whether the features of an input are named by their positions."""
    return columns_of(tensor) > 1


def require_known(inputs: Sequence[Tensor], names: NameBook) -> None:
    """Raise `BadInput` (bad_inference) if no feature of these inputs has ever been learnt."""
    if any(names.hashes_of(named(one)) for one in inputs):
        return
    known = [] if names.kinds is None else [one.name[:64] for one in names.kinds]
    told = f"; it has {', '.join(known[:_KNOWN_SHOWN])}{' …' if len(known) > _KNOWN_SHOWN else ''}" if known else ""
    raise bad(
        inputs[0],
        f"the model has learnt none of the features {named(inputs[0])[0]} to {named(inputs[0])[-1]}{told}. Send an input of one "
        "column for each feature, with its name",
    )


def columns_of(tensor: Tensor) -> int:
    """Return how many features an input has, as its shape says."""
    return tensor.shape[1] if len(tensor.shape) == 2 else 1


def named(tensor: Tensor) -> list[str]:
    """Return the features of an input."""
    columns = columns_of(tensor)
    return [tensor.name] if columns == 1 else [f"{tensor.name}_{column}" for column in range(columns)]


def read_inference(document: dict[str, Any]) -> InferenceRequest:
    """Check the form of a request. Raises `BadInput` (bad_inference)."""
    try:
        return msgspec.convert(document, InferenceRequest)
    except msgspec.ValidationError as error:
        raise BadInput(f"open inference protocol: {error}", "bad_inference") from None


def outputs_of(classes: Sequence[str]) -> list[TensorForm]:
    """The tensors that an answer has unless some are named."""
    if classes:
        return [TensorForm("label", "BYTES", [-1]), TensorForm("probability", "FP64", [-1, len(classes)]), MARGIN]
    return [PROBABILITY, MARGIN, TensorForm("label", "FP64", [-1])]


def tensors(scores: Scores, classes: Sequence[str], wanted: Sequence[Wanted]) -> list[OutputTensor]:
    """The outputs that are wanted, all if none is named. Raises `BadInput` (bad_inference)."""
    data: dict[str, list[Any]] = {
        "probability": numbers(scores.probability if scores.by_class is None else scores.by_class.ravel()),
        "margin": numbers(scores.margin),
        "label": numbers(scores.label) if scores.by_class is None else winners(scores, classes),
    }
    offered = {one.name: one for one in outputs_of(() if scores.by_class is None else classes)}
    for one in wanted:
        if one.name not in offered:
            raise BadInput(f"outputs: {nearest(one.name[:64], offered)}", "bad_inference")
    chosen = [offered[one.name] for one in wanted] or list(offered.values())
    return [OutputTensor(one.name, one.datatype, [len(scores.margin), *one.shape[1:]], data[one.name]) for one in chosen]


def numbers(column: F64) -> list[float | None]:
    """As JSON has them; null for NaN."""
    return [None if np.isnan(value) else value for value in column.tolist()]


def _at_model(
    method: str, rest: str, handler: Handler, summary: str, schema: type[Document], scopes: tuple[str, ...], **more: Any
) -> Route:
    problems = (404, 422, 503) if method == "GET" else (404, 413, 503)
    return Route(method, f"{V2_AT}{rest}", scopes, handler, summary, answer(schema), problems, **more)


_EXAMPLE: Final = {"inputs": [{"name": "age", "shape": [2], "datatype": "FP64", "data": [41, 25]}]}
ROUTES: Final = (
    Route("GET", "/v2", ANY, server, "Name and version of the service.", answer(InferenceServer), (422,)),
    _at_model("GET", "", metadata, "The tensors that a model takes and gives.", InferenceModel, (PREDICT, WATCH)),
    _at_model("GET", "/ready", is_ready, "Whether a model predicts.", InferenceReady, (PREDICT, WATCH)),
    _at_model(
        "POST",
        "/infer",
        infer,
        "Predict rows whose features are tensors, one for each column.",
        Inference,
        (PREDICT,),
        body=json_body(InferenceRequest, _EXAMPLE),
    ),
)
