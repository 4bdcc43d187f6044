"""Routes to tune a model while it learns: the regularisation path, and changing settings."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from riata.base.document import write_document
from riata.base.errors import BadInput
from riata.run.sketch_copy import PathQuestion
from riata.web.answers import json_answer
from riata.web.models import asked, json_body
from riata.web.options import positive, whole
from riata.web.responses import respond
from riata.web.service import AdminProtocol, ServiceProtocol
from riata.web.settings import GAMMAS_DEFAULT, GAMMAS_MAX, GAMMAS_MIN, WebSettings


def tuning_routes(service: ServiceProtocol, admin: AdminProtocol, settings: WebSettings) -> APIRouter:
    """Build the routes of this module."""
    router = APIRouter(tags=["models"])

    @router.get("/models/{model}/path")
    async def model_path(request: Request) -> Response:
        """The regularisation path: number of weights and objective under other penalties, for the data so far. Read only."""
        at = asked(request, "gammas", "from", "to")
        return respond(json_answer(await service.path(at.model, read_path_question(at.options))))

    @router.patch("/models/{model}")
    async def change_model(request: Request) -> Response:
        """Change settings of a model while it learns; answers once the served model has them."""
        at = asked(request)
        service.published(at.model)
        config, seq = await admin.change(at.model, await json_body(request, settings))
        return respond(json_answer({"name": at.model, "created": False, "config": write_document(config), "seq": seq}))

    return router


def read_path_question(options: dict[str, str]) -> PathQuestion:
    """Read the options of a path. Raises `BadInput` (bad_option) if they do not form a grid."""
    gammas = whole(options, "gammas", GAMMAS_DEFAULT, GAMMAS_MIN, GAMMAS_MAX) or GAMMAS_DEFAULT
    top, bottom = positive(options, "from"), positive(options, "to")
    if top is not None and bottom is not None and top <= bottom:
        raise BadInput("from: expected a number above to; the path goes from large penalties to small ones", "bad_option")
    return PathQuestion(gammas, top, bottom)
