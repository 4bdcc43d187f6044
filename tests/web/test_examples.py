"""The examples of the contract, which /docs fills in: each is sent to a live service."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx

from riata.web.api.openapi import openapi_document
from tests.web.serving import START_S_MAX, real_app, serving

FIRST = ("/models/{model}", "/models/{model}/observe")
REFIT = "{refit}"  # examples of a path with it need a refit that the gate likes better; only their document is checked


def examples() -> list[tuple[str, str, str, Any]]:
    """Method, path, media type and body of each example, those that make and teach the model `example` first."""
    found = [
        (method, path, media, content["example"])
        for path, item in openapi_document()["paths"].items()
        for method, operation in item.items()
        for media, content in operation.get("requestBody", {}).get("content", {}).items()
        if "example" in content
    ]
    return sorted(found, key=lambda one: FIRST.index(one[1]) if one[1] in FIRST else len(FIRST))


def ask(client: httpx.Client, method: str, path: str, media: str, body: Any) -> httpx.Response:
    """Send an example, again while the service starts."""
    content = body if isinstance(body, str) else json.dumps(body)
    deadline = time.monotonic() + START_S_MAX
    while True:
        answer = client.request(method, path.replace("{model}", "example"), content=content, headers={"Content-Type": media})
        if answer.status_code != 503 or answer.json()["code"] != "not_ready" or time.monotonic() > deadline:
            return answer
        time.sleep(0.2)


def test_every_body_that_is_no_file_has_an_example_of_the_model_that_examples_make() -> None:
    binary = {"application/octet-stream", "application/vnd.apache.arrow.stream"}
    for path, item in openapi_document()["paths"].items():
        for operation in item.values():
            content = operation.get("requestBody", {}).get("content", {})
            assert [media for media in content if media not in binary and "example" not in content[media]] == [], path
            models = [one["example"] for one in operation.get("parameters", ()) if one["name"] == "model"]
            assert models == (["example"] if "{model}" in path else []), path


def test_every_example_works() -> None:
    with serving(real_app()) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.05)
        learnt = 0  # the last event of the default model
        sent = [one for one in examples() if REFIT not in one[1]]
        for method, path, media, body in sent:
            if path.endswith("/restore"):
                assert client.post("/models/example/snapshots").status_code == 201
            if path.endswith("/promote"):  # of a challenger that has learnt nothing yet, so by force: it has no weights then
                last = client.get("/models/example").json()["log"]["last_seq"]
                assert client.get("/models/example/predict", params={"age": "41.5", "_min_seq": last}).status_code == 200
                assert "| `age` | +0." in client.get("/models/example/card").text
                assert ask(client, "put", f"/models/{body['challenger']}", media, {"follow": "example"}).status_code == 201
                body = {**body, "force": True}
            answer = ask(client, method, path, media, body)
            assert 200 <= answer.status_code < 300, (method, path, media, answer.text)
            learnt = answer.json()["seq"] if path == "/observe" else learnt
            if path.endswith("/refits"):
                client.delete(answer.headers["location"])
            if path.endswith("/promote"):
                assert client.delete(f"/models/{body['challenger']}?confirm={body['challenger']}").status_code == 200
        card = client.get("/models/example/card").text
        assert "| log loss | 0." in card
        query = next(one["example"] for one in openapi_document()["paths"]["/predict"]["get"]["parameters"] if "example" in one)
        assert (
            client.get("/predict", params={**query, "_min_seq": learnt}).json()["known_features"] == 1
        )  # a feature of the example that was observed
