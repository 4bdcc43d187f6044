"""Bodies whose labels are those of another setting are refused whole; a few strange labels among others are not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from riata.wire.encoder import EncoderConfig
from riata.wire.given import DISTINCT_MAX, Given, LabelTally, OtherLabels, given_value, other_form
from riata.wire.parse import Context, Labels, parse_examples
from riata.wire.parsed import Parsed

LINES = "application/x-ndjson"
VW = "text/x-vw"
SVMLIGHT = "text/x-svmlight"
FORMATS = (LINES, "application/json", VW, SVMLIGHT)


def body_of(labels: Sequence[Any], kind: str = LINES) -> bytes:
    if kind in (VW, SVMLIGHT):
        return "\n".join(f"{label} | a" if kind == VW else f"{label} 1:1" for label in labels).encode()
    rows = [json.dumps({"features": {"a": 1}, "label": label}) for label in labels]
    return ("[" + ",".join(rows) + "]" if kind == "application/json" else "\n".join(rows)).encode()


def parse(labels: Sequence[Any], setting: Labels = "0/1", kind: str = LINES, *, by_row: bool = False) -> Parsed:
    return parse_examples(body_of(labels, kind), kind, Context(EncoderConfig(), setting, by_row=by_row), True)


@pytest.mark.parametrize(
    ("setting", "labels", "said"),
    [
        ("0/1", [1, -1, 1], 'labels are -1 and 1, .* "0/1". .* the setting "-1/\\+1". Send 0 and 1'),
        ("-1/+1", [0, 1, 1], 'labels are 0 and 1, .* "-1/\\+1". .* the setting "0/1". Send -1 and 1'),
        ("-1/+1", [True, False], 'labels are false and true, .* the setting "0/1". Send -1 and 1'),
        ("-1/+1", [True, 0], 'labels are 0 and true, .* the setting "0/1"'),
        ("0/1", [1, 2], 'labels are 1 and 2, .* Send 0 and 1, or .* the setting "classes"'),
        ("-1/+1", [1, 2], 'labels are 1 and 2, .* Send -1 and 1, or .* the setting "classes"'),
        ("0/1", [2, 4, 2], 'labels are 2 and 4, .* the setting "classes"'),
        ("0/1", [0] * 10 + [100] * 10, "labels are 0 and 100"),
        ("0/1", ["spam", "ham"], 'labels are "spam" and "ham", .* the setting "classes"'),
        ("0/1", ["a", "b", "c", "a"], 'labels are "a", "b" and "c"'),
        ("real", ["spam", "ham"], 'Send numbers, or create a model with the setting "classes"'),
        ("0/1", ["0", "1"], 'the texts "0" and "1", .* without quotes'),
        ("0/1", ["true", "false"], "the texts .* without quotes"),
        ("real", [True, False], 'labels are false and true, .* Send numbers, or .* the setting "0/1"'),
        ("classes", [True, False], 'labels are false and true, .* Send names of classes, or .* the setting "0/1"'),
        ("0/1", [1, -1, "NA", None], "labels are -1 and 1"),  # an absent label is none
    ],
)
def test_a_body_with_the_labels_of_another_setting_is_refused_whole(setting: Labels, labels: list[Any], said: str) -> None:
    with pytest.raises(OtherLabels, match=said) as refused:
        parse(labels, setting)
    assert (refused.value.code, refused.value.rows) == ("other_labels", len(labels))
    by_row = parse(labels, setting, by_row=True)
    assert by_row.batch.n + len(by_row.errors) == len(labels)
    assert len(by_row.errors) > 0


@pytest.mark.parametrize(
    ("setting", "labels", "accepted"),
    [
        ("0/1", [0, 1, -1], 2),
        ("-1/+1", [-1, 1, 0], 2),
        ("0/1", [-1, -1], 0),  # one label alone says nothing
        ("0/1", [2], 0),
        ("0/1", [0, 0, 7], 2),  # a mistake as likely as a class
        ("0/1", [0] * 10 + [7] * 9, 10),
        ("0/1", [1, 0, "yes"], 2),
        ("0/1", [1, "yes", "no"], 1),
        ("0/1", [1, 0, "NA"], 2),
        ("0/1", ["NA", "?"], 0),
        ("0/1", [1, [0]], 1),
        ("0/1", [1, {"a": 0}, -1], 1),
        ("0/1", [2, 3, 4], 0),
        ("real", [1, 2, "x"], 2),
        ("real", [0.5, 1, True], 2),
        ("classes", ["a", "b", True, False], 2),
        ("0/1", [1, None], 1),
    ],
)
def test_strange_labels_among_others_are_refused_by_row(setting: Labels, labels: list[Any], accepted: int) -> None:
    parsed = parse(labels, setting)
    assert (parsed.batch.n, len(parsed.errors)) == (accepted, len(labels) - accepted)


@pytest.mark.parametrize("setting", ["0/1", "-1/+1", "real", "classes"])
def test_own_labels_are_accepted(setting: Labels) -> None:
    own: dict[str, list[Any]] = {"0/1": [0, 1], "-1/+1": [-1, 1], "real": [-1, 1, 2], "classes": ["a", "b", 3]}
    labels = own[setting]
    assert parse(labels, setting).batch.n == len(labels)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_judged(kind: str) -> None:
    with pytest.raises(OtherLabels, match=r'are -1 and 1, .* "-1/\+1"'):
        parse([1, -1, 1], kind=kind)
    with pytest.raises(OtherLabels, match="are 0 and 1"):
        parse([1, 0, 1], "-1/+1", kind)
    with pytest.raises(OtherLabels, match='are "spam" and "ham"'):
        parse(["spam", "ham"], kind=kind)
    assert (parse([1, 0, -1], kind=kind).batch.n, parse([1, -1], kind=kind, by_row=True).batch.n) == (2, 1)


def test_rows_to_predict_have_no_labels_to_judge() -> None:
    assert parse_examples(b'{"features":{"a":1}}\n{"features":{"a":2}}', LINES, Context(EncoderConfig()), False).batch.n == 2


def test_labels_of_predictions_are_judged_too() -> None:
    rows = [json.dumps({"prediction_id": "0" * 32, "label": label}) for label in (1, -1)]
    with pytest.raises(OtherLabels, match="are -1 and 1"):
        parse_examples("\n".join(rows).encode(), LINES, Context(EncoderConfig()), True)


@pytest.mark.parametrize(
    ("setting", "label", "said"),
    [
        ("0/1", -1, 'received -1; the setting "-1/+1" takes it'),
        ("-1/+1", 0, 'received 0; the setting "0/1" takes it'),
        ("-1/+1", True, 'received true; the setting "0/1" takes it'),
        ("0/1", "1", 'received "1", which is a text; send it without quotes'),
        ("0/1", "yes", 'received "yes"; send 0 and 1, or create a model with the setting "classes", which takes names'),
        ("0/1", 2, 'received 2; "real" takes numbers, "classes" names of classes'),
        ("0/1", 0.5, 'received 0.5; "real" takes numbers, "classes" names of classes'),
        ("0/1", "NA", 'received "NA"; leave out rows whose label is not known'),
        ("0/1", [1], "received a list"),
        ("0/1", {"a": 1}, "received an object"),
        ("0/1", "x" * 100, f'received "{"x" * 32}…"; '),
        ("0/1", "a\u0007\u202e", 'received "a\ufffd\ufffd"'),
        ("real", True, "received true; send 1"),
        ("real", 1e300, "received 1e+300"),
    ],
)
def test_the_refusal_of_a_row_says_what_was_received(setting: Labels, label: Any, said: str) -> None:
    (error,) = parse([label], setting).errors
    assert error.code == "bad_label"
    assert f"; {said}" in error.detail


def test_a_label_of_a_prediction_is_told_as_well() -> None:
    row = json.dumps({"prediction_id": "0" * 32, "label": "1"}).encode()
    (error,) = parse_examples(row, LINES, Context(EncoderConfig()), True).errors
    assert error.detail.endswith('received "1", which is a text; send it without quotes')


def test_parts_are_judged_together() -> None:
    tally = LabelTally("0/1")
    tally.add(given_value(1))
    tally.require_own_form()
    tally.add_parsed({1.0: 5}, {Given("number", -1.0): 3})
    with pytest.raises(OtherLabels, match="are -1 and 1") as refused:
        tally.require_own_form()
    assert refused.value.rows == 9
    tally.add(given_value(0))
    tally.require_own_form()


def test_a_tally_of_many_labels_stays_small() -> None:
    tally = LabelTally("0/1")
    for label in range(3 * DISTINCT_MAX):
        tally.add(given_value(label + 0.5))
    assert len(tally.others) == DISTINCT_MAX
    assert other_form("0/1", tally.own, tally.others) is None
