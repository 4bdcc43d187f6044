"""Labels of another setting, sent to the whole service on both paths: nothing is logged, and the answer names the setting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from riata.base.settings import Settings
from riata.run.admin import Admin
from riata.run.service import Service
from riata.web.app import create_app
from riata.web.settings import INLINE_BYTES_MAX
from riata.wiring import build_engine
from tests.arrow_stream import examples, stream
from tests.settings import web_settings
from tests.web.serving import serving

LINES = "application/x-ndjson"
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
WAIT = "?wait=applied"


def fatal(reason: str) -> None:
    raise AssertionError(reason)


@pytest.fixture(scope="module", params=[True, False], ids=["fast path", "ASGI"])
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    engine = build_engine(Settings(store="memory:"), fatal)
    app = create_app(Service(engine), Admin(engine), web_settings(fast_path=request.param), engine.clock)
    with serving(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as client:
        while client.get("/readyz").status_code != 200:
            pass
        yield client


def body_of(labels: list[object], kind: str) -> bytes:
    rows = [{"features": {f"f{i % 7}": 1}, "label": label} for i, label in enumerate(labels)]
    if kind == JSON:
        return json.dumps(rows).encode()
    if kind == LINES:
        return b"\n".join(json.dumps(row).encode() for row in rows)
    if kind == ARROW:
        return stream(examples([["a"]] * len(labels), [[1.0]] * len(labels), labels), len(labels))
    long = "0" * 20
    return "\n".join(f"{label} | a{long}" if kind == "text/x-vw" else f"{label} 1:1.{long}" for label in labels).encode()


def head_of(client: httpx.Client, model: str = "default") -> int:
    return int(client.get(f"/models/{model}").json()["seq_logged"])


@pytest.mark.parametrize("kind", [JSON, LINES, "text/x-vw", "text/x-svmlight", ARROW])
@pytest.mark.parametrize("rows", [2, 4000])
@pytest.mark.parametrize("query", ["", WAIT])
def test_a_body_of_other_labels_is_refused_before_anything_is_logged(
    client: httpx.Client, kind: str, rows: int, query: str
) -> None:
    body = body_of([1, -1] * (rows // 2), kind)
    assert (len(body) > INLINE_BYTES_MAX) == (rows > 2)
    head, refused = head_of(client), client.get("/models/default/refused").json()["counts"].get("other_labels", 0)
    answer = client.post(f"/observe{query}", content=body, headers={"Content-Type": kind})
    found = answer.json()
    assert (answer.status_code, found["code"], found["outcome"], found["retryable"]) == (
        422,
        "other_labels",
        "not_accepted",
        False,
    )
    assert (found["accepted"], found["rejected"]) == (0, rows)
    assert found["detail"].startswith("the labels are -1 and 1")
    assert 'the setting "-1/+1"' in found["detail"]
    assert "labels=by_row" in found["detail"]
    assert head_of(client) == head
    assert client.get("/models/default/refused").json()["counts"]["other_labels"] == refused + rows
    again = client.post("/observe?labels=by_row", content=body, headers={"Content-Type": kind})
    assert (again.json()["accepted"], again.json()["rejected"]) == (rows // 2, rows // 2)


def test_good_bodies_beside_bad_ones_are_accepted(client: httpx.Client) -> None:
    """Small bodies of many connections are read together; only those of other labels are refused."""

    def send(at: int) -> tuple[int, int]:
        labels: list[object] = [1, -1] if at % 3 == 0 else [1, 0]
        answer = client.post("/observe", content=body_of(labels, LINES), headers={"Content-Type": LINES})
        return at, answer.status_code

    before = client.get("/models/default/refused").json()["counts"]["other_labels"]
    head = head_of(client)
    with ThreadPoolExecutor(16) as pool:
        answers = dict(pool.map(send, range(90)))
    assert answers == {at: 422 if at % 3 == 0 else 202 for at in range(90)}
    assert head_of(client) == head + 2 * 60
    assert client.get("/models/default/refused").json()["counts"]["other_labels"] == before + 2 * 30


def test_single_rows_are_refused_one_by_one(client: httpx.Client) -> None:
    answer = client.post("/observe", json={"features": {"a": 1}, "label": -1}).json()
    assert (answer["code"], answer["errors"][0]["code"]) == ("nothing_accepted", "bad_label")
    assert answer["errors"][0]["detail"].endswith('received -1; the setting "-1/+1" takes it')


def test_three_kinds_of_labels_are_refused_by_row(client: httpx.Client) -> None:
    answer = client.post("/observe", content=body_of([1, 0, -1, 1], LINES), headers={"Content-Type": LINES}).json()
    assert (answer["accepted"], answer["rejected"]) == (3, 1)


def test_the_other_way_round(client: httpx.Client) -> None:
    assert client.put("/models/signs", json={"labels": "-1/+1"}).status_code in (200, 201)
    refused = client.post("/models/signs/observe", content=body_of([1, 0], LINES), headers={"Content-Type": LINES})
    assert (refused.status_code, refused.json()["code"]) == (422, "other_labels")
    good = client.post(f"/models/signs/observe{WAIT}", content=body_of([1, -1], LINES), headers={"Content-Type": LINES})
    assert (good.status_code, good.json()["accepted"]) == (200, 2)


def test_atomic_requests_are_refused_the_same_way(client: httpx.Client) -> None:
    answer = client.post("/observe?atomic=true", content=body_of([1, -1], LINES), headers={"Content-Type": LINES})
    assert (answer.status_code, answer.json()["code"]) == (422, "other_labels")


def test_the_option_has_one_value(client: httpx.Client) -> None:
    answer = client.post("/observe?labels=0/1", content=body_of([1], LINES), headers={"Content-Type": LINES})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_option")
