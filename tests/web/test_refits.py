"""Routes of refits, predictions with the weights of one, and their metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from unittest.mock import ANY

import pytest

from tests.web.asking import Client, asking
from tests.web.serving import Whole

ROW = '{"features":{"country":"de"}}'


@pytest.fixture(scope="module")
def refitted() -> Iterator[Client]:
    """A client of a service whose model has a refit."""
    whole = Whole()
    with asking(whole.app()) as client:
        rows = [{"features": {"country": "de" if n % 3 else "fr", "n": n % 5}, "label": int(n % 4 > 0)} for n in range(100)]
        client.post("/observe?wait=applied", json.dumps(rows))
        assert client.post("/predict?from=refit", ROW).json()["code"] == "no_refit"
        assert client.get("/models/default/regret").json()["code"] == "no_refit"
        begun = client.post("/models/default/refits", '{"gamma":[10,1],"hold_out":{"share":0.2}}')
        assert (begun.status_code, begun.headers["location"]) == (202, f"/jobs/{begun.json()['id']}")
        assert begun.json()["request"]["gamma"] == [10.0, 1.0]
        assert client.job(begun.headers["location"])["state"] == "done"
        yield client


def test_a_refit_is_listed_and_described(refitted: Client) -> None:
    (refit,) = refitted.get("/models/default/refits").json()["refits"]
    assert refit["request"]["hold_out"] == {"share": 0.2}
    assert refitted.get(f"/models/default/refits/{refit['id']}").json().items() >= {**refit, "trace": ANY}.items()
    assert refitted.get("/models/default/refits/r2").json()["code"] == "refit_not_found"
    assert refitted.get("/models/default/regret").json()["refit"] == refit["id"]
    assert refitted.ask("DELETE", f"/models/default/refits/{refit['id']}").json()["code"] == "refit_ended"


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ('{"solver":"newton"}', "bad_option", "newton"),
        ('{"gamma":"as_onlin"}', "out_of_range", "did you mean 'as_online'"),
        ('{"gamma":-1}', "out_of_range", "at least 0"),
        ('{"gamma":[]}', "out_of_range", "1 to 8"),
        ('{"gamma":[1,2,3,4,5,6,7,8,9]}', "out_of_range", "1 to 8"),
        ('{"gamma":"infinite"}', "out_of_range", "gamma"),
        ('{"gama":1}', "unknown_key", "did you mean 'gamma'"),
        ('{"window":{"event":1}}', "unknown_key", "window.event"),
        ('{"window":{"events":0}}', "out_of_range", "window.events"),
        ('{"hold_out":{"share":0.9}}', "out_of_range", "hold_out.share"),
        ('{"promote":"always"}', "out_of_range", "always"),
        ('{"memory_bytes_max":5}', "out_of_range", "memory_bytes_max"),
        ('{"solver":"mp","k":5}', "bad_option", "k is the size"),
        ('{"solver":"rmmp","machines":2}', "bad_option", "machines is a setting of parallel_sgd"),
        ('{"solver":"irls_lars","gamma":1,"bound":2}', "bad_option", "a bound takes the place of gamma"),
        ('{"solver":"irls_lars","bound":-2}', "out_of_range", "bound"),
        ('{"solver":"laps"}', "bad_groups", "groups: expected at least one"),
        ('{"solver":"laps","groups":["t"]}', "wrong_type", "groups: expected an object"),
        ('{"solver":"laps","groups":{"a":{"features":["t","u"],"runs":true}}}', "unordered_runs", "runs need an order"),
        ('{"solver":"laps","groups":{"a":"t*"},"run_k":1}', "out_of_range", "run_k"),
        ('{"solver":"laps","groups":{"a":"t*"},"gamma":[1,0]}', "out_of_range", "above 0"),
        ('{"solver":"laps","groups":{"a":"t*"},"rounds":9}', "bad_option", "rounds is no setting of laps"),
        ('{"groups":{"a":"t*"}}', "bad_option", "groups is a setting of laps"),
    ],
)
def test_what_a_refit_cannot_be_asked_for_is_refused_by_name(standing: Client, body: str, code: str, told: str) -> None:
    answer = standing.post("/models/default/refits", body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert told in answer.json()["detail"]


def test_predictions_with_the_weights_of_the_last_refit(refitted: Client) -> None:
    (refit,) = refitted.get("/models/default/refits").json()["refits"]
    own = refitted.post("/models/default/predict", ROW).json()
    by_body = refitted.post("/models/default/predict?from=refit", ROW).json()
    by_query = refitted.get("/models/default/predict?country=de&_from=refit").json()
    explained = refitted.post("/models/default/predict?from=refit&explain=true", ROW).json()
    assert by_body == by_query
    assert by_body["margin"] == explained["margin"] != own["margin"]
    assert (by_body["model"]["refit"], "refit" in own["model"]) == (refit["id"], False)
    assert refitted.post("/models/default/predict?from=model", ROW).json() == own
    assert refitted.post("/models/default/predict?from=batch", ROW).json()["code"] == "bad_option"
    assert refitted.post("/models/default/predict?from=refit&min_seq=1", ROW).json()["code"] == "bad_option"


def test_metrics_of_refits(refitted: Client) -> None:
    text = refitted.get("/metrics").text
    assert 'riata_refit_seconds{model="default"} ' in text
    assert 'riata_refit_verdict_total{model="default",verdict="PROMOTE"} 0.0' in text
    assert 'riata_refit_verdict_total{model="default",verdict="HOLD"} 1.0' in text
    assert 'riata_refit_passes_total{model="default"} ' in text
    assert 'riata_refit_gap{model="default"} ' in text


def test_a_promotion_needs_the_verdict_or_force(refitted: Client) -> None:
    (refit,) = refitted.get("/models/default/refits").json()["refits"]
    at = f"/models/default/refits/{refit['id']}/promote"
    held = refitted.post(at, "{}")
    assert (held.status_code, held.json()["code"]) == (409, "not_promoted")
    assert refitted.post(at, '{"force":1}').json()["code"] == "wrong_type"
    assert refitted.post(at, '{"forse":true}').json()["code"] == "unknown_key"
    assert refitted.post(at, '{"force":true}').json()["promoted"] is True
