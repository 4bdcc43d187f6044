"""The HTTP layer with the whole service: what the small service of the other tests cannot show."""

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


def test_an_explanation_adds_up_to_the_served_margin(client: httpx.Client) -> None:
    taught(client, "explained")
    answer = client.get("/models/explained/predict?country=de&age=3&_explain=true").json()
    total = answer["bias"]
    for part in answer["contributions"]:
        total += part["contribution"]
    assert total == answer["margin"]
    assert "unknown" not in answer
    answer = client.get("/models/explained/predict?country=xx&age=3&new=1&_explain=true").json()
    assert answer["unknown"] == [part["feature"] for part in answer["contributions"] if part["feature"] in ("country=xx", "new")]
    assert len(answer["unknown"]) == 2


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
def test_predictions_and_weights_of_a_sketch_carry_standard_errors(client: httpx.Client, learner: dict[str, Any]) -> None:
    model = f"errors-{learner.get('mode', 'hybrid')}"
    sketched(client, model, learner)
    usual = client.get(f"/models/{model}/predict?country=de&age=3").json()["std_error"]
    far = client.get(f"/models/{model}/predict?country=de&age=300").json()["std_error"]
    assert 0.0 < usual < far
    weights = client.get(f"/models/{model}/weights").json()
    assert weights["bits"] == (32 if learner.get("mode") == "exact" else 22)
    assert {weight["feature"] for weight in weights["weights"]} == {"age", "country=de", "country=fr"}
    assert all(weight["std_error"] > 0.0 for weight in weights["weights"])


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


def test_metrics_count_the_learnt_events(client: httpx.Client) -> None:
    taught(client, "measured")
    metrics = client.get("/models/measured/metrics?since=0").json()
    assert metrics["cumulative"]["examples"] == 300
    assert metrics["cumulative"]["log_loss"] < metrics["cumulative"]["base_log_loss"]
    assert metrics["history"][-1]["seq"] <= metrics["model"]["seq"]
    weights = client.get("/models/measured/weights?prefix=country").json()["weights"]
    assert {weight["feature"] for weight in weights} == {"country=de", "country=fr"}


def test_an_import_gives_the_same_bits_as_the_export(client: httpx.Client) -> None:
    taught(client, "carried")
    content = client.get("/models/carried/export").content
    assert client.post("/models/taken/import", content=content, headers=BINARY).json()["created"] is True
    asked = [client.get(f"/models/{name}/predict?country=de&age=2").json()["margin"] for name in ("carried", "taken")]
    assert asked[0] == asked[1] != 0.0


def test_a_restore_brings_the_old_answers_back(client: httpx.Client) -> None:
    taught(client, "restored")
    before = client.get("/models/restored/predict?country=de&age=2").json()["margin"]
    generation = client.post("/models/restored/snapshots").json()["generation"]
    wrong = ROWS.replace('"label": 1', '"label": 2').replace('"label": 0', '"label": 1').replace('"label": 2', '"label": 0')
    client.post("/models/restored/observe?wait=applied", content=wrong, headers=LINES)
    assert client.get("/models/restored/predict?country=de&age=2").json()["margin"] != before
    assert client.post("/models/restored/restore", json={"generation": generation}).status_code == 200
    assert client.get("/models/restored/predict?country=de&age=2").json()["margin"] == before


@pytest.mark.parametrize("content", [b"", b"x", b"\x00" * 1000])
def test_garbage_is_no_import(client: httpx.Client, content: bytes) -> None:
    answer = client.post("/models/garbage/import", content=content, headers=BINARY)
    assert (answer.status_code, answer.json()["code"]) == (400, "not_an_export")
    assert client.get("/models/garbage").status_code == 404


def test_a_damaged_export_is_no_import(client: httpx.Client) -> None:
    content = bytearray(client.get("/models/default/export").content)
    content[len(content) // 2] ^= 1
    answer = client.post("/models/garbage/import", content=bytes(content), headers=BINARY)
    assert (answer.status_code, answer.json()["code"]) == (400, "not_an_export")


def test_the_same_ids_again_are_duplicates(client: httpx.Client) -> None:
    client.put("/models/twice", content="{}", headers=JSON)
    headers = {**LINES, "Idempotency-Key": "once"}
    first = client.post("/models/twice/observe", content=ROWS, headers=headers).json()
    again = client.post("/models/twice/observe", content=ROWS, headers=headers).json()
    assert (first["accepted"], again["accepted"], again["duplicate"]) == (300, 0, 300)
    assert again["seq"] == first["seq"]


def test_a_dropped_model_is_gone(client: httpx.Client) -> None:
    taught(client, "dropped")
    assert client.delete("/models/dropped?confirm=dropped").status_code == 200
    assert client.get("/models/dropped/predict?a=1").status_code == 404
    told = taught(client, "dropped")
    assert told["accepted"] == 300
