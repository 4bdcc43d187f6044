"""The routes that go back to an event or a moment."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from tests.web.asking import Client
from tests.web.serving import Whole

ROW = '{"features":{"a":1},"label":1}'


def test_an_event_or_a_moment_is_gone_back_to(client: Client, service: Whole) -> None:
    client.post("/observe?wait=applied", f"[{','.join([ROW] * 4)}]")
    answer = client.post("/models/default/restore", '{"to":3}').json()
    assert (answer["to"], answer["seq"], answer["at"]) == (3, 6, None)
    assert client.get("/models/default/metrics").json()["cumulative"]["examples"] == 2
    asked = {"to": answer["to_time"], "dry_run": True}
    answer = client.post("/models/default/restore", json.dumps(asked)).json()
    assert (answer["seq"], service.logged()) == (0, 6)
    assert datetime.fromisoformat(answer["at"]) == datetime.fromisoformat(asked["to"])


def test_what_takes_long_is_answered_before_it_is_done(client: Client, service: Whole) -> None:
    client.post("/observe?wait=applied", ROW)
    with service.unchanged(client):
        begun = client.post("/models/default/restore", '{"to":1}')
        assert (begun.status_code, begun.json()["state"]) == (202, "running")
        assert begun.headers["location"] == f"/jobs/{begun.json()['id']}"
        look = client.get("/models/default/restore").json()
        assert look["reach"]["since"] == 1
        (found,) = look["restore"]
        assert (found["id"], found["state"], found["dry_run"]) == (begun.json()["id"], "running", False)
    done = client.job(begun.headers["location"])
    assert done["result"]["to"] == 1
    assert client.get("/models/nothing/restore").json()["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"to":"tea time"}', "bad_moment"),
        ('{"to":-1}', "wrong_type"),
        ('{"to":null}', "wrong_type"),
        ('{"to":3,"generation":1}', "bad_option"),
        ('{"to":3,"dryrun":true}', "unknown_key"),
        ("{}", "missing_key"),
    ],
)
def test_the_body_is_read_strictly(standing: Client, body: str, code: str) -> None:
    answer = standing.post("/models/default/restore", body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_an_unknown_model_is_not_found(client: Client) -> None:
    assert client.post("/models/nothing/restore", '{"to":1}').json()["code"] == "model_not_found"
