"""Routes of /openapi.json and /docs (Swagger UI), which work offline: the viewer's files come from an installed package.

The package `fastapi-offline` contains the files of Swagger UI. Its code is not imported; only two of its files are served.
"""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from riata.base.errors import NotFound
from riata.web.answers import Answer, json_answer
from riata.web.responses import respond

PACKAGE: Final = "fastapi-offline"
ASSETS: Final = {
    "swagger-ui-bundle.js": b"text/javascript; charset=utf-8",
    "swagger-ui.css": b"text/css; charset=utf-8",
    "start.js": b"text/javascript; charset=utf-8",
}
START: Final = b"""SwaggerUIBundle({
  url: "openapi.json", dom_id: "#docs", deepLinking: true, tryItOutEnabled: true, validatorUrl: null,
});
"""
PAGE: Final = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Riata: the HTTP contract</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="docs"><noscript>This page needs JavaScript; <a href="openapi.json">openapi.json</a> says the same.</noscript></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
# Only this origin is allowed. Swagger UI sets inline styles and uses data URLs for its icons.
POLICY: Final = (
    b"content-security-policy",
    (
        b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
)


def docs_routes(document: dict[str, Any]) -> APIRouter:
    """Build the routes of this module around one OpenAPI document."""
    router = APIRouter()

    @router.get("/openapi.json")
    async def openapi() -> Response:
        """The OpenAPI document."""
        return respond(json_answer(document))

    @router.get("/docs")
    async def docs() -> Response:
        """The OpenAPI document as an interactive page."""
        return respond(Answer(200, PAGE, b"text/html; charset=utf-8", (POLICY,)))

    @router.get("/docs/{asset}")
    async def docs_asset(request: Request) -> Response:
        """The files of the page."""
        name = request.path_params["asset"]
        if name not in ASSETS:
            raise NotFound("no such page", "no_such_route")
        return respond(Answer(200, asset_bytes(name), ASSETS[name]))

    return router


def asset_bytes(name: str) -> bytes:
    """Return one of `ASSETS`."""
    return START if name == "start.js" else asset_path(name).read_bytes()


def asset_path(name: str) -> Path:
    """Return the path of a file of the viewer in the installed package."""
    return Path(str(distribution(PACKAGE).locate_file(f"fastapi_offline/static/{name}")))


def golden_text(document: dict[str, Any]) -> str:
    """Return the text of the document in the form of the golden file."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
