"""Routes of models: create, list, describe, change, drop, metrics and weights."""

from __future__ import annotations

import asyncio
import contextlib
import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from riata.base.document import write_document
from riata.base.errors import BadInput
from riata.predict.explain import top_weights
from riata.run.config import read_config
from riata.run.creating import Compiling
from riata.run.damage import ModelDamaged
from riata.run.published import Published
from riata.web.answers import Answer, json_answer
from riata.web.body import content_type, read_body
from riata.web.document import read_json_object
from riata.web.gate import visible
from riata.web.options import SEQ_MAX, model_in_path, new_model_name, read_options, whole
from riata.web.responses import respond
from riata.web.service import AdminProtocol, ServiceProtocol
from riata.web.settings import DOCUMENT_BYTES_MAX, WEIGHTS_SHOWN_MAX, WebSettings

TOP_DEFAULT: Final = 50


@dataclass(frozen=True, slots=True)
class Asked:
    """The model name and the options of a request."""

    model: str
    options: dict[str, str]


def asked(request: Request, *known: str) -> Asked:
    """Read the model name and the options. Raises `NotFound` for invalid names, `BadInput` for options that are not `known`."""
    options = read_options(request.scope["query_string"], known)
    return Asked(model_in_path(request.path_params), options)


async def json_body(request: Request, settings: WebSettings) -> dict[str, Any]:
    """Read the body of a request as a JSON object."""
    body = await read_body(request.scope, request.receive, DOCUMENT_BYTES_MAX, settings.body_deadline_s)
    return read_json_object(body, content_type(request.scope))


def model_routes(service: ServiceProtocol, admin: AdminProtocol, settings: WebSettings) -> APIRouter:
    """Build the routes of this module."""
    router = APIRouter(tags=["models"])

    @router.get("/models")
    async def list_models(request: Request) -> Response:
        """List the models, each with its learner, its counts and its served version."""
        read_options(request.scope["query_string"], ())
        shown = [line for line in service.models() if visible(request.scope, line["name"])]
        return respond(json_answer({"models": shown}))

    @router.put("/models/{model}")
    async def put_model(request: Request) -> Response:
        """Create a model from a configuration document, or change its changeable settings. 201 if it was created; 202 if it
        will be, once the kernels of its learner are compiled."""
        name = new_model_name(request.path_params["model"])
        read_options(request.scope["query_string"], ())
        return respond(await put(admin, name, await json_body(request, settings)))

    @router.get("/models/{model}")
    async def describe_model(request: Request) -> Response:
        """Configuration, counters, served version, progressive metrics and memory by part."""
        return respond(json_answer(service.describe(asked(request).model)))

    @router.delete("/models/{model}")
    async def drop_model(request: Request) -> Response:
        """Drop a model, damaged or not, with its log and checkpoints. `confirm` repeats the name."""
        at = asked(request, "confirm")
        require_there(service, at.model)
        if at.options.get("confirm") != at.model:
            raise BadInput("confirm: repeat the name of the model; dropping it deletes all its data", "confirm_needed")
        await admin.drop_model(at.model)
        return respond(json_answer({"name": at.model, "dropped": True}))

    @router.get("/models/{model}/metrics")
    async def model_metrics(request: Request) -> Response:
        """Test-then-train figures; with `since` also the points of the learning curve after that event."""
        at = asked(request, "since")
        since = whole(at.options, "since", None, 0, SEQ_MAX)
        return respond(json_answer(metrics_document(service.published(at.model), since)))

    @router.get("/models/{model}/weights")
    async def model_weights(request: Request) -> Response:
        """The largest weights, with slots and every name seen in the slot."""
        at = asked(request, "top", "prefix")
        top = whole(at.options, "top", TOP_DEFAULT, 1, WEIGHTS_SHOWN_MAX) or TOP_DEFAULT
        published, book = service.published(at.model), service.names(at.model)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, top_weights, published.model, top, at.options.get("prefix", ""), book)
        document = {
            "model": source(published),
            "intercept": published.model.weights.intercept,
            "bits": published.model.weights.bits,
            "non_zeros": published.model.non_zeros,
            "weights": [asdict(weight) for weight in found],
        }
        return respond(json_answer(document))

    return router


async def put(admin: AdminProtocol, name: str, body: dict[str, Any]) -> Answer:
    """Create or change a model. If its kernels have to be compiled first, answer 202 at once."""
    location = (b"location", f"/models/{name}".encode())
    try:
        created, config = await admin.put_model(name, body, patient=False)
    except Compiling as waiting:
        again = (b"retry-after", str(math.ceil(waiting.retry_after_s)).encode())
        document = {"name": name, "created": False, "state": "compiling", "config": write_document(read_config(body))}
        return json_answer(document, 202, (location, again))
    document = {"name": name, "created": created, "state": "ready", "config": write_document(config)}
    return json_answer(document, 201 if created else 200, (location,) if created else ())


def require_there(service: ServiceProtocol, model: str) -> None:
    """Raise as `published` does unless the model exists, damaged or not."""
    with contextlib.suppress(ModelDamaged):
        service.published(model)


def source(published: Published) -> dict[str, Any]:
    """Return name, version and seq of the model that an answer comes from."""
    return {"name": published.model.name, "version": published.version, "seq": published.model.seq}


def metrics_document(published: Published, since: int | None) -> dict[str, Any]:
    """Return the metrics of a model; `since` adds the points of its learning curve after that event."""
    document = {"model": source(published), **published.figures, "non_zeros": published.model.non_zeros}
    if since is not None:
        document["history"] = [point for point in published.history if point["seq"] > since]
    return document
