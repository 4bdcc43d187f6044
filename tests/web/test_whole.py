"""Learning, sketches and imports over HTTP, from the rows to the answers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.web.serving import answering

ROWS = "\n".join(
    json.dumps(
        {"features": {"age": float(i % 7 + i % 3), "country": "de" if i % 3 else "fr"}, "label": int(i % 3 > 0) ^ int(i % 5 == 0)}
    )
    for i in range(300)
)
JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
BINARY = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with answering() as client:
        yield client


def taught(client: httpx.Client, model: str) -> dict[str, Any]:
    """Create a model and let it learn the rows; returns the answer of observe."""
    assert client.put(f"/models/{model}", content="{}", headers=JSON).status_code == 201
    answer = client.post(f"/models/{model}/observe?wait=applied", content=ROWS, headers=LINES)
    assert answer.status_code == 200
    told: dict[str, Any] = answer.json()
    return told


def test_observed_and_applied_events_are_served(client: httpx.Client) -> None:
    told = taught(client, "served")
    assert (told["accepted"], told["applied"]) == (300, True)
    high = client.get("/models/served/predict?country=de&age=1").json()
    low = client.get("/models/served/predict?country=fr&age=1").json()
    assert high["model"]["seq"] == told["seq"]
    assert high["probability"] > 0.5 > low["probability"]
    waited = client.get(f"/models/served/predict?country=de&age=1&_min_seq={told['seq']}").json()
    assert waited["margin"] == high["margin"]


SHORT: dict[str, Any] = {"warm_up": 0, "ramp": 0.0, "block": 20, "rounds": 2}
SKETCH: dict[str, Any] = {"kind": "taylor_sketch", **SHORT, "gamma": 0.5, "shadow": [0.05]}
SKETCHES = pytest.mark.parametrize("learner", [{**SKETCH, "k": 4}, {**SKETCH, "mode": "exact"}], ids=["hybrid", "exact"])


def sketched(client: httpx.Client, model: str, learner: dict[str, Any]) -> None:
    """Create a model that keeps a sketch and let it learn the rows; returns when its standard errors are served."""
    assert client.put(f"/models/{model}", json={"learner": learner, "publish_every_ms": 5}).status_code == 201
    assert client.post(f"/models/{model}/observe?wait=applied", content=ROWS, headers=LINES).status_code == 200
    deadline = time.monotonic() + 120.0
    while not client.get(f"/models/{model}").json()["std_error"]["available"]:
        assert time.monotonic() < deadline, client.get(f"/models/{model}").json()["std_error"]
        time.sleep(0.01)


@SKETCHES
def test_a_sketch_is_moved_along_its_path_and_back_by_a_restore(client: httpx.Client, learner: dict[str, Any]) -> None:
    model = f"moved-{learner.get('mode', 'hybrid')}"
    sketched(client, model, learner)
    generation = client.post(f"/models/{model}/snapshots").json()["generation"]
    before = client.get(f"/models/{model}/predict?country=de&age=2").json()["margin"]
    path = client.get(f"/models/{model}/path?gammas=5").json()
    assert path["points"][0]["non_zeros"] == 0
    assert {point["gamma"] for point in path["points"]} >= {0.5, 0.05}
    assert [shadow["weight"] for shadow in path["shadows"]] == [300.0]
    top = 1.5 * path["points"][0]["gamma"]  # at the very edge the learner's tolerance may leave a weight
    answer = client.patch(f"/models/{model}", json={"gamma": top}).json()
    assert (answer["seq"], answer["config"]["learner"]["gamma"]) == (302, top)
    assert client.get(f"/models/{model}").json()["non_zeros"] == 0
    client.post(f"/models/{model}/restore", json={"generation": generation}).raise_for_status()
    assert client.get(f"/models/{model}/predict?country=de&age=2").json()["margin"] == before
    assert client.get(f"/models/{model}").json()["config"]["learner"]["gamma"] == 0.5


def test_an_import_of_a_sketch_answers_as_the_export_did_and_names_its_weights(client: httpx.Client) -> None:
    sketched(client, "sketch-out", {**SKETCH, "mode": "exact"})
    content = client.get("/models/sketch-out/export").content
    assert client.post("/models/sketch-in/import", content=content, headers=BINARY).json()["created"] is True
    asked = [client.get(f"/models/{name}/predict?country=de&age=2").json() for name in ("sketch-out", "sketch-in")]
    assert asked[0]["margin"] == asked[1]["margin"] != 0.0
    shown = [client.get(f"/models/{name}/weights").json()["weights"] for name in ("sketch-out", "sketch-in")]
    assert [weight["names"] for weight in shown[0]] == [weight["names"] for weight in shown[1]]
    readable = client.get("/models/sketch-in/export?format=json").json()
    assert sorted(weight["names"] for weight in readable["weights"]) == [["age"], ["country=de"], ["country=fr"]]


def test_a_full_vocabulary_refuses_rows_and_says_how_to_get_more_room(client: httpx.Client) -> None:
    sketched(client, "full", {**SKETCH, "mode": "exact", "features_max": 4})
    answer = client.post(
        "/models/full/observe", json=[{"features": {"age": 1}, "label": 1}, {"features": {"new": 1}, "label": 1}]
    )
    assert answer.status_code == 202
    [error] = answer.json()["errors"]
    assert (error["index"], error["code"]) == (1, "vocabulary_full")
    assert "features_max" in error["detail"]
    assert client.get("/models/full/predict?age=1&new=1").json()["unknown_features"] == 1


def test_a_damaged_export_is_no_import(client: httpx.Client) -> None:
    content = bytearray(client.get("/models/default/export").content)
    content[len(content) // 2] ^= 1
    answer = client.post("/models/garbage/import", content=bytes(content), headers=BINARY)
    assert (answer.status_code, answer.json()["code"]) == (400, "not_an_export")
