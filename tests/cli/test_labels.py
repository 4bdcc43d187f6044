from __future__ import annotations

import pytest

from riata.base.errors import BadInput, Malformed
from riata.cli.model_setup import label_of, model_document, sniff_labels, without_label
from riata.wire.given import Given
from riata.wire.readers.json import text_fields


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


@pytest.mark.parametrize(
    ("lines", "form", "said"),
    [
        ([b"0 1:1", b"-1 1:1"], "svmlight", "labels -1 and 0 are neither .* if 0 means 1: --positive 0, for CSV and Parquet"),
        ([b"2 1:1", b"4 1:1"], "svmlight", "labels 2 and 4 .* --positive 4.* --labels classes.* --labels real"),
        ([b'{"label":2}', b'{"label":4}'], "ndjson", "labels 2 and 4 .* --positive 4"),
        ([b"1 1:1", b"2 1:1", b"3 1:1"], "svmlight", "labels 1, 2 and 3 .* names of classes need --labels classes"),
        ([b"0.5 1:1"], "svmlight", "label.* 0.5 .* a regression needs --labels real"),
        ([b"1,3 5:1", b"2 3:1"], "svmlight", "label 1,3: several labels in a line are not supported"),
        ([b"0| 0 1 0", b"1| 1 0 0"], "vw", 'the word before the bar is a tag; put a blank after the label, as in "0 |"'),
        ([b"spam | a", b"ham | b"], "vw", 'labels "ham" and "spam" are no numbers; names of classes need --labels classes'),
        ([b'{"label":"1"}', b'{"label":"0"}'], "ndjson", 'labels "0" and "1" are no numbers'),
    ],
)
def test_labels_of_no_two_classes_are_not_guessed(lines: list[bytes], form: str, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        sniff_labels(lines, form)


def test_rows_without_labels_are_refused() -> None:
    with pytest.raises(Malformed, match="no labels"):
        sniff_labels([b"| a", b"| b"], "vw")
    with pytest.raises(Malformed, match=r'as in \{"features"'):
        sniff_labels([b'{"text":"Free entry"}', b'{"label":"NA"}'], "ndjson")


def test_strange_labels_among_numbers_are_left_to_the_refusal_of_their_rows() -> None:
    assert sniff_labels([b'{"label":1}', b'{"label":"NA"}', b'{"label":[0]}'], "ndjson") == "0/1"


def test_a_label_is_found_as_it_was_given() -> None:
    assert label_of(b"x | a", "vw") == Given("text", "x")
    assert label_of(b"1 'tag|a", "vw") == Given("number", 1.0)
    assert label_of(b"'tag|a", "vw") == Given("tag", "'tag")
    assert label_of(b"| a", "vw") is None
    assert label_of(b'{"label":"1"}', "ndjson") == Given("text", "1")
    assert label_of(b'{"label":true}', "ndjson") == Given("truth", 1.0)
    assert label_of(b'{"label":1' + b"0" * 400 + b"}", "ndjson") == Given("number", float("inf"))
    for row in (b"[1]", b'{"label":null}', b"{", b'{"features":' * 20_000):
        assert label_of(row, "ndjson") is None
    assert label_of(b"1:1 2:2", "svmlight") is None


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
