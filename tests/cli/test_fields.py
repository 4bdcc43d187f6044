"""`riata fields` against a service: the kinds are shown, declared and adopted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from riata.client import Riata
from tests.cli.test_verbs import run, succeeds
from tests.web.serving import answering_at


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with answering_at() as url:
        with Riata(url) as riata:
            riata.create_model("old", {"encoder": {"fields": "off"}})
            rows = [{"zip": "01067", "age": 5, "zone": 1}, {"zip": 7, "age": 6, "zone": "B"}]
            riata.observe([{"features": row, "label": i} for i, row in enumerate(rows)], model="old", wait_applied=True)
            riata.create_model("new", {})
            riata.create_model("regular", {})
            riata.observe([{"features": {"age": 5}, "label": 1}], model="regular", wait_applied=True)
            riata.observe([{"features": row, "label": i} for i, row in enumerate(rows)], model="new", wait_applied=True)
        yield url


def test_fields_are_a_table_or_json(url: str) -> None:
    shown = succeeds("fields", "new", "--url", url)
    assert "zip" in shown.stdout
    assert "category" in shown.stdout
    assert "since" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "3 fields; the newest 2 rows were looked at"
    assert "contrary" in shown.stdout  # the zip 7
    regular = run("fields", "regular", "--url", url)
    assert "since" in regular.stdout
    assert "contrary" not in regular.stdout
    found = json.loads(run("fields", "show", "new", "--json", "--url", url).stdout)
    assert {one["name"]: one["kind"] for one in found["fields"]} == {"zip": "category", "age": "number", "zone": "number"}


def test_kinds_are_declared_and_a_declaration_is_removed(url: str) -> None:
    done = succeeds("fields", "set", "new", "age=category", "zone=auto", "--url", url)
    assert "age is category, zone is met by its values, from event" in done.stdout
    found = json.loads(run("fields", "new", "--json", "--url", url).stdout)["fields"]
    assert {one["name"]: (one["kind"], one["declared"]) for one in found}["age"] == ("category", True)
    run("fields", "set", "new", "age=auto", "--url", url)
    found = json.loads(run("fields", "new", "--json", "--url", url).stdout)["fields"]
    assert {one["name"]: (one["kind"], one["declared"]) for one in found}["age"] == ("number", False)


def test_adopting_shows_the_kinds_first_and_applies_them_with_yes(url: str) -> None:
    dry = succeeds("fields", "adopt", "old", "--url", url)
    assert dry.stdout.splitlines() == [
        "  category  zip  (learnt as both: 1 values read otherwise)",
        "  number    age",
        "  number    zone  (learnt as both: 1 values read otherwise)",
        "3 fields would have these kinds; nothing is changed: --yes applies it",
    ]
    with Riata(url) as riata:
        assert riata.fields("old")["fields"] == []
        assert "no field has a kind" in run("fields", "old", "--url", url).stdout
        assert "3 fields have these kinds from event" in run("fields", "adopt", "old", "--yes", "--url", url).stdout
        assert {one["name"]: one["kind"] for one in riata.fields("old")["fields"]} == {
            "zip": "category", "age": "number", "zone": "number",
        }  # fmt: skip
    assert "meets fields already" in run("fields", "adopt", "old", "--url", url).stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [("zip", "expected FIELD=KIND, such as zip=category"), ("zip=categroy", "did you mean 'category'?"), ("=number", "expected")],
)
def test_what_declares_no_kind_is_refused(given: str, said: str, url: str) -> None:
    done = run("fields", "set", "new", given, "--url", url)
    assert done.exit_code != 0
    assert said in done.stderr
