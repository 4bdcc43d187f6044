"""The application against its own contract: many made-up requests for every operation, through a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from riata.base.clock import ManualClock
from riata.web.app import create_app
from riata.web.openapi import openapi_document, operations
from riata.web.settings import WebSettings
from tests.web.fake_service import FakeService
from tests.web.serving import serving

EXAMPLES = 100
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [(operation.method.upper(), operation.path) for operation in operations()]


@dataclass(frozen=True)
class Target:
    """A running application and the contract read from it."""

    url: str
    schema: BaseSchema
    session: requests.Session


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    service = FakeService(ManualClock(10_000))
    with (
        serving(create_app(service, service, WebSettings(), service.clock)) as port,
        requests.Session() as session,
    ):
        yield Target(f"http://127.0.0.1:{port}", schemathesis.openapi.from_dict(openapi_document()), session)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as told", "otherwise"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[f"{method} {path}" for method, path in OPERATIONS])
def test_every_answer_is_in_the_contract(target: Target, method: str, path: str, mode: GenerationMode) -> None:
    @seed(20261120)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=target.schema[path][method].as_strategy(generation_mode=mode))
    def check(case: Case) -> None:
        case.call_and_validate(base_url=target.url, session=target.session, checks=CHECKS)

    check()
