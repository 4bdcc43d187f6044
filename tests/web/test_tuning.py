"""Routes about settings that may change while a model learns, and standard errors."""

from __future__ import annotations

import json

import pytest

from riata.predict.model import OUTSIDE_SPAN
from tests.web.asking import Client

TEACH = '[{"features":{"age":41.5,"country":"de"},"label":1},{"features":{"country":"fr"},"label":0}]'
SKETCH = '{"learner":{"kind":"taylor_sketch"}}'


def test_a_change_answers_the_configuration_and_the_event_from_which_it_holds(client: Client) -> None:
    client.put("/models/m", SKETCH)
    answer = client.patch("/models/m", '{"gamma":0.3,"publish_every_ms":50}').json()
    assert (answer["name"], answer["created"], answer["seq"]) == ("m", False, 2)
    assert (answer["config"]["learner"]["gamma"], answer["config"]["publish_every_ms"]) == (0.3, 50)
    assert client.get("/models/m").json()["config"] == answer["config"]
    assert client.patch("/models/m", "{}").json() == answer  # nothing to do, nothing logged


def test_putting_the_same_change_works_too(client: Client) -> None:
    client.put("/models/m", SKETCH)
    assert client.put("/models/m", '{"learner":{"kind":"taylor_sketch","gamma":0.3}}').status_code == 200
    refused = client.put("/models/m", '{"learner":{"kind":"taylor_sketch","gamma":0.3,"k":5}}')
    assert (refused.status_code, refused.json()["code"]) == (409, "needs_rebuild")
    assert "learner.k cannot change" in refused.json()["detail"]
    assert (
        "that can change: checkpoint_every_events, checkpoint_every_s, decision, default_label, drift, fields, gamma, "
        "label_ttl_s, negatives_kept, publish_every_ms" in refused.json()["detail"]
    )


@pytest.mark.parametrize(
    ("body", "status", "code", "told"),
    [
        ('{"k":5}', 409, "needs_rebuild", "k cannot change"),
        ('{"gamma":1,"labels":"-1/+1","encoder":{}}', 409, "needs_rebuild", "encoder, labels cannot change"),
        (
            '{"learner":{"gamma":1}}',
            409,
            "needs_rebuild",
            "that can change: checkpoint_every_events, checkpoint_every_s, decision, default_label, drift, fields, gamma",
        ),
        ('{"gama":1}', 422, "unknown_key", "did you mean 'gamma'?"),
        ('{"gamma":-1}', 422, "out_of_range", "learner.gamma: -1.0 is below 0"),
        ('{"gamma":"1"}', 422, "wrong_type", "learner.gamma: expected a number"),
        ('{"publish_every_ms":0}', 422, "out_of_range", "publish_every_ms: 0 is below 1"),
        ("[]", 422, "wrong_type", ""),
        ("", 400, "empty_body", ""),
    ],
)
def test_a_fixed_setting_is_refused_and_changeable_ones_are_named(
    client: Client, body: str, status: int, code: str, told: str
) -> None:
    client.put("/models/m", SKETCH)
    before = client.get("/models/m").json()["config"]
    answer = client.patch("/models/m", body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert told in answer.json()["detail"]
    assert client.get("/models/m").json()["config"] == before


def test_a_learner_without_a_penalty_that_may_change_says_what_may(client: Client) -> None:
    answer = client.patch("/models/default", '{"gamma":1}')
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_key")
    assert (
        "that can change: checkpoint_every_events, checkpoint_every_s, decision, default_label, drift, fields, label_ttl_s, "
        "negatives_kept, publish_every_ms" in answer.json()["detail"]
    )
    own = "the L1 penalty of its learner, truncated_gradient, is the setting gravity: 3e-05, which is fixed"
    live = "`riata models create NAME --follow default --backfill --set gravity=VALUE`"
    for told in (
        answer.json()["detail"],
        client.patch("/models/default", '{"gravity":1}').json()["detail"],
        client.get("/models/default/path").json()["detail"],
    ):
        assert own in told
        assert live in told
    client.put("/models/f", '{"learner": {"kind": "ftrl_proximal"}}')
    assert "ftrl_proximal, is the setting l1: " in client.get("/models/f/path").json()["detail"]
    client.put("/models/p", '{"learner": {"kind": "particle_filter"}}')
    assert "particle_filter, is the setting gamma: 1, which is fixed" in client.patch("/models/p", '{"gamma":2}').json()["detail"]
    client.put("/models/c", '{"labels": "classes"}')
    assert "create a model with it" in client.patch("/models/c", '{"gamma":2}').json()["detail"]
    assert client.patch("/models/default", '{"publish_every_ms":50}').status_code == 200
    assert client.patch("/models/none", "{}").status_code == 404
    assert client.ask("PATCH", "/models/default?x=1", content="{}").json()["code"] == "unknown_option"


@pytest.fixture(scope="module")
def sketched(standing: Client) -> Client:
    """A client of a service whose model s has learnt 400 rows, trying other penalties beside its own."""
    settings = {"kind": "taylor_sketch", "gamma": 0.1, "shadow": [0.5, 0.75]}
    assert standing.put("/models/s", json.dumps({"learner": settings})).status_code == 201
    rows = [{"features": {"colour": "red" if n % 3 else "blue", "size": n % 7}, "label": int(n % 3 > 0)} for n in range(400)]
    assert standing.post("/models/s/observe?wait=applied", json.dumps(rows)).json()["applied"]
    return standing


def test_a_path_goes_from_no_weight_to_all_of_them(sketched: Client) -> None:
    answer = sketched.get("/models/s/path?gammas=9").json()
    assert (answer["model"]["name"], answer["model"]["seq"], answer["gamma"]) == ("s", 401, 0.1)
    gammas = [point["gamma"] for point in answer["points"]]
    assert gammas == sorted(gammas, reverse=True)
    assert len(gammas) == 9 + 3
    assert (answer["points"][0]["non_zeros"], answer["points"][-1]["non_zeros"]) == (0, 3)
    assert [point["gamma"] for point in answer["points"] if point["in_force"]] == [0.1]
    tried = {point["gamma"]: (point["log_loss"], point["faded_log_loss"]) for point in answer["points"]}
    shadows = {shadow["gamma"]: (shadow["log_loss"], shadow["faded_log_loss"]) for shadow in answer["shadows"]}
    assert list(shadows) == [0.5, 0.75]
    assert shadows.items() <= tried.items()
    assert all(0.0 < loss < 1.0 for pair in shadows.values() for loss in pair)
    assert {pair for gamma, pair in tried.items() if gamma not in shadows} == {(None, None)}
    told = sketched.get("/models/s/metrics").json()
    assert (answer["log_loss"], answer["faded_log_loss"]) == (told["cumulative"]["log_loss"], told["faded"]["log_loss"])
    assert sketched.get("/models/s/path?gammas=9").json() == answer


def test_before_the_first_event_no_penalty_has_a_loss(client: Client) -> None:
    client.put("/models/m", '{"learner":{"kind":"taylor_sketch","shadow":[0.5]}}')
    answer = client.get("/models/m/path?gammas=9").json()
    assert {point["log_loss"] for point in answer["points"]} == {answer["log_loss"]} == {None}


def test_a_path_can_be_asked_between_two_penalties(sketched: Client) -> None:
    points = sketched.get("/models/s/path?gammas=3&from=4e0&to=1").json()["points"]
    assert [point["gamma"] for point in points] == [4.0, 2.0, 1.0, 0.75, 0.5, 0.1]


@pytest.mark.parametrize(
    "query",
    [
        "gammas=1",
        "gammas=101",
        "gammas=x",
        "from=0",
        "from=-1",
        "to=nan",
        "to=inf",
        "from=1&to=1",
        "from=1&to=2",
        "to=",
        "to=2e12",
    ],
)
def test_an_invalid_grid_is_refused(sketched: Client, query: str) -> None:
    answer = sketched.get(f"/models/s/path?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_option")


def test_a_learner_without_curvature_has_no_path_and_the_refusal_names_one_that_has(client: Client) -> None:
    answer = client.get("/models/default/path")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_sketch")
    assert "taylor_sketch" in answer.json()["detail"]
    assert client.get("/models/none/path").status_code == 404
    assert client.get("/models/default/path?gama=1").json()["code"] == "unknown_option"


def test_weights_carry_their_standard_errors_and_say_how_wide_a_slot_is(sketched: Client) -> None:
    answer = sketched.get("/models/s/weights").json()
    assert answer["bits"] == sketched.get("/models/s").json()["config"]["encoder"]["bits"]
    assert [weight["std_error"] > 0.0 for weight in answer["weights"]] == [True] * 3
    sketched.post("/observe?wait=applied", TEACH)
    assert {weight["std_error"] for weight in sketched.get("/models/default/weights").json()["weights"]} == {None}


def test_predictions_carry_the_standard_error_of_their_margin(sketched: Client) -> None:
    [alone, far, near] = sketched.post(
        "/models/s/predict", '[{"features":{}},{"features":{"none":5}},{"features":{"size":5}}]'
    ).json()
    assert 0.0 < alone["std_error"] != near["std_error"] > 0.0
    assert (far["std_error"], far["std_error_why_not"]) == (None, OUTSIDE_SPAN)
    assert sketched.get("/predict?age=1").json()["std_error"] is None
