"""Fields in the whole service: kinds that are met, changed and contradicted, and what the routes say of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.web.serving import answering

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with answering() as client:
        yield client


def create(client: httpx.Client, model: str, **config: Any) -> None:
    assert client.put(f"/models/{model}", json=config).status_code == 201


def observe(client: httpx.Client, model: str, *rows: dict[str, Any]) -> None:
    body = "\n".join(json.dumps({"features": row, "label": i % 2}) for i, row in enumerate(rows))
    answer = client.post(f"/models/{model}/observe?wait=applied", content=body, headers=LINES).json()
    assert (answer["applied"], answer["rejected"]) == (True, 0), answer


def fields(client: httpx.Client, model: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in client.get(f"/models/{model}/fields").json()["fields"]}


def kinds(client: httpx.Client, model: str) -> dict[str, str]:
    return {name: one["kind"] for name, one in fields(client, model).items()}


def margin(client: httpx.Client, model: str, row: dict[str, Any]) -> float:
    answer = client.post(f"/models/{model}/predict", json={"features": row})
    assert answer.status_code == 200, answer.text
    found: float = answer.json()["margin"]
    return found


def test_fields_say_their_kinds_and_what_their_values_look_like(client: httpx.Client) -> None:
    create(client, "told", encoder={"fields": {"when": "time"}})
    observe(
        client,
        "told",
        *({"age": age, "zip": f"0{age % 3}", "on": age % 4 == 0, "when": "2026-11-29"} for age in range(1, 101)),
        {"age": "many", "zip": 5},
    )
    found = client.get("/models/told/fields").json()
    assert (found["meets"], found["wide"], found["rows"], found["first_rows"]) == (True, False, 101, 0)
    by_name = {one["name"]: one for one in found["fields"]}
    assert {name: one["kind"] for name, one in by_name.items()} == {
        "age": "number", "zip": "category", "on": "number", "when": "time", "when.weekday": "category",
    }  # fmt: skip
    age, place = by_name["age"], by_name["zip"]
    assert (age["declared"], age["contrary"], age["unreadable"], by_name["when"]["declared"]) == (False, 0, 1, True)
    assert age["first"] is None
    assert age["recent"] == {
        "share": 1.0, "distinct": 101, "least": 1.0, "median": 50.5, "largest": 100.0,
        "common": [{"value": "many", "share": 1 / 101}],
    }  # fmt: skip
    assert place["contrary"] == 1
    assert place["recent"]["common"][0] == {"value": "01", "share": 34 / 101}
    assert by_name["on"]["recent"]["share"] == 25 / 101


def test_fields_of_lists_texts_and_curves_are_shown(client: httpx.Client) -> None:
    create(client, "words", encoder={"text": ["title"], "fields": {"tags": "list", "body": "text"}})
    rows: list[dict[str, Any]] = [
        {"tags": ["a", "b"], "body": "one two", "title": "One"},
        {"tags": "a", "body": "two"},
        {"tags": '["b", 5]'},
        {},
    ]
    observe(client, "words", *rows)
    found = fields(client, "words")
    assert {name: (one["kind"], one["declared"]) for name, one in found.items()} == {
        "tags": ("list", True), "body": ("text", True), "title": ("text", True),
    }  # fmt: skip
    shown = {name: (one["recent"]["share"], [value["value"] for value in one["recent"]["common"]]) for name, one in found.items()}
    assert shown == {"tags": (0.75, ["a", "b", "5"]), "body": (0.5, ["two", "one"]), "title": (0.25, ["one"])}


def test_fields_say_from_which_event_on_they_have_their_kind(client: httpx.Client) -> None:
    create(client, "since", encoder={"fields": {"when": "time"}})  # event 1
    observe(client, "since", {"age": 1}, {"zip": "a"})  # events 2 and 3

    def since() -> dict[str, Any]:
        return {name: one["since"] for name, one in fields(client, "since").items()}

    assert since() == {"when": 1, "age": 2, "zip": 2}
    client.patch("/models/since", json={"fields": {"age": "category", "new": "number"}})  # event 4
    observe(client, "since", {"late": 1})  # event 5
    assert since() == {"when": 1, "age": 4, "new": 4, "zip": 2, "late": 5}
    client.patch("/models/since", json={"fields": {"age": None}})  # event 6
    assert since() == {"when": 1, "age": 6, "new": 4, "zip": 2, "late": 5}
    client.patch("/models/since", json={"fields": {"*": "off"}})
    client.patch("/models/since", json={"fields": {"*": "auto"}})  # event 8
    assert since() == {"when": 1, "age": 8, "new": 4, "zip": 8, "late": 8}


def test_one_value_is_one_feature_through_every_route(client: httpx.Client) -> None:
    create(client, "doors")
    observe(
        client, "doors", *({"zip": f"{i % 2:05}", "age": i, "on": i % 3 == 0} for i in range(200)), {"zip": "94107", "age": 1}
    )
    wanted = margin(client, "doors", {"zip": "94107", "age": 7, "on": True})
    assert wanted != margin(client, "doors", {"zip": "00001", "age": 7, "on": True})
    assert margin(client, "doors", {"zip": 94107, "age": "7", "on": 1}) == wanted
    assert margin(client, "doors", {"zip": 94107.0, "age": 7.0, "on": "true"}) == wanted
    for query in ("zip=94107&age=7&on=true", "zip=94107.0&age=7.0&on=1", "zip=94107&age=%2B7&on=TRUE"):
        assert client.get(f"/models/doors/predict?{query}").json()["margin"] == wanted
    tensors = [
        {"name": "zip", "shape": [1], "datatype": "INT32", "data": [94107]},
        {"name": "age", "shape": [1], "datatype": "FP64", "data": [7]},
        {"name": "on", "shape": [1], "datatype": "BOOL", "data": [True]},
    ]
    answer = client.post("/v2/models/doors/infer", json={"inputs": tensors}).json()
    assert next(one for one in answer["outputs"] if one["name"] == "margin")["data"] == [wanted]
    line = client.post("/models/doors/predict", content=b"| zip:94107 age:7 on:1", headers={"Content-Type": "text/x-vw"}).json()
    assert line[0]["margin"] == wanted


UNKNOWN = "features: the model knows none of "


def test_rows_of_which_no_field_is_known_are_refused_if_the_model_says_so(client: httpx.Client) -> None:
    create(client, "strict", encoder={"fields": {"when": "time", "body": "text"}, "crosses": [["zip", "plan"]]})
    observe(client, "strict", *({"age": i, "zip": f"0{i % 3}", "user": {"id": f"u{i % 2}"}} for i in range(1, 50)))
    strange: dict[str, Any] = {"plan": "x", "user": {"name": "eve"}}

    def answer(*rows: dict[str, Any]) -> httpx.Response:
        body = "\n".join(json.dumps({"features": row}) for row in rows)
        return client.post("/models/strict/predict", content=body, headers=LINES)

    assert answer(strange).status_code == 200  # unless it says so
    assert client.patch("/models/strict", json={"unknown_rows": "refuse"}).status_code == 200
    refused = answer({"age": 5}, strange).json()
    assert (refused["code"], [one["index"] for one in refused["errors"]]) == ("rows_refused", [1])
    told = refused["errors"][0]
    assert (told["code"], told["detail"]) == ("unknown_row", UNKNOWN + "plan=x, user^name:eve")
    known: list[dict[str, Any]] = [{"zip": "99"}, {"user": {"id": "new"}}, {"when": "2026-11-29"}, {"body": "words"}, {}]
    for row in [*known, {"zip": "9", "plan": "x"}]:
        assert answer(row).status_code == 200, row
    for query, status in (("plan=x", 422), ("plan=x&zip=99", 200), ("age=1", 200), ("plan=5", 422), ("", 200)):
        assert client.get(f"/models/strict/predict?{query}").status_code == status, query
    for row, status in ((strange, 422), ({"age": 1}, 200)):
        assert client.post("/models/strict/predict", json={"features": row}).status_code == status
    for name, status in (("plan", 422), ("zip", 200)):
        tensor = {"name": name, "shape": [1], "datatype": "BYTES", "data": ["99"]}
        assert client.post("/v2/models/strict/infer", json={"inputs": [tensor]}).status_code == status


def test_a_model_whose_fields_have_no_kinds_knows_the_features_that_it_learnt(client: httpx.Client) -> None:
    create(client, "strict-off", encoder={"fields": "off"}, unknown_rows="refuse")
    observe(client, "strict-off", {"zip": "01", "age": 1}, {"zip": "02"})
    for row, status in (({"zip": "01"}, 200), ({"zip": "03"}, 422), ({"age": 7}, 200), ({"other": 1}, 422)):
        assert client.post("/models/strict-off/predict", json={"features": row}).status_code == status, row


def test_kinds_are_changed_from_an_event_on(client: httpx.Client) -> None:
    create(client, "changed", encoder={"fields": "off"})
    observe(client, "changed", {"zip": 7, "age": 5})
    assert kinds(client, "changed") == {}
    changed = client.patch("/models/changed", json={"fields": {"zip": "category"}}).json()
    assert changed["config"]["encoder"]["fields"] == {"*": "off", "zip": "category"}
    assert kinds(client, "changed") == {"zip": "category"}
    client.patch("/models/changed", json={"fields": {"*": "auto"}})
    assert kinds(client, "changed") == {"zip": "category", "age": "number"}
    client.patch("/models/changed", json={"fields": {"zip": None}})
    assert kinds(client, "changed") == {"zip": "number", "age": "number"}
    observe(client, "changed", {"zip": "7"})
    assert fields(client, "changed")["zip"]["recent"]["share"] == 1.0
    client.patch("/models/changed", json={"fields": {"zip": "category"}})
    client.put("/models/changed", json={})  # a program that makes sure of its model at each start takes back nothing
    assert kinds(client, "changed") == {"zip": "category", "age": "number"}
    refused = client.patch("/models/changed", json={"fields": {"zip": "categroy"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "out_of_range")
    assert "did you mean 'category'?" in refused.json()["detail"]
    fixed = client.patch("/models/changed", json={"encoder": {"fields": "auto"}})
    assert fixed.json()["code"] == "needs_rebuild"


def test_a_kind_that_the_first_rows_contradict_changes(client: httpx.Client) -> None:
    create(client, "contradicted")
    observe(client, "contradicted", {"age": "unknown", "zip": 7}, *({"age": 20 + i, "zip": f"{i}x"} for i in range(64)))
    until = time.monotonic() + 30
    while not {"age": "number", "zip": "category"}.items() <= kinds(client, "contradicted").items():
        assert time.monotonic() < until, kinds(client, "contradicted")
        time.sleep(0.05)
        observe(client, "contradicted", {"b": 1})
    assert client.get("/models/contradicted").json()["config"]["encoder"]["fields"] == {"age": "number", "zip": "category"}


def test_values_that_are_none_of_their_kind_are_a_warning(client: httpx.Client) -> None:
    create(client, "warned", encoder={"fields": {"age": "number"}})
    observe(client, "warned", *({"age": "many"} for _ in range(11)), *({"age": 1} for _ in range(200)), {"age": ["x"]})
    client.get("/models/warned/predict?age=few")
    (warning,) = [one for one in client.get("/models/warned").json()["warnings"] if one["code"] == "unreadable_values"]
    assert warning["features"] == ["age"]
    told = "texts in NDJSON (11), lists in NDJSON (1), texts in a query (1)"
    assert warning["detail"].startswith(f"13 values of age are no number: {told}. Each is an indicator of its text.")
