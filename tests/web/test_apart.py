"""Values that are set apart, in the whole service."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from riata.scorer import model_of
from riata.scorer.riata_scorer import Scorer
from tests.web.serving import answering

LINES = {"Content-Type": "application/x-ndjson"}
MISSING = [{"feature": "age", "values": [999]}]


FAR = 1e7


def drawn(n: int) -> list[dict[str, Any]]:
    """Rows of two numbers; where the age is unknown, 999 in its place, the label is likely."""
    rng = random.Random(1)
    rows = []
    for _ in range(n):
        age, gone = round(rng.gauss(0.0, 1.0), 2), rng.random() < 0.2
        label = int(gone or rng.random() < (0.8 if age > 0.0 else 0.2))
        rows.append({"features": {"age": 999 if gone else age, "size": round(rng.gauss(0.0, 1.0), 2)}, "label": label})
    return rows


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with answering() as client:
        client.put("/models/m", json={"learner": {"missing": MISSING}}).raise_for_status()
        body = "\n".join(map(json.dumps, drawn(900)))
        assert client.post("/models/m/observe?wait=applied", content=body, headers=LINES).json()["applied"]
        yield client


def test_every_door_sets_the_value_apart_and_the_explanation_says_so(client: httpx.Client) -> None:
    one = client.get("/models/m/predict?age=999&size=0.5").json()
    posted = client.post("/models/m/predict?explain=true", json={"features": {"age": 999, "size": 0.5}}).json()
    assert posted["margin"] == one["margin"]
    assert one["probability"] > 0.8
    told = {part["feature"]: part["contribution"] for part in posted["contributions"]}
    assert told["age is 999"] > 1.0
    assert "age" not in told
    assert posted["bias"] + sum(told.values()) == pytest.approx(posted["margin"], abs=1e-12)
    absent = client.get("/models/m/predict?size=0.5").json()
    assert absent["margin"] + told["age is 999"] == pytest.approx(one["margin"], abs=0.5)


def test_exports_and_scorers_carry_it(client: httpx.Client) -> None:
    export = client.get("/models/m/export?format=json").json()
    assert [one["value"] for one in export["apart"]] == [999.0]
    row = {"age": 999, "size": 0.5}
    margin = client.post("/models/m/predict", json={"features": row}).json()["margin"]
    assert Scorer(model_of(export)).margin(row) == margin


@pytest.fixture(scope="module")
def found(client: httpx.Client) -> httpx.Client:
    """A model that found by itself what the other one was told."""
    client.put("/models/found", json={}).raise_for_status()
    body = "\n".join(map(json.dumps, [*drawn(900), {"features": {"size": FAR}, "label": 1}]))
    assert client.post("/models/found/observe?wait=applied", content=body, headers=LINES).json()["applied"]
    return client


def test_what_was_found_is_named_by_warnings_and_explained(found: httpx.Client) -> None:
    (warning,) = (one for one in found.get("/models/found/metrics").json()["warnings"] if one["code"] == "far_values")
    assert warning["features"] == ["age"]
    assert "Set apart because of repeats: 999. " in warning["detail"]
    posted = found.post("/models/found/predict?explain=true", json={"features": {"age": 999, "size": -FAR}}).json()
    told = {part["feature"]: part for part in posted["contributions"] if "sent" in part}
    assert {name: part["sent"] for name, part in told.items()} == {"age": 999.0, "age is 999": 999.0, "size": -FAR}
    assert abs(told["age"]["value"]) < 0.5
    assert -5.0 < told["size"]["value"] < -1.5
    assert told["age is 999"]["contribution"] > 1.0
    inside = found.post("/models/found/predict?explain=true", json={"features": {"age": 1}}).json()
    assert "sent" not in inside["contributions"][0]
    asked = found.get(f"/models/found/predict?age=999&size={-FAR}").json()
    assert asked["margin"] == posted["margin"]


def test_what_was_found_is_exported_and_scored(found: httpx.Client) -> None:
    export = found.get("/models/found/export?format=json").json()
    assert [(one["value"], abs(one["used"]) < 0.5) for one in export["apart"]] == [(999.0, True)]
    assert [one["high"] < FAR for one in export["limits"]] == [True, True]
    for row in ({"age": 999, "size": FAR}, {"age": -FAR}, {"age": 0.5, "size": 0.5}):
        margin = found.post("/models/found/predict", json={"features": row}).json()["margin"]
        assert Scorer(model_of(export)).margin(row) == margin


@pytest.mark.parametrize("learner", [{}, {"shapes": "off"}, {"missing": MISSING}])
def test_several_classes_have_them_in_common(client: httpx.Client, learner: dict[str, Any]) -> None:
    model = "/models/of_" + "_".join(learner)
    client.put(model, json={"labels": "classes", "learner": learner}).raise_for_status()
    rows = [{**row, "label": ("low", "high", "none")[row["label"] + (row["features"]["age"] == 999)]} for row in drawn(900)]
    body = "\n".join(map(json.dumps, rows))
    assert client.post(f"{model}/observe?wait=applied", content=body, headers=LINES).json()["applied"]
    asked = {"age": 999, "size": FAR}
    posted = client.post(f"{model}/predict?explain=true", json={"features": asked}).json()
    export = client.get(f"{model}/export?format=json").json()
    assert "limits" in export
    told = {part["feature"]: part["contribution"] for part in posted["contributions"]}
    assert (posted["label"], told["age is 999"] > 0.5) == ("none", True)
    total = posted["bias"]
    for contribution in told.values():
        total += contribution
    assert total == posted["margin"] == client.get(f"{model}/predict?age=999&size={FAR}").json()["margin"]
    assert [one["value"] for one in export["apart"]] == [999.0]
    assert Scorer(model_of(export)).margins(asked)["none"] == posted["margin"]


def test_columns_with_shapes_are_known_features(client: httpx.Client) -> None:
    found = client.get("/models/m/predict?age=0.25&size=0.5&other=1").json()
    assert (found["known_features"], found["unknown_features"]) == (2, 1)


def test_what_cannot_be_declared_is_refused(client: httpx.Client) -> None:
    for missing, code in (([{"feature": "a", "values": [0]}], "out_of_range"), ([*MISSING, *MISSING], "conflicting_settings")):
        answer = client.put("/models/other", json={"learner": {"missing": missing}})
        assert answer.status_code == 422
        assert answer.json()["code"] == code
