"""The published contract: its content, and that it matches the behaviour of the application."""

from __future__ import annotations

import json
import re
from pathlib import Path

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope

from riata.base.clock import ManualClock
from riata.web.answers import Answer
from riata.web.app import create_app, hot_routes
from riata.web.docs import ASSETS, asset_bytes, golden_text
from riata.web.health import health_routes
from riata.web.meters import Meters
from riata.web.models import model_routes
from riata.web.openapi import openapi_document, operations
from riata.web.settings import WebSettings
from riata.web.snapshots import snapshot_routes
from riata.web.tuning import tuning_routes
from tests.web.asking import Client
from tests.web.fake_service import FakeService

GOLDEN = Path(__file__).parents[1] / "golden" / "openapi.json"


def write_golden() -> None:
    """Write the contract anew. Run after a change that is meant:

    python -c "from tests.web.test_openapi import write_golden; write_golden()"
    """
    GOLDEN.write_text(golden_text(openapi_document()), encoding="utf-8")


def test_the_contract_is_the_one_last_released() -> None:
    assert golden_text(openapi_document()) == GOLDEN.read_text(encoding="utf-8"), write_golden.__doc__


def test_every_route_is_in_the_contract_and_the_other_way_round() -> None:
    described = {(operation.path, operation.method.upper()) for operation in operations()}

    async def nothing(_scope: Scope, _receive: Receive) -> Answer:
        return Answer(200, b"")

    hot = {(route.path, method) for route in hot_routes(nothing, nothing) for method in route.methods or ()}
    assert {pair for pair in hot | served() if pair[1] != "HEAD"} == described


def served() -> set[tuple[str, str]]:
    """Every path and method that FastAPI answers."""
    service, settings = FakeService(ManualClock()), WebSettings()
    routers = [
        model_routes(service, service, settings),
        tuning_routes(service, service, settings),
        snapshot_routes(service, service, settings),
        health_routes(service, Meters(service)),
    ]
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    return {(route.path, method) for route in routes for method in route.methods or ()}


def test_it_is_served_as_it_is_built(client: Client) -> None:
    assert client.get("/openapi.json").json() == json.loads(json.dumps(openapi_document()))


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(openapi_document())
    known = set(openapi_document()["components"]["schemas"])
    wanted = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert wanted <= known
    assert known - wanted == set(), "schemas nobody uses"


def test_the_page_fetches_nothing_from_elsewhere(client: Client) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    assert "//" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path in re.findall(r'(?:src|href)="(docs/[^"]+)"', page.text):
        assert client.get(f"/{path}").status_code == 200, path


def test_the_viewer_is_installed() -> None:
    assert all(len(asset_bytes(name)) > 100 for name in ASSETS)


def test_other_files_are_not_served(client: Client) -> None:
    for name in ("redoc.standalone.js", "..%2fcore.py", "x"):
        assert client.get(f"/docs/{name}").status_code == 404


def test_the_application_can_be_built_twice() -> None:
    service = FakeService(ManualClock())
    for _ in range(2):
        create_app(service, service, WebSettings(), service.clock)
