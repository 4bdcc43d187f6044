"""The particle filter in the whole service: intervals, weights, metrics, a full vocabulary, restore, export and import."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from tests.web.serving import answering
from tests.web.test_predict import read_columns
from tests.web.test_whole import BINARY, LINES

FILTER: dict[str, Any] = {"kind": "particle_filter", "features_max": 3, "start": 100}
ARROW = "application/vnd.apache.arrow.stream"
ROWS = "\n".join(
    json.dumps({"features": {"age": float(i % 7 + i % 3), "country": "de" if i % 3 else "fr"}, "label": int(i % 3 > 0)})
    for i in range(300)
)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with answering() as client:
        taught(client, "m")
        yield client


def taught(client: httpx.Client, model: str) -> None:
    while client.put(f"/models/{model}", json={"learner": FILTER}).status_code == 202:
        pass
    assert client.post(f"/models/{model}/observe?wait=applied", content=ROWS, headers=LINES).json()["applied"]


def test_predictions_carry_the_interval_of_their_probability(client: httpx.Client) -> None:
    found = client.get("/models/m/predict?country=de&age=3&_level=0.95").json()
    interval = found["interval"]
    assert interval["level"] == 0.95
    assert 0.0 < interval["low"] < found["probability"] < interval["high"] < 1.0
    assert interval["low"] < interval["mean"] < interval["high"]
    assert found["std_error"] > 0.0
    narrow = client.get("/models/m/predict?country=de&age=3&_level=5e-1").json()["interval"]
    assert interval["low"] < narrow["low"] < narrow["high"] < interval["high"]
    assert "interval" not in client.get("/models/m/predict?country=de&age=3").json()
    [first, second] = client.post("/models/m/predict?level=0.95", json=[{"features": {"country": "de", "age": 3}}] * 2).json()
    assert first["interval"] == second["interval"] == interval


def test_columns_carry_the_interval_too(client: httpx.Client) -> None:
    body = [{"features": {"country": "de", "age": 3}}, {"features": {}}]
    answer = client.post("/models/m/predict?level=0.9", json=body, headers={"Accept": ARROW})
    table = read_columns(answer.content)
    rows = client.post("/models/m/predict?level=0.9", json=body).json()
    for name in ("low", "high", "mean"):
        assert table[f"interval_{name}"] == [row["interval"][name] for row in rows]


@pytest.mark.parametrize("value", ["0", "1", "95", "x", "", "-0.5", "nan"])
def test_a_level_that_is_no_probability_is_refused(client: httpx.Client, value: str) -> None:
    for path in (f"/models/m/predict?_level={value}", f"/models/m/weights?level={value}"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_option")
        assert "0.95" in answer.json()["detail"]


def test_a_model_without_a_posterior_has_no_intervals(client: httpx.Client) -> None:
    for path in ("/predict?a=1&_level=0.95", "/models/default/weights?level=0.95"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (409, "no_posterior")
        assert "particle_filter" in answer.json()["detail"]
    assert client.get("/models/default/weights").status_code == 200
    assert client.get("/models/default").json()["posterior"] is None


def test_weights_carry_quantiles_and_the_probability_of_their_sign(client: httpx.Client) -> None:
    answer = client.get("/models/m/weights?level=0.5").json()
    assert {weight["feature"] for weight in answer["weights"]} == {"age", "country=de", "country=fr"}
    for weight in [*answer["weights"], {"posterior": answer["intercept_posterior"], "weight": answer["intercept"]}]:
        assert weight["posterior"]["level"] == 0.5
        assert weight["posterior"]["low"] < weight["weight"] < weight["posterior"]["high"]
        assert 0.0 <= weight["posterior"]["positive"] <= 1.0
    sure = {weight["feature"]: weight["posterior"]["positive"] for weight in answer["weights"]}
    assert sure["country=de"] > 0.9 > 0.1 > sure["country=fr"]
    assert client.get("/models/m/weights").json()["intercept_posterior"]["level"] == 0.95


def test_the_state_of_the_posterior_is_described_and_counted(client: httpx.Client) -> None:
    told = client.get("/models/m").json()
    assert told["posterior"]["draws"] == 1000
    assert 1.0 <= told["posterior"]["effective_sample_size"] <= 1000.0
    assert told["posterior"]["rejuvenations"] > 0
    assert told["posterior"]["dependent_feature"] in ("country=de", "country=fr")  # one of them is 1 minus the other
    assert told["std_error"] == {"available": True, "why_not": None}
    metrics = client.get("/metrics").text
    assert f'riata_rejuvenations{{model="m"}} {float(told["posterior"]["rejuvenations"])}' in metrics
    assert 'riata_effective_sample_size{model="m"}' in metrics
    assert 'riata_tempered_events{model="m"}' in metrics
    assert 'riata_rejuvenations{model="default"}' not in metrics


@pytest.mark.parametrize("kind", ["usual", "separated", "outliers"])
def test_what_speaks_against_the_intervals_is_a_warning(client: httpx.Client, kind: str) -> None:
    rng = np.random.default_rng(5)
    x, flag, noise = rng.normal(size=3000), rng.random(3000) < 0.1, rng.logistic(size=3000)
    label = (x > noise) | (flag & (kind == "separated"))
    if kind == "outliers":
        x[1500::150] *= 1000.0
    rows = zip(x.tolist(), flag.astype(float).tolist(), label.astype(int).tolist(), strict=True)
    body = "\n".join(json.dumps({"features": {"x": a, "flag": b}, "label": c}) for a, b, c in rows)
    learner = {**FILTER, "start": 300, "particles": 1000, "far_values": "off" if kind == "outliers" else "auto"}
    client.put(f"/models/{kind}", json={"learner": learner}).raise_for_status()
    client.post(f"/models/{kind}/observe?wait=applied", content=body, headers=LINES).raise_for_status()
    found = [one for one in client.get(f"/models/{kind}").json()["warnings"] if one["code"] == "posterior_doubtful"]
    expected = {"usual": [], "separated": [["flag"]], "outliers": [[]]}[kind]
    assert [one["features"] for one in found] == expected


def test_a_row_beyond_the_vocabulary_is_refused_by_name(client: httpx.Client) -> None:
    assert client.get("/models/m").json()["vocabulary_full"]
    answer = client.post("/models/m/observe", json={"features": {"age": 1, "weight": 70}, "label": 1})
    assert answer.json()["errors"][0]["code"] == "vocabulary_full"
    assert "larger features_max" in answer.json()["errors"][0]["detail"]


def test_too_many_features_are_refused_by_name(client: httpx.Client) -> None:
    answer = client.put("/models/wide", json={"learner": {**FILTER, "features_max": 33}})
    assert (answer.status_code, answer.json()["code"]) == (422, "too_many_features")


def test_restore_and_import_give_the_same_intervals(client: httpx.Client) -> None:
    taught(client, "kept")
    asked = "/models/{}/predict?country=fr&age=2&_level=0.9&_explain=true"
    before = client.get(asked.format("kept")).json()
    generation = client.post("/models/kept/snapshots").json()["generation"]
    exported = client.get("/models/kept/export").content
    client.post("/models/kept/observe?wait=applied", content=ROWS.replace('"label": 1', '"label": 0'), headers=LINES)
    assert client.get(asked.format("kept")).json()["interval"] != before["interval"]
    client.post("/models/kept/restore", json={"generation": generation}).raise_for_status()
    assert client.get(asked.format("kept")).json()["interval"] == before["interval"]
    client.post("/models/copied/import", content=exported, headers=BINARY).raise_for_status()
    copied = client.get(asked.format("copied")).json()
    assert (copied["interval"], copied["margin"], copied["std_error"]) == (
        before["interval"], before["margin"], before["std_error"],
    )  # fmt: skip
    total = copied["bias"] + np.cumsum([part["contribution"] for part in copied["contributions"]])[-1]
    assert total == pytest.approx(copied["margin"])


def test_before_the_first_event_there_is_nothing_to_say(client: httpx.Client) -> None:
    assert client.put("/models/fresh", json={"learner": FILTER}).status_code == 201
    assert client.get("/models/fresh").json()["std_error"] == {"available": False, "why_not": "no event has been learnt yet"}
    assert client.get("/models/fresh/predict?a=1&_level=0.9").json()["code"] == "no_posterior"
