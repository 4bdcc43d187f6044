"""Rows that label a prediction: {"prediction_id": "…", "label": 1} in place of features.

The readers of bodies know the key and refuse a row that has it. Such rows are rare. So they are picked out of the refused rows
and read again here, by the strict decoder of the reference reader.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from riata.base.errors import nearest
from riata.wire.codes import BAD_LABEL, BY_PREDICTION, DUPLICATE_KEY, MISSING_LABEL, SLUGS, UNKNOWN_KEY
from riata.wire.given import received
from riata.wire.parsed import NO_JOINS, Joins, Reading, RowError
from riata.wire.readers.json.file import label_of
from riata.wire.readers.json.reference import EXAMPLE_KEYS, Pairs, decode, member
from riata.wire.rows import Rules
from riata.wire.scan.reference import Refused, label_hint, setting_of
from riata.wire.subjects import SUBJECT

JOIN_KEYS: Final = ("prediction_id", "label", "weight", "ts")
_ID: Final = re.compile(r"[0-9a-f]{32}")
_SHOWN_MAX: Final = 64

# Why a row with a prediction_id was refused: slug and sentence, for reasons that have no code in wire.codes.
NOT_TO_PREDICT: Final = ("prediction_id_not_allowed", "prediction_id: a row to predict has features; its answer brings the id")
BAD_ID: Final = ("bad_prediction_id", "prediction_id: expected the 32 characters that came with a prediction")
WITH_FEATURES: Final = (
    "prediction_id_with_features",
    "prediction_id: the features are those of the prediction; send one of both",
)
WITH_EVENT_ID: Final = ("prediction_id_with_event_id", "prediction_id: it is the event's id as well; leave event_id out")


class _NoJoin(Exception):
    """Carries a slug and a sentence to `read_joins`."""

    def __init__(self, slug: str, sentence: str) -> None:
        super().__init__(slug, sentence)
        self.slug = slug
        self.sentence = sentence


def read_joins(reading: Reading, errors: list[RowError]) -> tuple[Joins, list[RowError]]:
    """Split the rows that label a prediction from the refused ones. Returns them, and the errors of the rows still refused."""
    asked = np.flatnonzero(reading.sink.code[: reading.rows] == BY_PREDICTION).tolist()
    if not asked:
        return NO_JOINS, errors
    found: list[tuple[int, bytes, float, float]] = []
    refused: dict[int, RowError] = {}
    for number in asked:
        try:
            found.append((number, *_read_join(reading.text(number), reading.rules)))
        except _NoJoin as error:
            refused[number] = RowError(number, error.slug, error.sentence)
    joins = Joins(
        row=np.array([number for number, _, _, _ in found], np.int64),
        key=[key for _, key, _, _ in found],
        label=np.array([label for _, _, label, _ in found], np.float64),
        weight=np.array([weight for _, _, _, weight in found], np.float64),
    )
    again = set(asked)
    return joins, [refused.get(error.index, error) for error in errors if error.index in refused or error.index not in again]


def _read_join(text: bytes, rules: Rules) -> tuple[bytes, float, float]:
    """Read (key, label, weight) of one row. Raises `_NoJoin`."""
    if not rules.labelled:
        raise _NoJoin(*NOT_TO_PREDICT)
    try:
        given = _members(decode(text), rules)
    except Refused as refused:
        raise _told(refused, rules, text) from None
    if "label" not in given:
        raise _NoJoin(*SLUGS[MISSING_LABEL])
    return given["prediction_id"], given["label"], given.get("weight", 1.0)


def _members(row: Pairs, rules: Rules) -> dict[str, Any]:
    keys = [key for key, _ in row]
    given = {key: item for key, item in row if item is not None}
    for key in keys:
        if key not in EXAMPLE_KEYS or key == SUBJECT:  # whom the row is about was said with the prediction
            raise Refused(UNKNOWN_KEY, key)
        if keys.count(key) > 1:
            raise Refused(DUPLICATE_KEY, key)
    if "features" in given:
        raise _NoJoin(*WITH_FEATURES)
    if "event_id" in given:
        raise _NoJoin(*WITH_EVENT_ID)
    text = given.pop("prediction_id")
    if not isinstance(text, str) or _ID.fullmatch(text) is None:
        raise _NoJoin(*BAD_ID)
    return {"prediction_id": bytes.fromhex(text), **{key: member(key, item, rules) for key, item in given.items()}}


def _told(refused: Refused, rules: Rules, text: bytes) -> _NoJoin:
    code, field = refused.refusal
    slug, sentence = SLUGS[code]
    if code == BAD_LABEL:
        given = label_of(text, b"")
        sentence = label_hint(rules) + ("" if given is None else f"; {received(setting_of(rules), given)}")
    if code == UNKNOWN_KEY:
        sentence = f"{sentence}; {nearest(field[:_SHOWN_MAX], JOIN_KEYS)}"
    shown = "".join(c if c.isprintable() else "\ufffd" for c in field[:_SHOWN_MAX])
    return _NoJoin(slug, f"{shown}: {sentence}" if shown else sentence)
