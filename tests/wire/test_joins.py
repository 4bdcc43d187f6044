"""Rows that label a prediction: found among the others, read strictly."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from riata.run.labels.remembering import DUE_BYTES, due_of, make_key
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, Labels, parse_examples, parse_query
from riata.wire.parsed import Parsed

ID = "0199" + "ab" * 14
JSON, NDJSON = "application/json", "application/x-ndjson"
ORDINARY: dict[str, Any] = {"features": {"a": 1}, "label": 1}


def parsed(body: str | bytes, kind: str = JSON, labels: Labels = "0/1", labelled: bool = True) -> Parsed:
    return parse_examples(body.encode() if isinstance(body, str) else body, kind, Context(EncoderConfig(), labels), labelled)


def refused(body: str | bytes, kind: str = JSON, labels: Labels = "0/1") -> tuple[str, str]:
    """Code and sentence of the single row, which must be refused."""
    found = parsed(body, kind, labels)
    assert (found.joins.n, found.batch.n, found.rows, len(found.errors)) == (0, 0, 1, 1)
    return found.errors[0].code, found.errors[0].detail


@pytest.mark.parametrize(
    ("row", "label", "weight"),
    [
        (f'{{"prediction_id":"{ID}","label":1}}', 1.0, 1.0),
        (f'{{"label":false,"prediction_id":"{ID}"}}', 0.0, 1.0),
        (f' {{ "prediction_id" : "{ID}" , "weight" : 2.5 , "label" : 0 }} ', 0.0, 2.5),
        (f'{{"prediction_id":"{ID}","label":1,"ts":"2026-11-20T11:14:00Z"}}', 1.0, 1.0),
        (f'{{"prediction_id":"{ID}","label":1,"features":null,"event_id":null,"weight":null}}', 1.0, 1.0),
        (f'{{"prediction\\u005fid":"{ID}","label":1}}', 1.0, 1.0),  # an escape: the slow reader finds it
    ],
)
def test_a_label_for_a_prediction_is_read(row: str, label: float, weight: float) -> None:
    found = parsed(row)
    assert (found.batch.n, found.errors, found.rows, found.single) == (0, [], 1, True)
    assert found.joins.row.tolist() == [0]
    assert found.joins.key == [bytes.fromhex(ID)]
    assert (found.joins.label.tolist(), found.joins.weight.tolist()) == ([label], [weight])


@pytest.mark.parametrize("kind", [JSON, NDJSON])
def test_they_keep_their_places_among_other_rows(kind: str) -> None:
    other = f"{int(ID, 16) + 1:032x}"
    rows = [ORDINARY, {"prediction_id": ID, "label": 0}, {"nonsense": 1}, {"prediction_id": "x", "label": 1}, ORDINARY]
    rows.append({"prediction_id": other, "label": 1})
    lines = [json.dumps(row) for row in rows]
    found = parsed(f"[{','.join(lines)}]" if kind == JSON else "\n\n".join(lines), kind)
    assert (found.rows, found.row.tolist()) == (6, [0, 4])
    assert found.joins.row.tolist() == [1, 5]
    assert found.joins.key == [bytes.fromhex(ID), bytes.fromhex(other)]
    assert found.joins.label.tolist() == [0.0, 1.0]
    assert [(error.index, error.code) for error in found.errors] == [(2, "unknown_key"), (3, "bad_prediction_id")]


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ('{"prediction_id":"x","label":1}', "bad_prediction_id"),
        (f'{{"prediction_id":"{ID.upper()}","label":1}}', "bad_prediction_id"),
        (f'{{"prediction_id":"{ID}0","label":1}}', "bad_prediction_id"),
        (f'{{"prediction_id":"{ID}\\n","label":1}}', "bad_prediction_id"),
        ('{"prediction_id":7,"label":1}', "bad_prediction_id"),
        (f'{{"prediction_id":["{ID}"],"label":1}}', "bad_prediction_id"),
        ('{"prediction_id":true,"label":1}', "bad_prediction_id"),
        (f'{{"prediction_id":"{ID}"}}', "missing_label"),
        (f'{{"prediction_id":"{ID}","label":null}}', "missing_label"),
        (f'{{"prediction_id":"{ID}","label":2}}', "bad_label"),
        (f'{{"label":2,"prediction_id":"{ID}"}}', "bad_label"),
        (f'{{"prediction_id":"{ID}","label":"1"}}', "bad_label"),
        (f'{{"prediction_id":"{ID}","label":1,"weight":0}}', "bad_weight"),
        (f'{{"weight":1001,"prediction_id":"{ID}","label":1}}', "bad_weight"),
        (f'{{"prediction_id":"{ID}","label":1,"ts":"yesterday"}}', "bad_ts"),
        (f'{{"prediction_id":"{ID}","label":1,"features":{{"a":1}}}}', "prediction_id_with_features"),
        (f'{{"features":{{"a":1}},"label":1,"prediction_id":"{ID}"}}', "prediction_id_with_features"),
        (f'{{"prediction_id":"{ID}","label":1,"features":7}}', "prediction_id_with_features"),
        (f'{{"prediction_id":"{ID}","label":1,"event_id":"e"}}', "prediction_id_with_event_id"),
        (f'{{"event_id":"e","prediction_id":"{ID}","label":1}}', "prediction_id_with_event_id"),
        (f'{{"prediction_id":"{ID}","label":1,"label":1}}', "duplicate_key"),
        (f'{{"prediction_id":"{ID}","prediction_id":"{ID}","label":1}}', "duplicate_key"),
        (f'{{"prediction_id":"{ID}","label":1,"lable":1}}', "unknown_key"),
        (f'{{"prediction_id":"{ID}","label":1,"a":[[[[[[[[[1]]]]]]]]]}}', "too_deep"),
        ('{"prediction_id":null,"label":1}', "missing_features"),
    ],
)
def test_each_way_to_get_it_wrong_has_its_code(row: str, code: str) -> None:
    assert refused(row, NDJSON)[0] == code
    if code != "too_deep":  # a body of one document is refused as a whole for that
        assert refused(row)[0] == code


def test_sentences_name_the_key_and_what_was_expected() -> None:
    assert "0, 1, false or true" in refused(f'{{"prediction_id":"{ID}","label":2}}')[1]
    assert "-1 or 1" in refused(f'{{"prediction_id":"{ID}","label":0}}', labels="-1/+1")[1]
    assert "'label'" in refused(f'{{"prediction_id":"{ID}","label":1,"lable":1}}')[1]
    assert "32 characters" in refused('{"prediction_id":"secret","label":1}')[1]
    assert "secret" not in refused('{"prediction_id":"secret","label":1}')[1]
    assert "'prediction_id'" in refused('{"predicton_id":"x","label":1}')[1]


def test_labels_are_those_of_the_model() -> None:
    assert parsed(f'{{"prediction_id":"{ID}","label":-1}}', labels="-1/+1").joins.label.tolist() == [0.0]
    assert parsed(f'{{"prediction_id":"{ID}","label":-2.5}}', labels="real").joins.label.tolist() == [-2.5]


def test_a_row_to_predict_has_no_prediction_id() -> None:
    found = parsed(f'[{{"prediction_id":"{ID}"}},{{"features":{{"a":1}}}}]', labelled=False)
    assert (found.batch.n, found.joins.n) == (1, 0)
    assert [(error.index, error.code) for error in found.errors] == [(0, "prediction_id_not_allowed")]


def test_other_formats_have_no_such_rows() -> None:
    found = parsed(f"1 |n prediction_id={ID} a:1\n", "text/x-vw")
    assert (found.batch.n, found.joins.n) == (1, 0)


def test_a_query_may_call_a_feature_so() -> None:
    found = parse_query([("prediction_id", ID)], Context(EncoderConfig()))
    assert (found.batch.n, found.batch.nnz, found.joins.n) == (1, 1, 0)


def test_many_rows_are_read_in_their_order() -> None:
    rng = np.random.default_rng(1)
    wanted = []
    lines = []
    for i in range(2000):
        if rng.random() < 0.5:
            wanted.append((i, f"{i:032x}"))
            lines.append(json.dumps({"prediction_id": wanted[-1][1], "label": i % 2}))
        else:
            lines.append(json.dumps(ORDINARY))
    found = parsed("\n".join(lines), NDJSON)
    assert list(zip(found.joins.row.tolist(), [key.hex() for key in found.joins.key], strict=True)) == wanted
    assert found.joins.n + found.batch.n == found.rows == 2000


def test_an_id_tells_until_when_its_label_is_awaited() -> None:
    for due_ms in (0, 1, 1_790_000_000_000, 2 ** (8 * DUE_BYTES) - 1):
        key = make_key(due_ms, bytes(10))
        assert (due_of(key), len(key)) == (due_ms, 16)
    assert make_key(5, b"\xff" * 10) < make_key(6, bytes(10))
