"""The application against its own contract: many generated requests for every operation, through a real socket."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from riata.web.api.openapi import DESCRIBED, openapi_document
from tests.web.serving import real_app, serving, wait_until_ready

EXAMPLES = [15, pytest.param(50, marks=pytest.mark.slow)]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SETTINGS = settings(database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
OPERATIONS = [(route.method, route.path) for route in DESCRIBED]
WITH_INPUT = [(route.method, route.path) for route in DESCRIBED if route.parameters or route.body]
SKETCHED = {  # what only a model with a sketch, or with a refit, answers; and the name of one
    "/models/{model}/path": "sketched", "/models/{model}/regret": "sketched", "/models/{model}/refits": "sketched",
}  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"features": {"a": i % 3, "b": i % 5, "c": "x" if i % 2 else "y"}, "label": i % 2} for i in range(60)
]
# Made-up numbers, bytes and names hit no stored generation, job, export, nor confirmation of the model to be dropped. A store
# in memory has no directory to back up.
NEVER_MET = {
    ("POST", "/backup"),
    ("POST", "/models/{model}/restore"), ("POST", "/models/{model}/import"), ("DELETE", "/models/{model}"),
    ("POST", "/models/{model}/promote"),
    ("GET", "/models/{model}/refits/{refit}"), ("DELETE", "/models/{model}/refits/{refit}"),
    ("POST", "/models/{model}/refits/{refit}/promote"), ("GET", "/jobs/{job}"), ("DELETE", "/jobs/{job}"),
    ("POST", "/v2/models/{model}/infer"),  # hardly any shape fits its data by chance
}  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A running application and the contract read from it."""

    url: str
    schema: BaseSchema
    session: requests.Session


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with serving(real_app()) as port, requests.Session() as session:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url, session)
        session.put(f"{url}/models/sketched", json={"learner": {"kind": "taylor_sketch", "k": 4}}).raise_for_status()
        session.post(f"{url}/models/sketched/observe?wait=applied", json=ROWS).raise_for_status()
        begun = session.post(f"{url}/models/sketched/refits", json={})
        begun.raise_for_status()
        while session.get(url + begun.headers["location"]).json()["state"] == "running":
            time.sleep(0.1)
        yield Target(url, schemathesis.openapi.from_dict(openapi_document()), session)


def ask_all(target: Target, method: str, path: str, mode: GenerationMode, examples: int) -> Counter[int]:
    """Send every generated request, check every answer, count them by status."""
    statuses: Counter[int] = Counter()

    @seed(20261120)
    @settings(SETTINGS, max_examples=examples)
    @given(case=target.schema[path][method].as_strategy(generation_mode=mode))
    def check(case: Case[Any]) -> None:
        if statuses.total() % 2 and case.path_parameters.get("model"):
            case.path_parameters["model"] = SKETCHED.get(path, "default")  # else hardly any request would find its model
        if path.endswith("/stream") and (mode is GenerationMode.POSITIVE or "events" not in (case.query or {})):
            case.query = {**(case.query or {}), "events": 1}  # it would wait for a second one
        statuses[case.call_and_validate(base_url=target.url, session=target.session, checks=CHECKS).status_code] += 1

    check()
    return statuses


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[f"{method} {path}" for method, path in OPERATIONS])
def test_valid_requests_are_answered_as_documented(target: Target, method: str, path: str, examples: int) -> None:
    statuses = ask_all(target, method, path, GenerationMode.POSITIVE, examples)
    assert any(200 <= status < 300 for status in statuses) or (method, path) in NEVER_MET, statuses


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize(("method", "path"), WITH_INPUT, ids=[f"{method} {path}" for method, path in WITH_INPUT])
def test_invalid_requests_are_answered_as_documented_too(target: Target, method: str, path: str, examples: int) -> None:
    statuses = ask_all(target, method, path, GenerationMode.NEGATIVE, examples)
    assert any(400 <= status < 500 for status in statuses), statuses
