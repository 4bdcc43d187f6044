from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from riata.base.errors import BadInput
from riata.client import ApiBusy, ApiConflict, ApiFailed, ApiNotFound, ApiRefused, Patience, Riata, Unreachable, calls
from tests.client.fake_http import OBSERVED, Script, answer, problem
from tests.refused import refused

ROW = {"features": {"age": 41.5}, "label": 1}
SILENT = httpx.ReadTimeout("timed out")
CLOSED = httpx.ConnectError("refused")


def client(script: Script, patience_s: float = 30.0) -> Riata:
    return Riata("http://test/", patience=Patience(patience_s), sleep=script.sleep, transport=httpx.MockTransport(script))


def test_observe_sends_ndjson_with_a_key_of_its_own_and_reads_the_counts() -> None:
    script = Script(answer(202, OBSERVED), answer(202, OBSERVED))
    riata = client(script)
    found = riata.observe([ROW, ROW], model="m", wait_applied=True, atomic=True)
    riata.observe(b"{}\n", key="mine")
    assert (found.accepted, found.rejected, found.seq, found.durability) == (1, 1, 7, "fsync")
    assert (found.errors[0].index, found.errors[0].code) == (1, "bad_label")
    first, second = script.requests
    assert str(first.url) == "http://test/models/m/observe?wait=applied&atomic=true"
    assert first.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in first.content.splitlines()] == [ROW, ROW]
    assert len(first.headers["idempotency-key"]) == 32
    assert second.headers["idempotency-key"] == "mine"


def test_creating_a_model_waits_while_it_learns_the_log_of_another() -> None:
    waiting = answer(202, {"name": "m", "created": False, "state": "backfilling", "config": {}, "job": "b1"})
    there = answer(200, {"name": "m", "created": False, "state": "ready", "config": {}})
    running, done = ({"id": "b1", "progress": 0.5, "result": result, "error": None} for result in (None, {"model": "m"}))
    script = Script(waiting, answer(200, running), answer(404, {"code": "job_not_found"}), waiting, answer(200, done), there)
    made = client(script).create_model("m", {"labels": "0/1"})
    assert (made["state"], made["created"]) == ("ready", True)
    assert [request.method for request in script.requests] == ["PUT", "GET", "GET", "PUT", "GET", "PUT"]
    assert {request.content for request in script.requests if request.method == "PUT"} == {b'{"labels": "0/1"}'}
    assert {request.url.path for request in script.requests if request.method == "GET"} == {"/jobs/b1"}
    assert script.waits == [calls.ASKED_EVERY_S]


def test_an_invalid_url_is_refused() -> None:
    with pytest.raises(BadInput, match="not a URL"):
        Riata("http://host:port")


def test_an_infinite_number_is_refused_before_it_is_sent() -> None:
    script = Script()
    with refused(BadInput, "not_finite", match=r"^row 1, column 'x': inf is not a finite number"):
        client(script).observe([ROW, {"features": {"x": float("inf")}, "label": 1}], atomic=True)
    with pytest.raises(BadInput, match=r"^the request: NaN"):
        client(script).change("m", gamma=float("inf"))
    assert script.requests == []


def test_one_row_need_not_be_put_into_a_list() -> None:
    script = Script(answer(202, OBSERVED))
    client(script).observe(ROW)
    assert json.loads(script.requests[0].content) == ROW


def test_a_refusal_says_what_is_wrong_with_the_first_row() -> None:
    rows = [{"index": 1, "code": "bad_label", "detail": "label: not a label"}]
    refused = ApiRefused(422, {"detail": "none of 2 rows is acceptable", "errors": rows})
    assert str(refused) == "none of 2 rows is acceptable; row 1: label: not a label [bad_label]"
    assert str(ApiRefused(422, {"detail": "no"})) == "no"


def test_predict_returns_one_answer_a_row() -> None:
    body = b'{"probability": 0.25}\n{"probability": 0.75}\n'
    script = Script(httpx.Response(200, content=body))
    answers = client(script).predict([{"features": {}}] * 2, explain=True, min_seq=3)
    assert [one["probability"] for one in answers] == [0.25, 0.75]
    assert str(script.requests[0].url) == "http://test/models/default/predict?explain=true&min_seq=3"
    assert script.requests[0].headers["accept"] == "application/x-ndjson"


def test_a_busy_service_is_asked_again_after_the_time_it_names() -> None:
    script = Script(problem(503, "queue_full", "2"), problem(429, "too_fast", "0.5"), answer(202, OBSERVED))
    assert client(script).observe([ROW]).accepted == 1
    assert script.waits == [2.0, 0.5]
    assert len({request.headers["idempotency-key"] for request in script.requests}) == 1


def test_without_a_time_the_waits_double_up_to_a_bound() -> None:
    script = Script(*[problem(503, "lag") for _ in range(8)], answer(200, {"models": []}))
    client(script).models()
    assert script.waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_patience_ends_and_the_last_answer_is_raised() -> None:
    script = Script(problem(503, "lag", "20"), problem(503, "lag", "20"))
    with pytest.raises(ApiBusy, match="about lag") as caught:
        client(script).observe([ROW])
    assert (caught.value.code, caught.value.status, script.waits) == ("lag", 503, [20.0])


def test_a_lost_answer_to_observe_is_sent_again_under_the_same_key() -> None:
    script = Script(answer(200, {}), SILENT, answer(202, OBSERVED))
    riata = client(script)
    riata.version()
    assert riata.observe([ROW]).accepted == 1
    lost, again = script.requests[1:]
    assert lost.headers["idempotency-key"] == again.headers["idempotency-key"]
    assert lost.content == again.content


@pytest.mark.parametrize("silence", [SILENT, CLOSED])
def test_a_service_that_never_answered_is_not_waited_for(silence: Exception) -> None:
    script = Script(silence)
    with pytest.raises(Unreachable, match="http://test does not answer"):
        client(script).models()
    assert script.waits == []


def test_a_service_that_answered_before_is_waited_for_while_it_restarts() -> None:
    script = Script(answer(200, {}), CLOSED, CLOSED, answer(200, []))
    riata = client(script)
    riata.version()
    assert riata.models() == []
    assert script.waits == [0.1, 0.2]


def test_restore_is_never_sent_twice() -> None:
    script = Script(answer(200, {}), SILENT)
    riata = client(script)
    riata.version()
    with pytest.raises(Unreachable):
        riata.restore("m", 3)
    assert json.loads(script.requests[1].content) == {"generation": 3}
    with pytest.raises(ApiBusy):
        client(Script(problem(503, "lag", "1"))).restore("m", 3)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ApiRefused), (404, ApiNotFound), (409, ApiConflict), (422, ApiRefused), (500, ApiFailed), (507, ApiFailed)],
)
def test_a_problem_becomes_the_exception_of_its_status(status: int, kind: type[Exception]) -> None:
    script = Script(problem(status, "slug", errors=[{"index": 4, "code": "c", "detail": "d"}, "odd"], outcome="not_accepted"))
    with pytest.raises(kind) as caught:
        client(script).metrics()
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, ApiRefused | ApiFailed)
    assert (error.code, error.detail, error.outcome) == ("slug", "about slug", "not_accepted")
    assert [(row.index, row.code, row.detail) for row in error.errors] == [(4, "c", "d")]


def test_a_refusal_without_a_problem_document_still_names_its_status() -> None:
    with pytest.raises(ApiFailed, match="HTTP status 502"):
        client(Script(httpx.Response(502, content=b"<html>bad gateway"))).models()


def test_an_answer_that_is_not_json_says_that_something_else_answers() -> None:
    with pytest.raises(Unreachable, match="not this service"):
        client(Script(httpx.Response(200, content=b"<html>"))).models()
    with pytest.raises(Unreachable, match="has no counts of rows"):
        client(Script(answer(200, []))).observe([ROW])


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda riata: riata.drop_model("m"), "m?confirm=m"),
        (lambda riata: riata.weights("m", top=3, prefix="a="), "m/weights?top=3&prefix=a%3D"),
        (lambda riata: riata.explain([ROW], model="m"), "m/predict?explain=true"),
        (lambda riata: riata.path("m", gammas=30), "m/path?gammas=30"),
        (lambda riata: riata.path("m", top=2, bottom=1e-5), "m/path?gammas=20&from=2.0&to=1e-05"),
    ],
)
def test_arguments_of_calls_are_in_the_query(call: Callable[[Riata], Any], wanted: str) -> None:
    script = Script(answer(200, {"a": 1}))
    call(client(script))
    assert str(script.requests[0].url) == f"http://test/models/{wanted}"  # which calls go to which routes: test_routes


def test_export_returns_bytes_and_a_change_is_a_document() -> None:
    script = Script(answer(200, {"a": 1}), answer(200, {}))
    riata = client(script)
    assert riata.export("m") == b'{"a": 1}'
    riata.change("m", gamma=0.3, publish_every_ms=50)
    assert json.loads(script.requests[1].content) == {"gamma": 0.3, "publish_every_ms": 50}


def test_a_change_is_sent_again_after_a_lost_answer_since_the_second_is_none() -> None:
    script = Script(answer(200, {}), SILENT, answer(200, {"seq": 9}))
    riata = client(script)
    riata.version()
    assert riata.change("m", gamma=0.3) == {"seq": 9}
