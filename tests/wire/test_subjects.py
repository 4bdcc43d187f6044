"""Rows that say whom they are about: only a keyed digest of the subject is kept, and nothing else about the row differs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from riata.store.payload import decode_batch, encode_batch
from riata.wire.batch import Batch
from riata.wire.codes import SUBJECT_BYTES_MAX, subject_digest
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from riata.wire.parsed import Parsed

NDJSON = "application/x-ndjson"
ROW: dict[str, Any] = {"features": {"age": 41.5, "country": "de", "tags": ["a", "b"]}, "label": 1, "weight": 2.0, "event_id": "x"}


def parsed(*rows: Any, key: int = 7, labelled: bool = True) -> Parsed:
    body = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()
    return parse_examples(body, NDJSON, Context(EncoderConfig(hash_key=key)), labelled)


def test_a_row_with_a_subject_is_the_same_row_with_its_digest() -> None:
    given = [{**ROW, "subject": "ann"}, ROW, {"subject": "änn", **ROW}, {**ROW, "subject": None}]
    found, plain = parsed(*given), parsed(*[ROW] * 4)
    assert found.errors == []
    for part in ("indptr", "hash", "value", "label", "weight", "event_id", "has_id"):
        assert np.array_equal(getattr(found.batch, part), getattr(plain.batch, part)), part
    assert found.batch.subject is not None
    digests = [row.tobytes() for row in found.batch.subject]
    assert digests == [subject_digest(b"ann", 7), bytes(16), subject_digest("änn".encode(), 7), bytes(16)]
    assert plain.batch.subject is None
    assert subject_digest(b"ann", 7) != subject_digest(b"ann", 8)


@pytest.mark.parametrize(
    "text",
    [
        '{"\\u0073ubject":"a\\u006en","features":{"age":1},"label":1}',
        '{"subject" : "ann" ,"features":{"n":1e400000000},"label":1}',
    ],
)
def test_escapes_are_read_and_other_faults_are_reported(text: str) -> None:
    found = parsed(text)
    if found.errors:
        assert [error.code for error in found.errors] == ["out_of_range"]
    else:
        assert found.batch.subject is not None
        assert found.batch.subject[0].tobytes() == subject_digest(b"ann", 7)


@pytest.mark.parametrize(
    "subject", ["", 7, True, ["ann"], "a\0b", "x" * (SUBJECT_BYTES_MAX + 1), "ü" * (SUBJECT_BYTES_MAX // 2 + 1)]
)
def test_a_subject_that_is_none_is_refused(subject: object) -> None:
    found = parsed({**ROW, "subject": subject}, {**ROW, "subject": "x" * SUBJECT_BYTES_MAX})
    assert [(error.index, error.code, error.detail) for error in found.errors] == [
        (0, "bad_subject", "subject: expected a string of 1 to 256 bytes of UTF-8, without NUL")
    ]
    assert found.batch.n == 1


def test_a_subject_may_come_once_and_in_documents_and_rows_to_predict_too() -> None:
    twice = '{"features":{"a":1},"label":1,"subject":"a","subject":"b"}'
    assert [error.code for error in parsed(twice).errors] == ["duplicate_key"]
    hint = parsed('{"features":{"a":1},"label":1,"subjekt":"a"}').errors[0]
    assert (hint.code, hint.detail) == ("unknown_key", "subjekt: unknown key; did you mean 'subject'?")
    unlabelled = {"features": {"a": 1}, "subject": "ann"}
    assert parsed(unlabelled, labelled=False).batch.subject is not None
    document = parse_examples(
        json.dumps([{**ROW, "subject": "ann"}]).encode(), "application/json", Context(EncoderConfig()), True
    )
    assert document.batch.subject is not None


def test_a_payload_with_wrong_subjects_is_refused() -> None:
    batch: Batch = parsed({**ROW, "subject": "ann"}, ROW).batch
    good = encode_batch(batch)
    assert decode_batch(good).n == 2
    digest = subject_digest(b"ann", 7)
    assert good.endswith(digest)
    for bad in (
        good[:-16] + bytes(16),  # a digest that says nothing
        bytes([2]) + good[1:],  # a flag of a later version
        good[:1] + bytes([good[1] & ~32]) + good[2:],  # the version without the flag
        good[:-17] + bytes([0xC0]) + good[-16:],  # two bits, one digest
        good[:-17] + bytes([0x81]) + good[-16:],  # padding
    ):
        with pytest.raises(Exception, match="payload"):
            decode_batch(bad)


def test_the_subject_is_found_beside_values_that_only_the_reference_reader_decodes() -> None:
    text = '{"features":{"big":%s,"s":"\\ud83d\\ude00"},"subject":"ann","label":1.0e0}' % ("1" + "0" * 15 + "." + "0" * 5000)
    found = parsed(text, '{"label":1,"subject":"b","features":{"a":12345678901234567890e-19}}')
    assert found.errors == []
    assert found.batch.subject is not None
    assert [row.tobytes() for row in found.batch.subject] == [subject_digest(b"ann", 7), subject_digest(b"b", 7)]
