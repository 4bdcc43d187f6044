"""Routes of snapshots: list, save, restore, export and import."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from riata.base.document import write_document
from riata.base.errors import BadInput, Corrupt, Malformed, nearest
from riata.predict.name_book import NameBook
from riata.run.published import Published
from riata.web.answers import Answer, json_answer
from riata.web.body import content_type, read_body
from riata.web.document import check_type
from riata.web.models import asked, json_body, source
from riata.web.options import SEQ_MAX, new_model_name, read_options
from riata.web.responses import respond
from riata.web.service import AdminProtocol, ServiceProtocol
from riata.web.settings import WebSettings

BINARY: Final = "application/octet-stream"
EXPORT_FORMATS: Final = ("binary", "json")


def snapshot_routes(service: ServiceProtocol, admin: AdminProtocol, settings: WebSettings) -> APIRouter:
    """Build the routes of this module."""
    router = APIRouter(tags=["snapshots"])

    @router.get("/models/{model}/snapshots")
    async def list_snapshots(request: Request) -> Response:
        """The retained generations."""
        return respond(json_answer({"snapshots": await admin.snapshots(asked(request).model)}))

    @router.post("/models/{model}/snapshots")
    async def snapshot_now(request: Request) -> Response:
        """Save a snapshot; answers once it is durable. Takes no body."""
        return respond(json_answer(await admin.snapshot_now(asked(request).model), 201))

    @router.post("/models/{model}/restore")
    async def restore(request: Request) -> Response:
        """Restore the content of a generation. The log continues; the restore is an event in it."""
        at = asked(request)
        service.published(at.model)
        generation = read_generation(await json_body(request, settings))
        return respond(json_answer(await admin.restore(at.model, generation)))

    @router.get("/models/{model}/export")
    async def export(request: Request) -> Response:
        """Export a checkpoint as a self-describing binary, or with `format=json` the served model in readable form."""
        at = asked(request, "format")
        kind = at.options.get("format", "binary")
        if kind not in EXPORT_FORMATS:
            raise BadInput(f"format: {nearest(kind[:64], EXPORT_FORMATS)}", "bad_option")
        published = service.published(at.model)
        if kind == "json":
            loop = asyncio.get_running_loop()
            return respond(await loop.run_in_executor(None, readable, published, service.names(at.model)))
        disposition = f'attachment; filename="{at.model}.riata"'.encode()
        content = await admin.export(at.model)
        return respond(Answer(200, content, BINARY.encode(), ((b"content-disposition", disposition),)))

    @router.post("/models/{model}/import")
    async def import_model(request: Request) -> Response:
        """Import an exported checkpoint; the model is created if it does not exist."""
        name = new_model_name(request.path_params["model"])
        read_options(request.scope["query_string"], ())
        check_type(content_type(request.scope), BINARY)
        bytes_max = min(settings.import_bytes_max, settings.bodies_bytes_max)  # otherwise refused with 503 every time
        content = await read_body(request.scope, request.receive, bytes_max, settings.body_deadline_s)
        try:
            return respond(json_answer(await admin.import_model(name, content, patient=False)))
        except Corrupt as error:  # the client's bytes, not ours
            raise Malformed(f"the body is not an export of a model: {error.detail}", "not_an_export") from error

    return router


def read_generation(document: dict[str, Any]) -> int:
    """Read the body of a restore. Raises `BadInput`, which names the key."""
    for key in document:
        if key != "generation":
            raise BadInput(f"{key}: unknown key; did you mean 'generation'?", "unknown_key")
    generation = document.get("generation")
    if type(generation) is not int or not 1 <= generation <= SEQ_MAX:
        raise BadInput("generation: expected the number of a retained generation", "wrong_type")
    return generation


def readable(published: Published, names: NameBook) -> Answer:
    """Return the served model as JSON: configuration, figures, and each weight with the names seen in its slot."""
    weights = published.model.weights
    document = {
        "model": source(published),
        "config": write_document(published.config),
        "link": weights.link,
        "bits": weights.bits,
        "intercept": weights.intercept,
        "non_zeros": published.model.non_zeros,
        "weights": [
            {"slot": slot, "weight": beta, "names": names.in_slot(slot, weights.bits)}
            for slot, beta in zip(weights.slot.tolist(), weights.beta.tolist(), strict=True)
        ],
        "figures": published.figures,
    }
    return json_answer(document)
