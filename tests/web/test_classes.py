"""A model of several classes in the whole service: labels by name in every format, answers, explanation, figures and refusals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from tests.web.serving import answering
from tests.web.test_predict import read_columns

ARROW = "application/vnd.apache.arrow.stream"
WORDS = {"sport": ["ball", "goal"], "law": ["court", "vote"], "7": ["chip", "code"]}
ROWS = [
    {"features": {word: 1}, "label": 7 if name == "7" else name} for name, words in WORDS.items() for word in words
] * 60  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with answering() as client:
        document = {"labels": "classes", "classes": {"max": 4}, "encoder": {"bits": 12}}
        assert client.put("/models/m", json=document).status_code == 201
        before = client.post("/models/m/predict", json={"features": {"ball": 1}}).json()
        assert (before["label"], before["probability"], before["probabilities"]) == (None, None, {})
        assert client.post("/models/m/observe?wait=applied", json=ROWS).json()["applied"]
        yield client


def test_the_winner_its_probability_and_its_contributions_belong_together(client: httpx.Client) -> None:
    found = client.post("/models/m/predict?explain=true", json={"features": {"goal": 1, "ball": 1, "new": 2}}).json()
    assert found["label"] == "sport"
    assert list(found["probabilities"]) == ["sport", "law", "7"]
    assert sum(found["probabilities"].values()) == pytest.approx(1.0, abs=1e-12)
    assert found["probability"] == found["probabilities"]["sport"] > 0.8
    total = found["bias"]
    for part in found["contributions"]:
        total += part["contribution"]
    assert total == found["margin"]
    assert (found["known_features"], found["unknown_features"]) == (2, 1)
    assert client.get("/models/m/predict?chip=1").json()["label"] == "7"


def test_columns_have_the_name_and_the_probability_of_each_class(client: httpx.Client) -> None:
    rows = [{"features": {"vote": 1}}, {"features": {"code": 1}}]
    columns = read_columns(client.post("/models/m/predict", json=rows, headers={"Accept": ARROW}).content)
    documents = client.post("/models/m/predict", json=rows).json()
    assert columns["label"] == [row["label"] for row in documents] == ["law", "7"]
    assert columns["probability_law"] == [row["probabilities"]["law"] for row in documents]


def test_tensors_have_the_names_and_the_table_of_probabilities(client: httpx.Client) -> None:
    inputs = [
        {"name": name, "shape": [2], "datatype": "INT8", "data": data} for name, data in (("vote", [1, 0]), ("code", [0, 1]))
    ]
    answer = client.post("/v2/models/m/infer", json={"inputs": inputs}).json()
    outputs = {one["name"]: one for one in answer["outputs"]}
    rows = client.post(
        "/models/m/predict", json=[{"features": {"vote": 1, "code": 0}}, {"features": {"vote": 0, "code": 1}}]
    ).json()
    assert (outputs["label"]["datatype"], outputs["label"]["data"]) == ("BYTES", ["law", "7"])
    assert (outputs["probability"]["shape"], len(rows[0]["probabilities"])) == ([2, 3], 3)
    assert outputs["probability"]["data"] == [each for row in rows for each in row["probabilities"].values()]
    assert client.get("/v2/models/m").json()["outputs"][1] == {"name": "probability", "datatype": "FP64", "shape": [-1, 3]}


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("application/x-ndjson", '{"features": {"ball": 1}, "label": %s}'),
        ("text/x-vw", "%s | ball"),
        ("text/x-svmlight", "%s 3:1"),
    ],
)
def test_every_format_names_classes_and_numbers_are_names(client: httpx.Client, kind: str, row: str) -> None:
    quoted = '"%s"' if "json" in kind else "%s"
    body = "\n".join([row % (quoted % "sport"), row % "7", row % "7.0", row % (quoted % "fourth"), row % (quoted % "fifth")])
    post = partial(client.post, "/models/m/observe?wait=applied", content=body, headers={"Content-Type": kind})
    while (answer := post()).status_code == 503:  # the kernels of some readers follow after the start
        time.sleep(0.1)
    told = answer.json()
    assert (told["accepted"], told["rejected"]) == (4, 1)
    assert (told["errors"][0]["index"], told["errors"][0]["code"]) == (4, "too_many_classes")
    assert client.get("/models/m").json()["config"]["classes"]["names"] == ["sport", "law", "7", "fourth"]


@pytest.mark.parametrize("label", ["true", '""', '"a\\u0000b"', "1e16", "[1]", '"' + "x" * 129 + '"'])
def test_what_names_no_class_is_refused_with_what_would(client: httpx.Client, label: str) -> None:
    told = client.post(
        "/models/m/observe",
        content=f'{{"features": {{"ball": 1}}, "label": {label}}}',
        headers={"Content-Type": "application/json"},
    ).json()
    assert told["errors"][0]["code"] == "bad_label"
    assert "the name of a class" in told["errors"][0]["detail"]


def test_metrics_have_figures_of_each_class_and_their_means(client: httpx.Client) -> None:
    metrics = client.get("/models/m/metrics?since=0").json()
    by_class = {one["class"]: one["cumulative"] for one in metrics["classes"]}
    assert by_class["sport"]["recall"] > 0.9
    assert 0.0 < metrics["macro"]["cumulative"]["f1"] <= 1.0
    assert metrics["cumulative"]["error"] == pytest.approx(1.0 - metrics["cumulative"]["accuracy"])
    assert metrics["cumulative"]["log_loss"] < metrics["cumulative"]["base_log_loss"]
    assert metrics["history"][-1]["log_loss"] > 0.0


def test_weights_are_those_of_one_class(client: httpx.Client) -> None:
    found = {one["feature"]: one["weight"] for one in client.get("/models/m/weights?class=law").json()["weights"]}
    assert found["court"] > 0.0 > found["chip"]
    for query, said in (("", "name one"), ("?class=lew", "did you mean 'law'?")):
        refused = client.get(f"/models/m/weights{query}")
        assert (refused.status_code, refused.json()["code"]) == (422, "bad_option")
        assert said in refused.json()["detail"]
    assert client.get("/models/default/weights?class=law").json()["code"] == "bad_option"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/models/m/predict?remember=true", {"features": {"ball": 1}}),
        ("POST", "/models/m/predict?level=0.9", {"features": {"ball": 1}}),
        ("POST", "/models/m/refits", {}),
        ("GET", "/models/m/path", None),
    ],
)
def test_what_needs_one_margin_is_refused(client: httpx.Client, method: str, path: str, body: object) -> None:
    refused = client.request(method, path, json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "not_for_classes")
    assert "several classes" in refused.json()["detail"]
