"""Crosses, costs and the correction for negatives that were left out, in the whole service."""

from __future__ import annotations

import math
from collections.abc import Iterator

import httpx
import pytest

from tests.web.serving import answering
from tests.web.test_predict import read_columns

ARROW = "application/vnd.apache.arrow.stream"
CONFIG = {"encoder": {"crosses": [["country", "device"]]}, "decision": {"cost_fp": 1, "cost_fn": 9}}
ROWS = [
    {"features": {"country": country, "device": device}, "label": int((country == "DE") == (device == "phone"))}
    for country in ("DE", "FR")
    for device in ("phone", "desk")
] * 100
QUERY = "country=DE&device=phone"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with answering() as client:
        assert client.put("/models/m", json=CONFIG).status_code == 201
        assert client.post("/models/m/observe?wait=applied", json=ROWS).json()["applied"]
        yield client


def test_a_cross_learns_what_no_field_knows_and_is_named(client: httpx.Client) -> None:
    found = client.get(f"/models/m/predict?{QUERY}&_explain=true").json()
    shares = {share["feature"]: share["contribution"] for share in found["contributions"]}
    assert max(shares, key=lambda name: shares[name]) == "country=DE × device=phone"
    assert found["probability"] > 0.9
    names = {weight["names"][0] for weight in client.get("/models/m/weights?top=4").json()["weights"]}
    assert names == {f"country={country} × device={device}" for country in ("DE", "FR") for device in ("phone", "desk")}


def test_the_decision_follows_the_costs_and_its_cost_is_measured(client: httpx.Client) -> None:
    unsure = client.get("/models/m/predict").json()
    assert 0.1 < unsure["probability"] < 0.6
    assert unsure["decision"] == 1  # a missed positive costs nine times as much
    rows = [{"features": {"country": "DE", "device": device}} for device in ("phone", "desk")]
    decided = [row["decision"] for row in client.post("/models/m/predict", json=rows).json()]
    assert decided == [1, 0]
    columns = read_columns(client.post("/models/m/predict", json=rows, headers={"Accept": ARROW}).content)
    assert columns["decision"] == decided
    cost = client.get("/models/m/metrics").json()["cost"]
    assert cost["threshold"] == 0.1
    assert cost["examples"] == len(ROWS)
    assert 0.0 <= cost["realised"] < min(cost["always_positive"], cost["always_negative"])
    assert "decision" not in client.get("/predict?a=1").json()


def test_negatives_that_were_left_out_shift_every_answer_and_nothing_that_was_learnt(client: httpx.Client) -> None:
    before = client.get(f"/models/m/predict?{QUERY}&_explain=true").json()
    assert client.patch("/models/m", json={"negatives_kept": 0.1}).status_code == 200
    while (after := client.get(f"/models/m/predict?{QUERY}&_explain=true").json())["bias"] == before["bias"]:
        pass
    assert after["margin"] == pytest.approx(before["margin"] + math.log(0.1), abs=1e-12)
    assert after["contributions"] == before["contributions"]
    odds = after["probability"] / (1.0 - after["probability"])
    assert odds == pytest.approx(0.1 * before["probability"] / (1.0 - before["probability"]), rel=1e-9)
    client.patch("/models/m", json={"negatives_kept": 1.0})


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"decision": {"cost_fp": 1}}, "both cost_fp and cost_fn"),
        ({"decision": {"cost_fp": -1, "cost_fn": 1}}, "decision.cost_fp"),
        ({"decision": {"cost_fp": 1, "cost_fn": 1}, "learner": {"kind": "truncated_gradient", "loss": "hinge"}}, "probabilities"),
        ({"negatives_kept": 0.5, "learner": {"kind": "truncated_gradient", "loss": "squared"}}, "logistic"),
        ({"negatives_kept": 0}, "negatives_kept"),
    ],
)
def test_settings_that_cannot_work_are_refused(client: httpx.Client, document: dict[str, object], said: str) -> None:
    answer = client.put("/models/other", json=document)
    assert (answer.status_code, answer.json()["code"]) == (422, "out_of_range")
    assert said in answer.json()["detail"]
