"""remember=true and labels by prediction_id, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.types import Message

from riata.base.clock import rfc3339
from riata.base.limits import REMEMBERED_ROW_BYTES_MAX
from riata.run.labels.pending_rows import Waiting, decode_row
from riata.web.auth.keys import KEY, Key
from tests.web.asking import Client, asking, post_scope, run_asgi
from tests.web.serving import Whole, answering

LINES = {"Content-Type": "application/x-ndjson"}
ID_PATTERN = "0123456789abcdef"


def waiting(row: bytes) -> Waiting:
    found = decode_row(row)
    assert isinstance(found, Waiting)
    return found


def stored(service: Whole, *answers: Any) -> list[Waiting]:
    """What is kept of predictions, by their answers."""
    keys = [bytes.fromhex(answer["prediction_id"]) for answer in answers]
    found = service.call(lambda store: store.recall("default", keys))
    return [waiting(found[key].row) for key in keys]


def test_an_id_is_given_only_where_it_is_asked_for(client: Client, service: Whole) -> None:
    for query in ("", "?remember=false"):
        assert "prediction_id" not in client.post(f"/predict{query}", '{"features":{"a":1}}').json()
    assert "prediction_id" not in client.get("/predict?a=1").json()
    assert service.kept() == 0
    (row,) = stored(service, client.post("/predict?remember=true", '{"features":{"a":1}}').json())
    assert (service.kept(), row.batch.nnz) == (1, 1)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_get_remembers_nothing_and_names_the_post_that_does(client: Client, service: Whole, method: str) -> None:
    """A GET changes nothing, because any web page can make a browser send one."""
    for path in ("/predict", "/models/default/predict"):
        for value in ("true", "false", ""):
            answer = client.ask(method, f"{path}?a=1&_remember={value}")
            assert answer.status_code == 422
            if method == "GET":
                assert answer.json()["code"] == "remember_by_post"
                assert "POST /predict?remember=true" in answer.json()["detail"]
        assert client.post(f"{path}?remember=true", '{"features":{"a":1}}').status_code == 200
    assert service.kept() == 2


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", '[{"features":{"a":1}},{"features":{"b":2}}]'),
        ("application/x-ndjson", '{"features":{"a":1}}\n{"features":{"b":2}}'),
        ("text/x-vw", "|n a:1\n|n b:2"),
        ("text/x-svmlight", "1:1\n2:2"),
    ],
)
def test_every_row_gets_an_id_in_its_order(client: Client, service: Whole, kind: str, body: str) -> None:
    answers = client.post("/predict?remember=true&explain=true", body, kind).json()
    assert all("contributions" in answer for answer in answers)
    lines = client.post("/predict?remember=true", body, kind, Accept="application/x-ndjson").text.splitlines()
    answers += map(json.loads, lines)
    assert [row.batch.value.tolist() for row in stored(service, *answers)] == [[1.0], [2.0]] * 2
    assert service.kept() == 4


def test_a_large_body_is_remembered_as_a_small_one(client: Client, service: Whole) -> None:
    body = "\n".join(f'{{"features":{{"a":{i}}}}}' for i in range(1, 5001))
    assert len(body) > 64 * 1024
    answers = client.post("/predict?remember=true", body, "application/x-ndjson").json()
    assert [row.batch.value.tolist() for row in stored(service, *answers)] == [[float(i)] for i in range(1, 5001)]


def test_names_that_are_new_to_the_log_are_kept_with_the_row(client: Client, service: Whole) -> None:
    client.post("/observe?wait=applied", '{"features":{"old":1},"label":1}')
    two = client.post(
        "/predict?remember=true", '[{"features":{"old":1,"new":1}},{"features":{"n\\u00e4chster":2,"old":1}}]'
    ).json()
    one = client.post("/predict?remember=true", '{"features":{"new":1}}').json()
    assert [[name.decode() for _, name in row.names] for row in stored(service, *two, one)] == [["new"], ["nächster"], ["new"]]


def wide_row(count: int) -> str:
    return json.dumps({"features": {f"f{i}": i + 0.1 for i in range(count)}})


def test_a_row_that_is_too_large_is_refused_by_its_place(client: Client, service: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real limits no row is too large: 10,000 features take 120 kB. So the test uses a smaller bound."""
    assert REMEMBERED_ROW_BYTES_MAX > 10_000 * 12 + 1000
    monkeypatch.setattr("riata.web.api.predict.REMEMBERED_ROW_BYTES_MAX", 5000)
    answer = client.post("/predict?remember=true", f"[{wide_row(3)},{wide_row(500)}]")
    assert (answer.status_code, answer.json()["code"]) == (422, "rows_refused")
    assert [(error["index"], error["code"]) for error in answer.json()["errors"]] == [(1, "row_too_large_to_remember")]
    assert service.kept() == 0
    assert client.post("/predict", f"[{wide_row(3)},{wide_row(500)}]").status_code == 200


def test_a_full_memory_names_the_time_to_retry() -> None:
    with asking(Whole(remember_bytes_max=10).app()) as client:
        answer = client.post("/predict?remember=true", '{"features":{"a":1}}')
        assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (503, "30", "remember_full")
        assert "probability" not in answer.text
        assert client.get("/predict?a=1").status_code == 200


@pytest.mark.parametrize(("scopes", "status"), [({"predict"}, 403), ({"predict", "observe"}, 200)])
def test_a_key_for_predictions_alone_cannot_have_them_remembered(client: Client, scopes: set[str], status: int) -> None:
    """With a default label they would become events, which this key may not send."""
    key = Key("k", bytes(32), frozenset(scopes), None, None, None)
    body: Message = {"type": "http.request", "body": b'{"features":{"a":1}}', "more_body": False}
    scope = {**post_scope("/predict"), "query_string": b"remember=true", KEY: key}
    assert run_asgi(client, scope, [body]).status == status
    assert run_asgi(client, {**scope, "query_string": b""}, [body]).status == 200


@pytest.mark.parametrize("value", ["", "1", "yes", "True"])
def test_remember_is_true_or_false(standing: Client, value: str) -> None:
    answer = standing.post(f"/predict?remember={value}", '{"features":{}}')
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_option")


def test_a_row_to_predict_has_no_prediction_id(client: Client) -> None:
    answer = client.post("/predict", f'{{"prediction_id":"{"0" * 32}"}}')
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "prediction_id_not_allowed")


def test_predictions_are_counted_by_outcome(client: Client, service: Whole) -> None:
    one, other = (client.post("/predict?remember=true", '{"features":{"a":1}}').json()["prediction_id"] for _ in range(2))
    for name in (one, f"{1:012x}{'ab' * 10}"):
        client.post("/observe", json.dumps({"prediction_id": name, "label": 1}))
    tally = service.service.remembered()["default"]
    for delay_s in (5.0, 7200.0):
        tally.delays.add(delay_s)
    text = client.get("/metrics").text
    assert 'riata_predictions_remembered_total{model="default"} 2.0' in text
    assert 'riata_prediction_labels_total{model="default",outcome="joined"} 1.0' in text
    assert 'riata_prediction_labels_total{model="default",outcome="late"} 1.0' in text
    assert 'riata_predictions_due_total{model="default",outcome="defaulted"} 0.0' in text
    for bound, count in (("1.0", 1), ("10.0", 2), ("3600.0", 2), ("21600.0", 3), ("+Inf", 3)):
        assert f'riata_label_delay_seconds_bucket{{le="{bound}",model="default"}} {count:.1f}' in text
    delay = client.get("/models/default/refused").json()["label_delay"]
    assert (sum(delay["counts"]), delay["mean_s"]) == (3, pytest.approx(7205.0 / 3, abs=1.0))
    assert len(other) == 32


def test_the_age_of_rows_with_a_time_is_counted(client: Client) -> None:
    now = time.time()
    rows = [{"features": {"a": 1}, "label": 1, "ts": rfc3339(int(1000 * (now - age_s)))} for age_s in (0.0, 90.0, 2e6)]
    client.post("/observe?wait=applied", json.dumps(rows))
    text = client.get("/metrics").text
    assert 'riata_event_lateness_seconds_bucket{le="600.0",model="default"} 2.0' in text
    assert 'riata_event_lateness_seconds_count{model="default"} 3.0' in text
    counts = client.get("/models/default/refused").json()["lateness"]["counts"]
    assert (sum(counts), counts[8]) == (3, 1)


# -- the whole service, through a socket ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole() -> Iterator[httpx.Client]:
    with answering() as client:
        yield client


def model(whole: httpx.Client, name: str, **settings: Any) -> str:
    """Create a model; returns its path."""
    whole.put(f"/models/{name}", json=settings).raise_for_status()
    return f"/models/{name}"


def ask(whole: httpx.Client, at: str, colour: str) -> str:
    answer = whole.post(f"{at}/predict", params={"remember": "true"}, json={"features": {"colour": colour}})
    assert answer.status_code == 200
    found: str = answer.json()["prediction_id"]
    assert len(found) == 32
    assert set(found) <= set(ID_PATTERN)
    return found


def test_a_model_learns_from_labels_that_come_later(whole: httpx.Client) -> None:
    at = model(whole, "later")
    colours = ["red", "green", "blue"] * 20
    body = "\n".join(json.dumps({"features": {"colour": colour}}) for colour in colours)
    answers = whole.post(f"{at}/predict?remember=true", content=body, headers=LINES).json()
    assert {answer["probability"] for answer in answers} == {0.5}
    rows = [
        json.dumps({"prediction_id": answer["prediction_id"], "label": int(colour == "red")})
        for answer, colour in zip(answers, colours, strict=True)
    ]
    reported = whole.post(f"{at}/observe?wait=applied", content="\n".join(rows), headers=LINES)
    assert (reported.status_code, reported.json()["accepted"], reported.json()["seq"]) == (200, 60, 61)
    high, low = (whole.get(f"{at}/predict", params={"colour": colour}).json()["probability"] for colour in ("red", "blue"))
    assert high > 0.5 > low
    names = {weight["feature"] for weight in whole.get(f"{at}/weights").json()["weights"]}
    assert names == {"colour=red", "colour=green", "colour=blue"}
    again = whole.post(f"{at}/observe?wait=applied", content="\n".join(rows), headers=LINES).json()
    assert (again["accepted"], again["duplicate"], again["seq"], again["outcome"]) == (0, 60, 61, "duplicate")
    metrics = whole.get("/metrics").text
    assert 'riata_prediction_labels_total{model="later",outcome="repeated"} 60.0' in metrics


def test_each_way_to_be_refused_has_its_code(whole: httpx.Client) -> None:
    at, other = model(whole, "codes"), model(whole, "codes-other")
    one = ask(whole, at, "red")
    assert whole.post(f"{at}/observe", json={"prediction_id": one, "label": 1}).status_code == 202
    late = f"{1:012x}{'ab' * 10}"
    rows = [
        {"prediction_id": one, "label": 0},
        {"prediction_id": ask(whole, other, "red"), "label": 1},
        {"prediction_id": late, "label": 1},
        {"prediction_id": "x", "label": 1},
        {"prediction_id": one, "label": 1, "features": {}},
        {"prediction_id": one, "label": 1, "event_id": "e"},
        {"features": {"a": 1}, "label": 1, "event_id": "e"},
        {"prediction_id": one, "label": 1},
    ]
    reported = whole.post(f"{at}/observe", json=rows).json()
    assert (reported["accepted"], reported["duplicate"], reported["rejected"]) == (1, 1, 6)
    assert [(error["index"], error["code"]) for error in reported["errors"]] == [
        (0, "label_conflict"),
        (1, "prediction_unknown"),
        (2, "prediction_late"),
        (3, "bad_prediction_id"),
        (4, "prediction_id_with_features"),
        (5, "prediction_id_with_event_id"),
    ]
    alone = whole.post(f"{at}/observe", json=rows[0])
    assert (alone.status_code, alone.json()["code"], alone.json()["outcome"]) == (422, "nothing_accepted", "not_accepted")
    assert [(error["index"], error["code"]) for error in alone.json()["errors"]] == [(0, "label_conflict")]
    refused = whole.post(f"{at}/observe?atomic=true", json=[{"features": {"a": 2}, "label": 1}, rows[1]])
    assert (refused.status_code, refused.json()["code"]) == (422, "atomic_refused")


def test_an_idempotency_key_leaves_the_predictions_their_own_ids(whole: httpx.Client) -> None:
    at = model(whole, "keyed")
    rows = [{"prediction_id": ask(whole, at, "red"), "label": 1}, {"features": {"a": 1}, "label": 0}]
    first = whole.post(f"{at}/observe", json=rows, headers={"Idempotency-Key": "k"}).json()
    again = whole.post(f"{at}/observe", json=rows, headers={"Idempotency-Key": "k"}).json()
    other = whole.post(f"{at}/observe", json=rows, headers={"Idempotency-Key": "l"}).json()
    assert (first["accepted"], again["duplicate"], again["seq"]) == (2, 2, first["seq"])
    assert (other["accepted"], other["duplicate"]) == (1, 1)


def test_time_runs_out_and_the_default_label_is_learnt(whole: httpx.Client) -> None:
    at = model(whole, "default-label", label_ttl_s=1, default_label=0)
    one, other = ask(whole, at, "red"), ask(whole, at, "blue")
    assert whole.post(f"{at}/observe", json={"prediction_id": other, "label": 1}).status_code == 202
    deadline = time.monotonic() + 900.0
    while whole.get(f"{at}").json()["examples"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    late = whole.post(f"{at}/observe", json={"prediction_id": one, "label": 1})
    assert (late.status_code, late.json()["errors"][0]["code"]) == (422, "prediction_late")
    assert whole.get(f"{at}/metrics").json()["cumulative"]["base_rate"] == 0.5
    assert 'riata_predictions_due_total{model="default-label",outcome="defaulted"} 1.0' in whole.get("/metrics").text
    changed = whole.patch(at, json={"default_label": None, "label_ttl_s": 60}).json()["config"]
    assert (changed["default_label"], changed["label_ttl_s"]) == (None, 60)


@pytest.mark.parametrize(
    "settings", [{"label_ttl_s": 0}, {"label_ttl_s": 7_776_001}, {"default_label": 2}, {"labels": "-1/+1", "default_label": 0}]
)
def test_settings_out_of_their_bounds_are_refused(whole: httpx.Client, settings: dict[str, Any]) -> None:
    answer = whole.put("/models/bounds", json=settings)
    assert (answer.status_code, answer.json()["code"]) == (422, "out_of_range")
