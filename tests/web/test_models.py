"""Routes about models."""

from __future__ import annotations

import json

import pytest

from riata.learn.kinds import KINDS
from riata.web.settings import MODEL_BYTES_MAX
from tests.web.asking import Client
from tests.web.serving import Whole

TEACH = '[{"features":{"age":41.5,"country":"de"},"label":1},{"features":{"country":"fr"},"label":0}]'


def test_the_default_model_is_listed(client: Client) -> None:
    assert [line["name"] for line in client.get("/models").json()["models"]] == ["default"]


def test_putting_creates_then_changes(client: Client) -> None:
    created = client.put("/models/m", '{"publish_every_ms":100}')
    assert (created.status_code, created.headers["location"], created.json()["created"]) == (201, "/models/m", True)
    changed = client.put("/models/m", '{"publish_every_ms":300}')
    assert (changed.status_code, changed.json()["config"]["publish_every_ms"]) == (200, 300)
    assert client.get("/models/m").json()["config"]["publish_every_ms"] == 300


def test_a_change_that_needs_relearning_is_a_conflict_that_names_it(client: Client) -> None:
    answer = client.put("/models/default", '{"encoder":{"bits":10}}')
    assert (answer.status_code, answer.json()["code"]) == (409, "needs_rebuild")
    assert "encoder.bits" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ('{"publish_evry_ms":1}', 422, "unknown_key"),
        ('{"publish_every_ms":"1"}', 422, "wrong_type"),
        ('{"publish_every_ms":true}', 422, "wrong_type"),
        ('{"publish_every_ms":0}', 422, "out_of_range"),
        ('{"learner":{"kind":"oracle"}}', 422, "unknown_kind"),
        ('{"learner":{"kind":["taylor_sketch"]}}', 422, "wrong_type"),
        ('{"learner":{"gamma":1}}', 422, "unknown_key"),
        ('{"learner":{"kind":"taylor_sketch","gamma":-1}}', 422, "out_of_range"),
        ('{"learner":{"kind":"taylor_sketch","mode":"exact","reexpand":1,"beyond":"none"}}', 422, "out_of_range"),
        ('{"learner":{"kind":"taylor_sketch","reexpand":1}}', 422, "conflicting_settings"),
        ('{"labels":"real"}', 422, "out_of_range"),
        ('{"labels":"real","learner":{"kind":"ftrl_proximal"}}', 422, "out_of_range"),
        ("[]", 422, "wrong_type"),
        ("", 400, "empty_body"),
        ("{", 400, "malformed"),
        ('{"publish_every_ms":NaN}', 400, "malformed"),
        ('{"publish_every_ms":1e999}', 400, "malformed"),
        ('{"publish_every_ms":' + "1" * 5000 + "}", 400, "malformed"),
        ('{"labels":"0/1","labels":"0/1"}', 400, "duplicate_key"),
        ('{"a":' * 9 + "1" + "}" * 9, 400, "too_deep"),
        ("[" * 30_000, 400, "malformed"),
        ('{"\\ud800":1}', 400, "malformed"),
        ("\ufeff{}", 400, "malformed"),
        ("{}" + " " * MODEL_BYTES_MAX, 413, "body_too_large"),
    ],
)
def test_unsuitable_documents_are_refused(standing: Client, body: str, status: int, code: str) -> None:
    answer = standing.put("/models/m", body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert standing.get("/models/m").status_code == 404


@pytest.mark.parametrize("kind", KINDS)
def test_every_learner_can_be_asked_for_by_its_kind_alone(client: Client, kind: str) -> None:
    assert client.put("/models/m", json.dumps({"learner": {"kind": kind}})).status_code == 201
    assert client.get("/models/m").json()["config"]["learner"]["kind"] == kind


def test_without_a_kind_the_learner_is_truncated_gradient(client: Client) -> None:
    assert client.put("/models/m", '{"learner":{"eta":0.5}}').status_code == 201
    learner = client.get("/models/m").json()["config"]["learner"]
    assert (learner["kind"], learner["eta"]) == ("truncated_gradient", 0.5)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"feature": 1, "gamma": 1}, "learner.gamma_of[1].feature: expected a string"),
        ({"feature": "age", "gama": 1}, "learner.gamma_of[1].gama: unknown key; did you mean 'gamma'?"),
        ({"feature": "age"}, "learner.gamma_of[1]: missing gamma"),
        ({"feature": "age", "gamma": -1}, "learner.gamma_of[1].gamma: -1.0 is below 0"),
        ({"feature": "a" * 257, "gamma": 1}, "learner.gamma_of[1].feature: longer than 256"),
        ("age", "learner.gamma_of[1]: expected an object"),
    ],
)
def test_a_mistake_in_a_list_of_settings_is_found_by_its_path(client: Client, entry: object, told: str) -> None:
    good = {"feature": "age", "gamma": 0}
    document = {"learner": {"kind": "taylor_sketch", "gamma_of": [good, entry]}}
    answer = client.put("/models/m", json.dumps(document))
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
    document["learner"]["gamma_of"] = [good]
    assert client.put("/models/m", json.dumps(document)).status_code == 201


def test_an_unknown_key_names_the_nearest(client: Client) -> None:
    assert "'publish_every_ms'" in client.put("/models/m", '{"publish_evry_ms":1}').json()["detail"]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json; charset=latin-1"])
def test_documents_are_json(standing: Client, kind: str) -> None:
    answer = standing.put("/models/m", "{}", kind)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("name", ["Upper", "-dash", "_low", "a" * 64, "a.b", "%C3%A4", "a%0A"])
def test_names_outside_the_pattern_cannot_be_created_nor_found(standing: Client, name: str) -> None:
    answer = standing.put(f"/models/{name}", "{}")
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_model_name")
    found = standing.get(f"/models/{name}")
    assert (found.status_code, found.json()["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("name", ["a", "0", "a" * 63, "a-b_c"])
def test_names_inside_the_pattern_can(client: Client, name: str) -> None:
    assert client.put(f"/models/{name}", "{}").status_code == 201
    assert client.get(f"/models/{name}").json()["name"] == name


def test_dropping_wants_the_name_twice(client: Client) -> None:
    client.put("/models/m", "{}")
    for query in ("", "?confirm=", "?confirm=other", "?confirm=M"):
        answer = client.ask("DELETE", f"/models/m{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, "confirm_needed")
    assert client.ask("DELETE", "/models/m?confirm=m").json() == {"name": "m", "dropped": True}
    assert client.ask("DELETE", "/models/m?confirm=m").status_code == 404


def test_the_default_model_stays(client: Client) -> None:
    answer = client.ask("DELETE", "/models/default?confirm=default")
    assert (answer.status_code, answer.json()["code"]) == (409, "default_stays")


def test_weights_come_by_size_with_their_names(client: Client) -> None:
    client.post("/observe?wait=applied", TEACH)
    client.post("/observe?wait=applied", TEACH)
    every = client.get("/models/default/weights").json()["weights"]
    assert {w["feature"] for w in every} == {"age", "country=de", "country=fr"}
    sizes = [abs(w["weight"]) for w in every]
    assert sizes == sorted(sizes, reverse=True)
    answer = client.get("/models/default/weights?top=2").json()
    assert answer["weights"] == every[:2]
    assert answer["non_zeros"] == 3
    served = client.get("/models/default").json()["served"]
    assert answer["model"] == {"name": "default", "version": served["version"], "seq": 5}


def test_weights_can_be_asked_by_prefix(client: Client) -> None:
    client.post("/observe?wait=applied", TEACH)
    weights = client.get("/models/default/weights?prefix=country").json()["weights"]
    assert {w["feature"] for w in weights} == {"country=de", "country=fr"}


@pytest.mark.parametrize("query", ["top=0", "top=10001", "top=a", "top=1&top=1", "tpo=1"])
def test_weights_read_their_options_strictly(standing: Client, query: str) -> None:
    assert standing.get(f"/models/default/weights?{query}").status_code == 422


def test_metrics_carry_every_horizon_and_no_nan(client: Client) -> None:
    told = client.get("/models/default/metrics").json()
    horizons = {"cumulative", "faded", "window", "recent", "minute", "calibration", "window_calibration", "mixed"}
    assert {"model", *horizons, "non_zeros", "warnings"} == set(told)
    assert told["cumulative"]["log_loss"] is None


def test_since_adds_the_points_after_it(client: Client) -> None:
    client.post("/observe?wait=applied", f"[{','.join([TEACH[1:-1]] * 10)}]")
    assert [point["seq"] for point in client.get("/models/default/metrics?since=1").json()["history"]] == [11, 21]
    assert [point["seq"] for point in client.get("/models/default/metrics?since=11").json()["history"]] == [21]
    assert client.get("/models/default/metrics?since=x").status_code == 422


@pytest.mark.parametrize("path", ["", "/metrics", "/weights", "/snapshots", "/export", "/predict"])
def test_models_that_are_not_there_are_not_found(standing: Client, path: str) -> None:
    answer = standing.get(f"/models/nobody{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("path", ["/models", "/models/default", "/models/default/snapshots", "/models/default/export"])
def test_unknown_options_are_refused_everywhere(standing: Client, path: str) -> None:
    answer = standing.get(f"{path}?frmat=json")
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_option")


def test_unknown_paths_are_problem_documents_too(client: Client) -> None:
    answer = client.get("/nothing/here")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"]) == (404, "no_such_route")
    assert client.get("/models/").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/observe", {"POST"}),
        ("DELETE", "/predict", {"GET", "HEAD", "POST"}),
        ("POST", "/models/default", {"GET", "PUT", "PATCH", "DELETE"}),
        ("POST", "/models", {"GET"}),
        ("PUT", "/models/default/snapshots", {"GET", "POST"}),
        ("DELETE", "/livez", {"GET"}),
    ],
)
def test_other_methods_get_the_list_of_allowed_ones(standing: Client, method: str, path: str, allowed: set[str]) -> None:
    answer = standing.ask(method, path)
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == allowed
    assert answer.json()["detail"] == f"{method} is not supported by this route; supported: {answer.headers['allow']}"


def test_several_models_live_side_by_side(client: Client, service: Whole) -> None:
    client.put("/models/a", "{}")
    client.post("/models/a/observe?wait=applied", TEACH)
    assert client.get("/models/a/predict?country=de").json()["known_features"] == 1
    assert client.get("/predict?country=de").json()["known_features"] == 0
    assert json.loads(client.get("/models").content)["models"][0]["name"] == "a"
    assert service.models == {"a", "default"}
