"""The routes that go back to an event or a moment."""

from __future__ import annotations

import pytest

from tests.web.asking import Client


def test_an_event_or_a_moment_is_gone_back_to(client: Client) -> None:
    answer = client.post("/models/default/restore", '{"to":3}')
    assert (answer.status_code, answer.json()["to"], answer.json()["seq"], answer.json()["at"]) == (200, 3, 5, None)
    answer = client.post("/models/default/restore", '{"to":"-2h","dry_run":true}')
    assert (answer.status_code, answer.json()["seq"], answer.json()["at"]) == (200, 0, "2001-09-08T23:46:40+00:00")


def test_what_takes_long_is_answered_before_it_is_done(client: Client) -> None:
    begun = client.post("/models/default/restore", '{"to":101}')
    assert (begun.status_code, begun.json()["state"]) == (202, "running")
    assert begun.headers["location"] == f"/jobs/{begun.json()['id']}"
    look = client.get("/models/default/restore").json()
    assert look["reach"] == {"since": 1, "exactly": [{"seq": 1, "generation": 1}]}
    (found,) = look["restore"]
    assert (found["id"], found["state"], found["dry_run"]) == (begun.json()["id"], "running", False)
    while (done := client.get(begun.headers["location"]).json())["state"] == "running":
        pass
    assert done["result"]["to"] == 101
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
def test_the_body_is_read_strictly(client: Client, body: str, code: str) -> None:
    answer = client.post("/models/default/restore", body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_an_unknown_model_is_not_found(client: Client) -> None:
    assert client.post("/models/nothing/restore", '{"to":1}').json()["code"] == "model_not_found"
