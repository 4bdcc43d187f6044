"""The encoder's document: its bounds, and its fingerprint."""

from __future__ import annotations

import dataclasses

import pytest

from riata.base.document import read_document, write_document
from riata.base.errors import BadInput
from riata.web.api.schema_of import schema_of
from riata.wire.encoder import EncoderConfig, fingerprint


def test_defaults_are_read_from_an_empty_document() -> None:
    assert read_document(EncoderConfig, {}) == EncoderConfig()
    assert EncoderConfig().bits == 22


def test_a_document_comes_back_as_it_went() -> None:
    config = EncoderConfig(bits=18, text=("subject", "body"), ngrams=2, normalise="l2", hash_key=2**63 - 1, names_max=0)
    assert read_document(EncoderConfig, write_document(config)) == config


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"bits": 0}, "out_of_range"),
        ({"bits": 27}, "out_of_range"),
        ({"bits": 22.0}, "wrong_type"),
        ({"ngrams": 4}, "out_of_range"),
        ({"normalise": "l1"}, "out_of_range"),
        ({"hash_key": 2**63}, "out_of_range"),
        ({"hash_key": -1}, "out_of_range"),
        ({"names_max": 200_001}, "out_of_range"),
        ({"text": ["x" * 257]}, "out_of_range"),
        ({"text": ["x"] * 65}, "out_of_range"),
        ({"text": "body"}, "wrong_type"),
        ({"bit": 3}, "unknown_key"),
    ],
)
def test_documents_out_of_bounds_are_refused(document: object, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_document(EncoderConfig, document)
    assert caught.value.code == code


def test_fingerprint_changes_only_with_settings_that_features_depend_on() -> None:
    base = EncoderConfig()
    changes: list[dict[str, object]] = [{"bits": 20}, {"text": ("a",)}, {"ngrams": 2}, {"normalise": "l2"}, {"hash_key": 1}]
    every = {fingerprint(dataclasses.replace(base, **change)) for change in changes}  # type: ignore[arg-type]
    assert len(every | {fingerprint(base)}) == len(changes) + 1
    assert fingerprint(dataclasses.replace(base, names_max=1)) == fingerprint(base)


def test_fingerprint_is_stable() -> None:
    assert fingerprint(EncoderConfig(words=1)) == "5daa79112f1c509b", "models made before there was a second rule of words"
    assert fingerprint(EncoderConfig()) == "9fede0ebf191ac39"


def test_every_field_is_documented() -> None:
    assert [name for name, setting in schema_of(EncoderConfig)["properties"].items() if not setting.get("description")] == []
