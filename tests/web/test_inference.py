"""The open inference protocol: its answers are those of /predict, and what is no table of rows is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from riata.web.api.routes.inference import read_inference, rows_of
from tests.web.asking import Client

INPUTS = [
    {"name": "age", "shape": [3], "datatype": "FP64", "data": [41.5, 25, 33]},
    {"name": "country", "shape": [3, 1], "datatype": "BYTES", "data": [["de"], ["fr"], [None]]},
    {"name": "p", "shape": [3, 2], "datatype": "INT32", "data": [1, 0, 0, 2, 3, 4]},
]
ROWS = [
    {"age": 41.5, "country": "de", "p_0": 1, "p_1": 0},
    {"age": 25, "country": "fr", "p_0": 0, "p_1": 2},
    {"age": 33, "p_0": 3, "p_1": 4},
]


def infer(client: Client, document: dict[str, Any]) -> Any:
    return client.post("/v2/models/m/infer", json.dumps(document))


def test_a_tensor_is_a_column_or_several() -> None:
    assert rows_of(read_inference({"inputs": INPUTS}).inputs) == ROWS


def test_tensors_are_answered_as_rows_are(client: Client) -> None:
    client.put("/models/m", "{}")
    answer = infer(client, {"id": "a7", "inputs": INPUTS, "parameters": {"content_type": "pd"}}).json()
    assert (answer["model_name"], answer["id"]) == ("m", "a7")
    rows = client.post("/models/m/predict", json.dumps([{"features": row} for row in ROWS])).json()
    assert answer["model_version"] == str(rows[0]["model"]["version"])
    assert {one["name"]: (one["shape"], one["data"]) for one in answer["outputs"]} == {
        name: ([3], [row[name] for row in rows]) for name in ("probability", "margin", "label")
    }
    wanted = infer(client, {"inputs": INPUTS, "outputs": [{"name": "margin"}]}).json()
    assert "id" not in wanted
    assert [one["name"] for one in wanted["outputs"]] == ["margin"]


def test_a_gateway_finds_server_and_model(client: Client) -> None:
    client.put("/models/m", "{}")
    assert client.get("/v2").json()["name"] == "riata"
    about = client.get("/v2/models/m").json()
    assert (about["name"], about["platform"], [one["name"] for one in about["outputs"]]) == (
        "m",
        "riata",
        ["probability", "margin", "label"],
    )
    assert client.get("/v2/models/m/ready").json() == {"name": "m", "ready": True}
    for path in ("/v2/models/nobody", "/v2/models/nobody/ready"):
        assert client.get(path).json()["code"] == "model_not_found"
    assert infer(client, {"inputs": []}).status_code == 422
    assert client.post("/v2/models/nobody/infer", json.dumps({"inputs": INPUTS})).json()["code"] == "model_not_found"


AGE = INPUTS[0]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "inputs"),
        ({"inputs": [{**AGE, "datatype": "FLOAT"}]}, "FLOAT"),
        ({"inputs": [{**AGE, "shape": [3, 1, 1]}]}, "length <= 2"),
        ({"inputs": [{**AGE, "shape": [0], "data": []}]}, "1 to 10,000 rows"),
        ({"inputs": [{**AGE, "shape": [4]}]}, "3 values, but the shape [4] has 4"),
        ({"inputs": [AGE, {**AGE, "name": "b", "shape": [2], "data": [1, 2]}]}, "2 rows, but the input 'age' has 3"),
        ({"inputs": [AGE, AGE]}, "two inputs give the same feature"),
        ({"inputs": [{**AGE, "data": ["1", "2", "3"]}]}, "BYTES"),
        ({"inputs": [{**AGE, "datatype": "BYTES"}]}, "BYTES"),
        ({"inputs": [AGE], "outputs": [{"name": "margn"}]}, "margin"),
    ],
)
def test_what_is_no_table_of_rows_is_refused(document: dict[str, Any], said: str, client: Client) -> None:
    client.put("/models/m", "{}")
    answer = infer(client, document)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_inference")
    assert said in answer.json()["detail"]


def test_a_value_that_no_row_may_have_is_refused_with_its_row(client: Client) -> None:
    client.put("/models/m", "{}")
    answer = infer(client, {"inputs": [{"name": "a\u0001", "shape": [1], "datatype": "FP32", "data": [1]}]})
    assert (answer.status_code, answer.json()["errors"][0]["index"]) == (422, 0)


def test_positions_that_a_model_has_never_learnt_are_refused(client: Client) -> None:
    """A tensor of several columns has no names, so the answer would be that of a row without features."""
    client.put("/models/m", "{}")
    inputs = [{"name": "input-0", "shape": [2, 2], "datatype": "FP32", "data": [[5.1, 3.5], [-6.7, -3.0]]}]
    assert infer(client, {"inputs": inputs}).status_code == 200  # nothing is learnt yet: any row has the prior
    rows = [{"features": {"age": 5, "country": "de", "p_0": 1}, "label": 1}]
    assert client.post("/models/m/observe?wait=applied", json.dumps(rows)).json()["applied"]
    refused = infer(client, {"inputs": inputs}).json()
    assert (refused["status"], refused["code"]) == (422, "bad_inference")
    assert refused["detail"] == (
        "input 'input-0': the model has learnt none of the features input-0_0 to input-0_1; it has age, country, p_0. Send an "
        "input of one column for each feature, with its name"
    )
    found = infer(client, {"inputs": [*inputs, {"name": "age", "shape": [2], "datatype": "FP64", "data": [1, 2]}]}).json()
    assert found["parameters"] == {"unknown_features": 4}
    assert infer(client, {"inputs": [INPUTS[2]]}).json()["parameters"] == {"unknown_features": 2}
    assert "parameters" not in infer(client, {"inputs": [INPUTS[0]]}).json()


def test_a_shape_that_its_data_do_not_have_is_refused_before_features_are_named(client: Client) -> None:
    assert client.put("/models/shaped", "{}").status_code in (200, 201, 202)
    rows = [{"features": {"age": 5}, "label": 1}]
    assert client.post("/models/shaped/observe?wait=applied", json.dumps(rows)).json()["applied"]
    tensor = {"name": "x", "shape": [2, 10**13], "datatype": "FP32", "data": [1, 2]}
    refused = client.post("/v2/models/shaped/infer", json.dumps({"inputs": [tensor]}))
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_inference")
    assert "2 values, but the shape" in refused.json()["detail"]
