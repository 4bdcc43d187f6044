"""Routes about settings that may change while a model learns, and standard errors."""

from __future__ import annotations

import numpy as np
import pytest

from riata.learn.learner import Shadow, Sketch
from riata.predict.uncertainty import Covariance
from tests.predict.sketches import random_sketch, served_weights
from tests.web.asking import Client
from tests.web.fake_service import FakeService

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
        "that can change: checkpoint_every_events, checkpoint_every_s, decision, default_label, drift, gamma, label_ttl_s, "
        "negatives_kept, publish_every_ms" in refused.json()["detail"]
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
            "that can change: checkpoint_every_events, checkpoint_every_s, decision, default_label, drift, gamma",
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
        "that can change: checkpoint_every_events, checkpoint_every_s, decision, default_label, drift, label_ttl_s, "
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


def with_sketch(client: Client, service: FakeService) -> Sketch:
    """Give the model m a sketch."""
    client.put("/models/m", SKETCH)
    sketch = random_sketch(np.random.default_rng(3), gamma=0.1, bits=22)
    service.all["m"].sketch = sketch
    service.all["m"].shadows = [Shadow(0.5, 10.0, 0.25, 9.0, 0.125), Shadow(0.75, 0.0, 0.0, 0.0, 0.0)]
    weights = served_weights(sketch)
    service.all["m"].weights = dict(zip(weights.slot.tolist(), weights.beta.tolist(), strict=True))
    return sketch


def test_a_path_goes_from_no_weight_to_all_of_them(client: Client, service: FakeService) -> None:
    sketch = with_sketch(client, service)
    answer = client.get("/models/m/path?gammas=9").json()
    assert answer["model"] == {"name": "m", "version": 1, "seq": 0}
    gammas = [point["gamma"] for point in answer["points"]]
    assert gammas == sorted(gammas, reverse=True)
    assert len(gammas) == 9 + 3
    assert (answer["points"][0]["non_zeros"], answer["points"][-1]["non_zeros"]) == (0, 9)
    assert [point["gamma"] for point in answer["points"] if point["in_force"]] == [answer["gamma"]] == [sketch.penalty]
    tried = {point["gamma"]: (point["log_loss"], point["faded_log_loss"]) for point in answer["points"]}
    assert (tried[0.5], tried[0.75], tried[0.1]) == ((0.25, 0.125), (None, None), (None, None))
    assert [shadow["gamma"] for shadow in answer["shadows"]] == [0.5, 0.75]
    assert (answer["log_loss"], answer["faded_log_loss"]) == (None, None)  # nothing was tested yet
    assert client.get("/models/m/path?gammas=9").json() == answer


def test_a_path_can_be_asked_between_two_penalties(client: Client, service: FakeService) -> None:
    with_sketch(client, service)
    points = client.get("/models/m/path?gammas=3&from=4e0&to=1").json()["points"]
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
def test_an_invalid_grid_is_refused(client: Client, service: FakeService, query: str) -> None:
    with_sketch(client, service)
    answer = client.get(f"/models/m/path?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_option")


def test_a_learner_without_curvature_has_no_path_and_the_refusal_names_one_that_has(client: Client) -> None:
    answer = client.get("/models/default/path")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_sketch")
    assert "taylor_sketch" in answer.json()["detail"]
    assert client.get("/models/none/path").status_code == 404
    assert client.get("/models/default/path?gama=1").json()["code"] == "unknown_option"


def test_weights_carry_their_standard_errors_and_say_how_wide_a_slot_is(client: Client, service: FakeService) -> None:
    with_sketch(client, service)
    answer = client.get("/models/m/weights").json()
    assert answer["bits"] == 22
    assert all(weight["std_error"] > 0.0 for weight in answer["weights"])
    client.post("/observe", TEACH)
    assert {weight["std_error"] for weight in client.get("/models/default/weights").json()["weights"]} == {None}


def test_predictions_carry_the_standard_error_of_their_margin(client: Client, service: FakeService) -> None:
    sketch = with_sketch(client, service)
    [alone, far] = client.post("/models/m/predict", '[{"features":{}},{"features":{"none":5}}]').json()
    covariance = Covariance.of(sketch)
    assert alone["std_error"] == far["std_error"] == pytest.approx(float(np.sqrt(covariance.matrix[0, 0])))
    assert client.get("/predict?age=1").json()["std_error"] is None
