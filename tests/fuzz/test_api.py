"""Sequences of synthetic requests against the running application with keys: what one answer names, the next request asks about.

The operations one by one are in tests/web/test_contract.py. Here they follow one another: a model that was created is taught,
asked, saved, put back and dropped, in every order that the document allows, with parts that it does not allow in between.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import requests
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import Case, GenerationMode
from schemathesis.checks import max_response_time, not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from riata.base.settings import Settings
from riata.run.admin import Admin
from riata.run.service import Service
from riata.web.api.openapi import openapi_document
from riata.web.app import create_app
from riata.web.auth.gate import Buckets, Gate, KeysFile
from riata.web.auth.keys import KeyEntry, digest_of, entry_text, new_token
from riata.wiring import build_engine
from tests.settings import web_settings
from tests.web.serving import serving, wait_until_ready

RESPONSE_S_MAX: Final = 20.0  # of a machine that may be busy with other tests
CHECKS: Final = [
    not_a_server_error,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    content_type_conformance,
    ignored_auth,
    max_response_time,
]
MADE_UP_KEYS: Final = 10  # of this many requests of a sequence one may carry a key that is none
MADE_UP_AT: Final = 4
SEED: Final = 20261122
QUICK: Final = (40, 15)  # sequences, requests in each
LONG: Final = (400, 25)


def keyed_app(directory: Path, token: str) -> FastAPI:
    """The whole service on a store in memory, with keys required."""
    path = directory / "keys.toml"
    path.write_text(entry_text(KeyEntry("fuzz", digest_of(token), ["observe", "predict", "admin"], "*")), encoding="utf-8")
    os.chmod(path, 0o600)
    file = KeysFile(path)
    file.load()

    def fatal(reason: str) -> None:
        raise AssertionError(reason)

    engine = build_engine(Settings(store="memory:", refit_nice=0), fatal)
    gate = Gate(engine.clock, file, Buckets(0.0, 0.0))
    return create_app(Service(engine), Admin(engine), web_settings(), engine.clock, gate=gate)


@pytest.fixture(scope="module")
def url_and_token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    token = new_token("fuzz")
    with serving(keyed_app(tmp_path_factory.mktemp("keys"), token)) as port, requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {token}"
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url, session)
        yield url, token


def schema_with_keys() -> BaseSchema:
    """The OpenAPI document with keys required, as it is if a keys file is given."""
    document = openapi_document()
    del document["paths"]["/models/{model}/stream"]  # its answer has no end
    for item in document["paths"].values():
        for operation in item.values():
            if "security" in operation:
                operation["security"] = [wanted for wanted in operation["security"] if wanted]
    # No model is damaged here, and Schemathesis follows models from the list to their routes only if all items have one schema.
    items = document["components"]["schemas"]["ModelList"]["properties"]["models"]["items"]
    items["$ref"] = next(line["$ref"] for line in items.pop("anyOf") if line["$ref"].endswith("/ModelLine"))
    schema = schemathesis.openapi.from_dict(document)
    schema.config.checks.max_response_time.limit = RESPONSE_S_MAX
    schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    return schema


def refuses_rows(response: Any) -> bool:
    """Whether rows of a body were refused, each by itself: a good row beside a bad one is accepted, and the answer is 200."""
    if response.status_code >= 300 or not response.headers.get("content-type", [""])[0].startswith("application/json"):
        return False
    document = response.json()
    return isinstance(document, dict) and document.get("rejected", 0) > 0


def run_sequences(url: str, token: str, sequences: int, steps: int) -> Counter[tuple[str, int]]:
    """Run at least this many sequences; returns how often each operation answered with each status.

    What the service answers depends on everything that it was asked before, so a sequence that begins as an earlier one did may
    go on otherwise: a model is there now. Hypothesis calls that flaky and ends; then it is begun again, elsewhere. What an
    answer was found to be wrong for is kept meanwhile, since Hypothesis can come to that end while it looks at it once more.
    """
    statuses: Counter[tuple[str, int]] = Counter()
    session = requests.Session()
    ended: list[int] = []  # how many requests each sequence had
    found: list[BaseException] = []

    class Workflow(schema_with_keys().as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            self.asked = 0

        def teardown(self) -> None:
            ended.append(self.asked)

        def before_call(self, case: Case[Any]) -> None:
            self.asked += 1
            if self.asked % MADE_UP_KEYS != MADE_UP_AT:  # else the key is what the generator thinks one could be
                case.headers["Authorization"] = f"Bearer {token}"

        def get_call_kwargs(self, case: Case[Any]) -> dict[str, Any]:  # noqa: ARG002
            return {"base_url": url, "session": session, "headers": {"Authorization": f"Bearer {token}"}}

        def validate_response(self, response: Any, case: Case[Any], **_: Any) -> None:
            statuses[case.operation.label, response.status_code] += 1
            checks = [check for check in CHECKS if check is not negative_data_rejection or not refuses_rows(response)]
            try:
                case.validate_response(response, checks=checks)
            except BaseException as error:
                found.append(error)
                raise

    with session:
        for attempt in range(sequences):
            if len(ended) >= sequences:
                break
            with contextlib.suppress(FlakyStrategyDefinition):
                run_state_machine_as_test(
                    seed(SEED + attempt)(Workflow),
                    settings=settings(
                        max_examples=sequences - len(ended), stateful_step_count=steps, deadline=None, database=None,
                        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
                    ),
                )  # fmt: skip
            if found:
                raise found[0]
    assert len(ended) >= sequences, ended
    return statuses


def check_sequences(url: str, token: str, sequences: int, steps: int) -> None:
    statuses = run_sequences(url, token, sequences, steps)
    reached = {operation for operation, status in statuses if status < 300}
    refused = sum(count for (_, status), count in statuses.items() if 400 <= status < 500)
    assert len(reached) >= 8, statuses  # else the sequences ask about nothing that is there
    assert 0 < refused < statuses.total(), statuses
    assert {status for _, status in statuses} >= {200, 401, 404, 422}, statuses
    assert requests.get(f"{url}/models", timeout=5).status_code == 401


def test_sequences_of_requests_are_answered_as_the_contract_says(url_and_token: tuple[str, str]) -> None:
    check_sequences(*url_and_token, *QUICK)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_long_sequences_are_answered_as_the_contract_says(url_and_token: tuple[str, str]) -> None:
    check_sequences(*url_and_token, *LONG)
