"""POST /observe."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from threading import Event

import pytest

from riata.base.errors import Corrupt, Unavailable
from tests.arrow_stream import ARROW, examples, stream
from tests.web.asking import Client, asking
from tests.web.serving import Whole

ROW = '{"features":{"age":41.5,"country":"de"},"label":1}'


def test_one_object_is_accepted_with_its_place_in_the_log(client: Client) -> None:
    answer = client.post("/observe", ROW)
    assert answer.status_code == 202
    assert answer.json() == {
        "accepted": 1,
        "duplicate": 0,
        "rejected": 0,
        "seq": 2,
        "outcome": "accepted",
        "durability": "memory",
        "errors": [],
    }


def test_the_short_route_uses_the_default_model(client: Client, service: Whole) -> None:
    client.put("/models/other", "{}")
    client.post("/models/other/observe", ROW)
    client.post("/models/other/observe", ROW)
    client.post("/observe", ROW)
    assert (service.logged(), service.logged("other")) == (2, 3)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", f"[{ROW},{ROW}]"),
        ("application/x-ndjson", f"{ROW}\n{ROW}\n"),
        ("application/x-ndjson; charset=utf-8", f"{ROW}\n{ROW}"),
        ("text/x-vw", "1 |user age:41.5\n0 |user age:2\n"),
        ("text/x-svmlight", "1 1:41.5\n0 2:1 # comment\n"),
        (ARROW, stream(examples([["age"], ["b"]], [[41.5], [2.0]], [1, 0]), 2)),
    ],
)
def test_every_content_type_brings_its_rows(client: Client, kind: str, body: str | bytes) -> None:
    answer = client.post("/observe", body, kind)
    assert (answer.status_code, answer.json()["accepted"]) == (202, 2)


def test_bad_rows_are_listed_beside_accepted_ones(client: Client) -> None:
    answer = client.post("/observe", f'{ROW}\n{{"features":{{"a":1}}}}\nnot json\n{ROW}', "application/x-ndjson")
    reported = answer.json()
    assert (answer.status_code, reported["accepted"], reported["rejected"]) == (202, 2, 2)
    assert [(error["index"], error["code"]) for error in reported["errors"]] == [(1, "missing_label"), (2, "malformed")]


def test_no_more_than_ten_row_errors_are_shown(client: Client) -> None:
    rows = "\n".join(["{}"] * 30 + [ROW])
    reported = client.post("/observe", rows, "application/x-ndjson").json()
    assert (reported["rejected"], len(reported["errors"])) == (30, 10)


def test_nothing_accepted_is_unprocessable_and_says_why(client: Client) -> None:
    answer = client.post("/observe", '[{"features":{"a":1}}]')
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["code"], problem["outcome"]) == (422, "nothing_accepted", "not_accepted")
    assert (problem["accepted"], problem["rejected"], problem["errors"][0]["code"]) == (0, 1, "missing_label")


def test_atomic_refuses_all_rows_with_the_one(client: Client, service: Whole) -> None:
    answer = client.post("/observe?atomic=true", f'[{ROW},{{"features":{{"a":1}}}}]')
    assert (answer.status_code, answer.json()["code"]) == (422, "atomic_refused")
    assert service.logged() == 1
    assert client.post("/observe?atomic=true", f"[{ROW},{ROW}]").json()["accepted"] == 2


def test_waiting_for_application_answers_200(client: Client, service: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = client.post("/observe?wait=applied", ROW)
    assert (answer.status_code, answer.json()["applied"]) == (200, True)
    monkeypatch.setattr(service.engine, "settings", replace(service.engine.settings, observe_timeout_ms=50))
    learning = service.engine.led("the test").writer
    with monkeypatch.context() as held:
        held.setattr(learning, "put_logged", lambda _records: None)
        late = client.post("/observe?wait=applied", ROW)
    assert (late.status_code, late.json()["applied"]) == (202, False)


@pytest.mark.parametrize(
    ("query", "code", "word"),
    [
        ("?atomik=true", "unknown_option", "'atomic'"),
        ("?atomic=yes", "bad_option", "true or false"),
        ("?wait=durable", "bad_option", "applied"),
        ("?wait=applied&wait=applied", "repeated_option", "twice"),
    ],
)
def test_options_are_read_strictly(standing: Client, query: str, code: str, word: str) -> None:
    answer = standing.post(f"/observe{query}", ROW)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert word in answer.json()["detail"]


def test_a_repeated_event_id_is_a_duplicate_and_with_other_content_an_error(client: Client) -> None:
    row = '{"features":{"a":1},"label":1,"event_id":"8f2c"}'
    assert client.post("/observe", row).json()["accepted"] == 1
    again = client.post("/observe", row)
    assert (again.status_code, again.json()["duplicate"], again.json()["outcome"]) == (202, 1, "duplicate")
    other = client.post("/observe", row.replace('"label":1', '"label":0'))
    assert (other.status_code, other.json()["errors"][0]["code"]) == (422, "id_reused")


def test_an_idempotency_key_names_every_row_without_an_id(client: Client, service: Whole) -> None:
    plain = '{"features":{"a":%d},"label":1}'
    rows = f'[{plain % 1},{{"nonsense":1}},{{"features":{{"a":1}},"label":1,"event_id":"mine"}},{plain % 2}]'
    client.post("/observe", rows, Idempotency_Key="k-1")
    expected = [hashlib.blake2b(text, digest_size=16).digest() for text in (b"k-1/0", b"mine", b"k-1/3")]
    assert service.event_ids() == expected
    again = client.post("/observe", rows, Idempotency_Key="k-1").json()
    assert (again["accepted"], again["duplicate"], again["rejected"]) == (0, 3, 1)


IDS = bytes(range(16)), bytes(range(16, 32)), bytes(range(32, 48))


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("application/x-ndjson", f"{ROW}\n{{}}\n{ROW}"),
        ("application/json", f"[{ROW},{{}},{ROW}]"),
        ("text/x-vw", "1 |f a\n7 |f a\n0 |f b\n"),
        ("text/x-svmlight", "1 1:2\n7 2:1\n0 2:5\n"),
        ("text/x-vw", "1 |f a" + " b" * 40_000 + "\n7 |f a\n0 |f b\n"),  # read in another thread
    ],
)
def test_the_ids_of_rows_may_follow_them_in_every_format(kind: str, rows: str, client: Client, service: Whole) -> None:
    body = rows.encode() + b"".join(IDS)
    answer = client.ask("POST", "/observe?ids=3", content=body, headers={"Content-Type": kind}).json()
    assert (answer["accepted"], answer["rejected"], answer["errors"][0]["index"]) == (2, 1, 1)
    assert service.event_ids() == [IDS[0], IDS[2]]
    again = client.ask("POST", "/observe?ids=3", content=body, headers={"Content-Type": kind, "Idempotency-Key": "k"}).json()
    assert (again["accepted"], again["duplicate"]) == (0, 2)


def test_a_row_keeps_its_own_id_beside_those_that_follow(client: Client, service: Whole) -> None:
    own = '{"features":{"a":1},"label":1,"event_id":"mine"}'
    body = f"{own}\n{ROW}\n".encode() + b"".join(IDS[:2])
    assert client.ask("POST", "/observe?ids=2", content=body, headers={"Content-Type": "application/x-ndjson"}).status_code == 202
    assert service.event_ids() == [hashlib.blake2b(b"mine", digest_size=16).digest(), IDS[1]]


@pytest.mark.parametrize(
    ("count", "code"), [("2", "bad_ids"), ("1", "bad_ids"), ("600", "bad_ids"), ("0", "bad_option"), ("1e1", "bad_option")]
)
def test_another_number_of_ids_than_of_rows_is_refused(count: str, code: str, client: Client, service: Whole) -> None:
    body = f"{ROW}\n{ROW}\n{ROW}\n".encode() + b"\n" * 48
    headers = {"Content-Type": "application/x-ndjson"}
    answer = client.ask("POST", f"/observe?ids={count}", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"], service.logged()) == (422, code, 1)


def test_rejected_rows_are_counted_by_code(client: Client) -> None:
    rows = [*["{}"] * 30, ROW, '{"features":{"a":1},"label":7}', '{"features":{"a":1}}']
    told = client.post("/observe", "\n".join(rows), "application/x-ndjson").json()
    assert told["rejected_codes"] == {"missing_features": 30, "bad_label": 1, "missing_label": 1}
    assert client.post("/observe", "{}").json()["rejected_codes"] == {"missing_features": 1}
    assert "rejected_codes" not in client.post("/observe", ROW).json()


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "caf\xe9"])
def test_unsuitable_idempotency_keys_are_refused(standing: Client, key: str) -> None:
    headers = {"Content-Type": "application/json", "Idempotency-Key": key.encode("latin-1")}
    answer = standing.ask("POST", "/observe", content=ROW, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_idempotency_key")


def test_a_large_body_is_parsed_like_a_small_one(client: Client) -> None:
    rows = "\n".join([ROW] * 4000)
    assert len(rows) > 64 * 1024
    assert client.post("/observe", rows, "application/x-ndjson", Idempotency_Key="k").json()["accepted"] == 4000


def test_busy_names_the_time_to_retry() -> None:
    with asking(Whole(inbox_requests_max=0).app()) as client:
        answer = client.post("/observe", ROW)
    problem = answer.json()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert (problem["code"], problem["outcome"], problem["retryable"]) == ("queue_full", "not_accepted", True)


def test_a_store_that_did_not_answer_leaves_the_outcome_unknown() -> None:
    whole, answered = Whole(observe_timeout_ms=50), Event()
    with asking(whole.app()) as client:
        whole.engine.context.log_thread.call(lambda _store: answered.wait())
        answer = client.post("/observe", ROW)
        answered.set()
    assert (answer.status_code, answer.json()["outcome"], answer.json()["retryable"]) == (503, "unknown", True)


def test_a_full_disk_is_507(client: Client, service: Whole) -> None:
    service.refuse(Unavailable("no room", "disk_reserve"))
    answer = client.post("/observe", ROW)
    assert (answer.status_code, answer.json()["outcome"]) == (507, "not_accepted")


@pytest.mark.parametrize("fault", [Corrupt("/secret/path: page 7"), RuntimeError("secret")])
def test_an_internal_fault_keeps_its_details(
    client: Client, service: Whole, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_served: object) -> None:
        raise fault

    monkeypatch.setattr(service.engine, "require_accepting", fail)
    answer = client.post("/observe", ROW)
    assert (answer.status_code, answer.json()["outcome"]) == (500, "unknown")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text


def test_unknown_models_are_not_found_before_the_body_is_read(client: Client) -> None:
    answer = client.post("/models/nobody/observe", "[" * 100)
    assert (answer.status_code, answer.json()["code"]) == (404, "model_not_found")
    assert json.loads(answer.content)["status"] == 404
