"""The published contract: its content, and that it matches the behaviour of the application."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from starlette.routing import Route

from riata.web.api.openapi import openapi_document
from riata.web.api.routes import console, docs
from riata.web.api.routes.docs import ASSETS, asset_bytes
from riata.web.api.routes.table import ROUTES
from tests.web.asking import Client
from tests.web.serving import Whole

GOLDEN = Path(__file__).parents[1] / "golden" / "openapi.json"


def golden_text(document: dict[str, object]) -> str:
    """Return the text of the document in the form of the golden file."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_golden() -> None:
    """Write the contract again. Run after an intended change:

    python -c "from tests.web.test_openapi import write_golden; write_golden()"
    """
    GOLDEN.write_text(golden_text(openapi_document()), encoding="utf-8")


def test_the_contract_is_the_one_last_released() -> None:
    assert golden_text(openapi_document()) == GOLDEN.read_text(encoding="utf-8"), write_golden.__doc__


def test_the_application_answers_the_routes_of_the_table_and_no_others() -> None:
    app = Whole().app()
    answered = [(m, r.path) for r in app.routes if isinstance(r, Route) for m in r.methods or () if m != "HEAD"]
    assert sorted(answered) == sorted((route.method, route.path) for route in ROUTES)
    assert len(answered) == len(app.routes) == len(set(answered))


def test_every_route_but_those_of_the_page_is_in_the_contract() -> None:
    described = {(method.upper(), path) for path, item in openapi_document()["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in ROUTES if route not in (*docs.ROUTES, *console.ROUTES)}


def test_an_answer_with_more_than_its_type_has_is_a_fault_of_ours(
    client: Client, service: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = service.service.describe("default")
    assert client.get("/models/default").status_code == 200
    monkeypatch.setattr(service.service, "describe", lambda _model: {**told, "undeclared": 1})
    assert (client.get("/models/default").status_code, client.get("/models/default").json()["code"]) == (500, "internal")


def test_members_are_described_in_docstrings_also_those_of_a_base() -> None:
    schemas = openapi_document()["components"]["schemas"]
    assert schemas["Example"]["description"] == "A labelled row."
    assert schemas["Example"]["properties"]["ts"]["description"].startswith("when the event happened")
    assert schemas["Example"]["properties"]["event_id"]["description"].startswith("makes a retry safe")
    assert schemas["RestoreUndone"]["properties"]["from"]["description"] == "the first of them"


def test_it_is_served_as_it_is_built(client: Client) -> None:
    assert client.get("/openapi.json").json() == json.loads(json.dumps(openapi_document()))


def test_a_document_that_its_caller_changes_does_not_change_the_next() -> None:
    before = golden_text(openapi_document())
    changed = openapi_document()
    changed["components"]["schemas"].popitem()
    for item in changed["paths"].values():
        for operation in item.values():
            operation["responses"]["500"].clear()
    changed["components"]["schemas"]["ModelList"]["properties"].clear()
    assert golden_text(openapi_document()) == before


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(openapi_document())
    known = set(openapi_document()["components"]["schemas"])
    wanted = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert wanted <= known
    assert known - wanted == set(), "unused schemas"


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
    whole = Whole()
    for _ in range(2):
        whole.app()
