"""GET and POST /predict."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest

from riata.web.api.predictions import wanted_form
from riata.web.server.answers import JSON, NDJSON
from tests.arrow_stream import ARROW
from tests.web.asking import Client, post_scope, run_asgi
from tests.web.serving import Whole

TEACH = '[{"features":{"age":41.5,"country":"de"},"label":1},{"features":{"country":"fr"},"label":0}]'


ROW = '{"features":{"country":"de"}}'


@pytest.fixture
def taught(client: Client) -> Client:
    assert client.post("/observe?wait=applied", TEACH).status_code == 200
    return client


def test_a_model_that_has_learnt_nothing_answers_its_prior(client: Client, service: Whole) -> None:
    service.clock.now_ms = service.service.published("default").published_mono_ms + 1500
    answer = client.get("/predict?age=41.5")
    assert answer.status_code == 200
    assert answer.json() == {
        "probability": 0.5,
        "margin": 0.0,
        "label": 0,
        "std_error": None,
        "known_features": 0,
        "unknown_features": 1,
        "model": {"name": "default", "version": 1, "seq": 0, "age_s": 1.5, "stale_s": 0.0},
    }


def test_query_and_body_give_the_same_answer(taught: Client) -> None:
    asked = taught.get("/predict?age=41.5&country=de&city=K%C3%B6ln").json()
    posted = taught.post("/predict", '{"features":{"age":41.5,"country":"de","city":"Köln"}}').json()
    assert asked == posted
    assert (asked["known_features"], asked["unknown_features"], asked["label"]) == (2, 1, 1)
    assert asked["probability"] == 1.0 / (1.0 + math.exp(-asked["margin"]))


def test_floats_come_back_as_the_same_number(taught: Client) -> None:
    text = taught.get("/predict?age=0.1&country=de").text
    margin = json.loads(text)["margin"]
    assert f'"margin":{margin!r}' in text


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", '[{"features":{"country":"de"}},{"features":{}}]'),
        ("application/x-ndjson", '{"features":{"country":"de"}}\n{"features":{}}\n'),
        ("text/x-vw", "|f a:1\n|f b:2\n"),
        ("text/x-svmlight", "1:1\n2:3\n"),
    ],
)
def test_many_rows_give_an_array_in_their_order(taught: Client, kind: str, body: str) -> None:
    answers = taught.post("/predict", body, kind).json()
    assert [answer["model"]["seq"] for answer in answers] == [3, 3]


def test_lines_are_answered_if_they_are_requested(taught: Client) -> None:
    body = '[{"features":{"country":"de"}},{"features":{}}]'
    answer = taught.post("/predict", body, Accept="application/x-ndjson")
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines == taught.post("/predict", body).json()


def read_columns(content: bytes) -> dict[str, list[Any]]:
    """The columns of an answer; null is None."""
    found: dict[str, list[Any]] = pa.ipc.open_stream(content).read_all().to_pydict()
    return found


@pytest.mark.parametrize(("body", "single"), [('[{"features":{"country":"de"}},{"features":{}}]', False), (ROW, True)])
@pytest.mark.parametrize("accept", [ARROW, f"{ARROW}, application/json;q=0.5", f"text/html, {ARROW.upper()};q=1"])
def test_columns_are_answered_if_they_are_requested(taught: Client, body: str, single: bool, accept: str) -> None:
    answer = taught.post("/predict", body, Accept=accept)
    assert (answer.status_code, answer.headers["content-type"]) == (200, ARROW)
    documents = taught.post("/predict", body).json()
    documents = [documents] if single else documents
    model = documents[0]["model"]
    assert read_columns(answer.content) == {
        name: [document[name] for document in documents] for name in documents[0] if name != "model"
    }
    assert json.dumps(model).encode() in answer.content


def test_remembered_predictions_have_their_ids_in_a_column(taught: Client, service: Whole) -> None:
    answer = taught.post("/predict?remember=true", f"[{ROW},{ROW}]", Accept=ARROW)
    keys = [bytes.fromhex(one) for one in read_columns(answer.content)["prediction_id"]]
    assert service.call(lambda store: store.recall("default", keys)).keys() == set(keys)
    assert len(set(keys)) == service.kept() == 2


def test_columns_are_not_explained(taught: Client) -> None:
    answer = taught.post("/predict?explain=true", ROW, Accept=ARROW)
    assert (answer.status_code, answer.json()["code"]) == (422, "explained_in_columns")
    assert taught.post("/predict?explain=true", ROW, Accept="application/x-ndjson").status_code == 200


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, JSON),
        (b"*/*", JSON),
        (b"application/json", JSON),
        (b"application/json, application/jsonl", NDJSON),
        (b"application/ndjson ;q=0.1, application/vnd.apache.arrow.stream", NDJSON),
        (b"application/vnd.apache.arrow.stream,application/x-ndjson", ARROW.encode()),
        (b"application/vnd.apache.arrow.file", JSON),
    ],
)
def test_the_first_form_that_is_named_is_taken(accept: bytes | None, form: bytes) -> None:
    assert wanted_form(accept) == form


def test_a_bad_row_refuses_the_whole_prediction(taught: Client) -> None:
    answer = taught.post("/predict", '{"features":{"a":1}}\n{"features":{"a":1e16}}', "application/x-ndjson")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "rows_refused")
    assert [(error["index"], error["code"]) for error in problem["errors"]] == [(1, "out_of_range")]


def test_a_label_is_refused(taught: Client) -> None:
    answer = taught.post("/predict", '{"features":{"a":1},"label":1}')
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "label_not_allowed")


def added(answer: dict[str, Any]) -> float:
    total: float = answer["bias"]
    for part in answer["contributions"]:
        total += part["contribution"]
    return total


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_explanation_sums_to_the_margin(taught: Client, method: str) -> None:
    if method == "GET":
        answer = taught.get("/predict?_explain=true&age=41.5&country=de&new=1").json()
    else:
        answer = taught.post("/predict?explain=true", '{"features":{"age":41.5,"country":"de","new":1}}').json()
    assert added(answer) == answer["margin"]
    assert {part["feature"] for part in answer["contributions"]} == {"age", "country=de", "new"}
    assert {part["feature"]: part["weight"] for part in answer["contributions"]}["new"] == 0.0


def test_explanations_are_bounded(taught: Client) -> None:
    row = json.dumps({"features": {f"f{i}": 1 for i in range(700)}})
    answer = taught.post("/predict?explain=true", "\n".join([row] * 30), "application/x-ndjson")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_many_features_to_explain")
    assert taught.post("/predict?explain=true", row, "application/x-ndjson").status_code == 200


def test_min_seq_waits_and_beyond_the_log_is_refused(taught: Client) -> None:
    assert taught.get("/predict?_min_seq=3&a=1").status_code == 200
    answer = taught.post("/predict?min_seq=4", '{"features":{}}')
    assert (answer.status_code, answer.json()["code"]) == (422, "min_seq_ahead")


@pytest.mark.parametrize("value", ["", "-1", "1.0", "1e3", "x", "9223372036854775808", "\uff11"])
def test_min_seq_is_a_whole_number(taught: Client, value: str) -> None:
    answer = taught.get("/predict", params={"_min_seq": value})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_option")


def test_unknown_options_name_the_nearest(taught: Client) -> None:
    asked = taught.get("/predict?_explian=true")
    posted = taught.post("/predict?minseq=1", '{"features":{}}')
    assert (asked.status_code, posted.status_code) == (422, 422)
    assert "'_explain'" in asked.json()["detail"]
    assert "'min_seq'" in posted.json()["detail"]


def test_a_query_that_is_not_utf8_is_malformed(taught: Client) -> None:
    answer = taught.get("/predict?a=%ff")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_encoding")


@pytest.mark.parametrize("query", [b"&".join(b"f%d=1" % i for i in range(9000)), b"a=" + b"x" * 65_536, b"a&" * 10_001])
def test_a_query_beyond_its_bound_is_too_long(taught: Client, query: bytes) -> None:
    received = run_asgi(taught, {**post_scope("/predict"), "method": "GET", "query_string": query}, [])
    assert (received.status, json.loads(received.body)["code"]) == (414, "query_too_long")


def test_a_query_within_its_bound_is_answered(taught: Client) -> None:
    query = b"&".join(b"f%d=1" % i for i in range(7000))
    assert run_asgi(taught, {**post_scope("/predict"), "method": "GET", "query_string": query}, []).status == 200


def test_a_large_body_is_scored_like_a_small_one(taught: Client) -> None:
    rows = '{"features":{"country":"de"}}\n' * 4000
    answers = taught.post("/predict", rows, "application/x-ndjson").json()
    one = taught.get("/predict?country=de").json()
    assert len(answers) == 4000
    assert answers[-1] == one


def test_labels_are_those_of_the_model(client: Client) -> None:
    client.put("/models/signed", '{"labels":"-1/+1"}')
    client.post("/models/signed/observe", '{"features":{"a":1},"label":-1}')
    assert client.get("/models/signed/predict?a=1").json()["label"] == -1


def test_predicting_changes_nothing(taught: Client) -> None:
    before = taught.get("/models/default/export?format=json").content
    taught.post("/predict", '{"features":{"brand":"new"}}')
    assert taught.get("/models/default/export?format=json").content == before


def test_a_head_request_is_answered_like_a_get(taught: Client) -> None:
    assert taught.ask("HEAD", "/predict?a=1").status_code == 200
