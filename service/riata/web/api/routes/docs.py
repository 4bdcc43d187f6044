"""Routes of /, /openapi.json and /docs (Swagger UI), which work offline: the viewer's files come from an installed package.

The package `fastapi-offline` contains the files of Swagger UI. Its code is not imported; only two of its files are served.
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from riata.base.errors import NotFound
from riata.web.api.route import Call, Route
from riata.web.auth.keys import OPEN
from riata.web.server.answers import Answer, json_answer

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


async def openapi(call: Call) -> Answer:
    """The OpenAPI document."""
    return json_answer(call.parts.document())


async def docs(_call: Call) -> Answer:
    """The OpenAPI document as an interactive page."""
    return Answer(200, PAGE, b"text/html; charset=utf-8", (POLICY,))


async def start_page(_call: Call) -> Answer:
    """The page for someone who enters only the address of the service."""
    return Answer(307, b"", b"text/plain; charset=utf-8", ((b"location", b"docs"),))


async def docs_asset(call: Call) -> Answer:
    """The files of the page."""
    name = call.request.path_params["asset"]
    if name not in ASSETS:
        raise NotFound("no such page", "no_such_route")
    return Answer(200, asset_bytes(name), ASSETS[name])


def asset_bytes(name: str) -> bytes:
    """Return one of `ASSETS`."""
    return START if name == "start.js" else asset_path(name).read_bytes()


def asset_path(name: str) -> Path:
    """Return the path of a file of the viewer in the installed package."""
    return Path(str(distribution(PACKAGE).locate_file(f"fastapi_offline/static/{name}")))


TAG: Final = ""  # not in the OpenAPI document
ROUTES: Final = (
    Route("GET", "/openapi.json", OPEN, openapi),
    Route("GET", "/", OPEN, start_page),
    Route("GET", "/docs", OPEN, docs),
    Route("GET", "/docs/{asset}", OPEN, docs_asset),
)
