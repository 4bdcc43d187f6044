from __future__ import annotations

import pytest

from riata.base.errors import BadInput, Malformed
from riata.cli.labels import label_of, sniff_labels, without_label
from riata.cli.model_setup import model_document
from riata.wire.readers.json.file import text_fields


@pytest.mark.parametrize(
    ("lines", "form", "labels"),
    [
        ([b'{"label":1}', b'{"label":0}'], "ndjson", "0/1"),
        ([b'{"label":true}'], "ndjson", "0/1"),
        ([b'{"label":-1}', b'{"label":1}', b"{broken"], "ndjson", "-1/+1"),
        ([b"1 | a", b"-1 2.0 tag| b", b"| unlabelled"], "vw", "-1/+1"),
        ([b"0 1:1", b"1 2:1"], "svmlight", "0/1"),
        ([b"+1 1:1"], "svmlight", "0/1"),
    ],
)
def test_labels_are_detected_from_the_rows(lines: list[bytes], form: str, labels: str) -> None:
    assert sniff_labels(lines, form) == labels


@pytest.mark.parametrize("lines", [[b"0 1:1", b"-1 1:1"], [b"2 1:1"], [b"0.5 1:1"]])
def test_labels_of_no_two_classes_are_not_guessed(lines: list[bytes]) -> None:
    with pytest.raises(Malformed, match="needs a model with"):
        sniff_labels(lines, "svmlight")


def test_rows_without_labels_are_refused() -> None:
    with pytest.raises(Malformed, match="no labels"):
        sniff_labels([b"| a", b"| b"], "vw")
    with pytest.raises(Malformed, match=r'as in \{"features"'):
        sniff_labels([b'{"label":"spam","text":"Free entry"}'], "ndjson")


def test_a_label_that_cannot_be_read_is_none() -> None:
    assert label_of(b"x | a", "vw") is None
    assert label_of(b'{"label":"1"}', "ndjson") is None
    assert label_of(b"[1]", "ndjson") is None


@pytest.mark.parametrize(
    ("line", "form", "left"),
    [
        (b'{"label":1,"features":{"a":"\xc3\xa9"},"weight":2,"event_id":"x"}', "ndjson", b'{"features":{"a":"\xc3\xa9"}}'),
        (b'{"label":1,"features":{"a":1,"a":1e999} }', "ndjson", b'{"features":{"a":1,"a":1e999}}'),
        (b'{"features":{"a":NaN},"label":1}', "ndjson", b'{"features":{"a":NaN},"label":1}'),
        (b'[{"features":{}}]', "ndjson", b'[{"features":{}}]'),
        (b"\xff", "ndjson", b"\xff"),
        (b'{"label":1}', "ndjson", b'{"label":1}'),
        (b"{broken", "ndjson", b"{broken"),
        (b"1 2.0 'tag|user age:41 |site x", "vw", b"|user age:41 |site x"),
        (b"-1 3:1 4:0.5 # c", "svmlight", b"3:1 4:0.5 # c"),
        (b"3:1", "svmlight", b"3:1"),
        (b"-1", "svmlight", b"1:0"),
        (b"-1 # c", "svmlight", b"1:0"),
        (b"1", "vw", b"|"),
    ],
)
def test_a_row_to_predict_keeps_its_features_alone(line: bytes, form: str, left: bytes) -> None:
    assert without_label(line, form) == left


def test_a_model_for_real_labels_has_squared_loss() -> None:
    assert model_document("0/1") == {"labels": "0/1"}
    assert model_document("real")["learner"]["loss"] == "squared"
    assert model_document("0/1", ["body"])["encoder"] == {"text": ["body"]}
    with pytest.raises(BadInput, match="did you mean '0/1'"):
        model_document("0/2")


def test_text_is_distinguished_from_categories_by_its_length() -> None:
    rows = [b'{"features":{"body":"%s","from":"a b c"}}' % (b"word " * 30), b"{broken", b"[]", b'{"features":[]}']
    assert text_fields(rows) == ["body"]
