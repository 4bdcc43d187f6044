"""The route that forgets subjects."""

from __future__ import annotations

import pytest

from tests.web.asking import Client
from tests.web.serving import Whole


def test_one_subject_or_a_list_is_forgotten(client: Client) -> None:
    for body in ('{"subject":"ann"}', '{"subject":["ann","bob"],"drop_trimmed":true}'):
        answer = client.post("/models/default/forget", body)
        assert (answer.status_code, answer.json()["model"]) == (200, "default")


def test_what_takes_long_is_answered_before_it_is_done(client: Client, service: Whole) -> None:
    with service.unchanged(client):
        begun = client.post("/models/default/forget", '{"subject":"ann"}')
        assert (begun.status_code, begun.json()["state"]) == (202, "running")
        assert begun.headers["location"] == f"/jobs/{begun.json()['id']}"
        (look,) = client.get("/models/default/forget").json()["forget"]
        assert (look["id"], look["state"], look["progress"]) == (begun.json()["id"], "running", 0.0)
    done = client.job(begun.headers["location"])
    assert (done["state"], done["progress"], done["result"]["model"]) == ("done", 1.0, "default")
    assert client.get("/models/nothing/forget").json()["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{}", "missing_key"),
        ('{"subject":[]}', "wrong_type"),
        ('{"subject":7}', "bad_subject"),
        ('{"subject":""}', "bad_subject"),
        ('{"subject":["ann",null]}', "bad_subject"),
        ('{"subjects":["ann"]}', "unknown_key"),
        ('{"subject":"ann","drop_trimmed":1}', "wrong_type"),
        ('{"subject":[' + ",".join(['"a"'] * 1001) + "]}", "wrong_type"),
    ],
)
def test_the_body_is_read_strictly(standing: Client, body: str, code: str) -> None:
    answer = standing.post("/models/default/forget", body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_an_unknown_model_is_not_found(client: Client) -> None:
    assert client.post("/models/nothing/forget", '{"subject":"ann"}').json()["code"] == "model_not_found"
