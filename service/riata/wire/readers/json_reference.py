"""The reference reader of JSON: msgspec decides what is well-formed, plain Python what it means.

It reads the rows that the native reader hands over. The tests also compare the two: for every row both accept the same
numbers or both refuse. msgspec keeps the last of two equal keys and rejects large integers. So the standard library decodes
again, reading every number with `float` and keeping every object as its pairs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np

from riata.base.errors import nearest
from riata.base.limits import (
    EVENT_ID_BYTES_MAX,
    JSON_DEPTH_MAX,
    LABEL_ABS_MAX,
    WEIGHT_MAX,
)  # fmt: skip
from riata.maths.hashing import FIELD_NAMESPACE
from riata.native.reading import hash_of
from riata.wire.codes import (
    BAD_EVENT_ID,
    BAD_LABEL,
    BAD_SUBJECT,
    BAD_TS,
    BAD_WEIGHT,
    BY_PREDICTION,
    DUPLICATE_KEY,
    INVALID_UTF8,
    LABEL_NOT_ALLOWED,
    MISSING_FEATURES,
    MISSING_LABEL,
    NOT_OBJECT,
    SLUGS,
    SUBJECT,
    SYNTAX,
    TOO_DEEP,
    TOO_MANY_IN_ROW,
    UNKNOWN_KEY,
    is_subject,
)  # fmt: skip
from riata.wire.encoder import NO_CURVES, Curves
from riata.wire.given import json_label, received
from riata.wire.names import NO_NAMES
from riata.wire.parsed import NO_JOINS, Joins, Reading, RowError
from riata.wire.rows import EQUALS, NAMESPACE, RECORDS_PER_ROW_MAX, Refusal, Rules, SlowRow
from riata.wire.scan import Record, Refused, class_label, curve_records, feature_records, label_hint, setting_of

EXAMPLE_KEYS: Final = ("features", "label", "weight", "event_id", "ts", "prediction_id", "subject")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_TIME: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)


class Pairs(list[tuple[str, Any]]):
    """A JSON object as its key-value pairs, so that equal keys stay visible."""


def reference_json(line: bytes, rules: Rules, curves: Curves = NO_CURVES) -> SlowRow | Refusal:
    """Read one example from its bytes; white space around it is allowed."""
    try:
        return example_row(decode(line), rules, curves)
    except Refused as refused:
        return refused.refusal


def decode(text: bytes) -> Any:
    """Decode strictly: objects become `Pairs`, numbers float (infinite if too large). Raises `Refused`."""
    import msgspec  # takes 8 ms, and the native reader leaves few rows

    read_to_the_end = True
    try:
        msgspec.json.Decoder(float_hook=float).decode(text)
    except msgspec.ValidationError:
        read_to_the_end = False  # an integer of thousands of digits is well-formed, but msgspec stops there
    except UnicodeDecodeError:
        raise Refused(INVALID_UTF8) from None
    except msgspec.DecodeError:
        raise Refused(SYNTAX) from None
    except RecursionError:
        raise Refused(TOO_DEEP) from None
    try:
        value = json.loads(
            text.decode(), object_pairs_hook=Pairs, parse_float=float, parse_int=float, parse_constant=_no_constant
        )
        if not read_to_the_end:
            json.dumps(value, ensure_ascii=False).encode()  # the standard library accepts lone surrogates
    except UnicodeDecodeError:
        raise Refused(INVALID_UTF8) from None
    except ValueError:
        raise Refused(SYNTAX) from None
    except RecursionError:
        raise Refused(TOO_DEEP) from None
    if _depth(value) > JSON_DEPTH_MAX:
        raise Refused(TOO_DEEP)
    return value


def _no_constant(word: str) -> float:
    raise ValueError(word)


def _depth(value: Any) -> int:
    if isinstance(value, Pairs):
        return 1 + max((_depth(item) for _, item in value), default=0)
    if not isinstance(value, list):
        return 0
    return 1 + max((_depth(item) for item in value if isinstance(item, list)), default=0)


def _is_number(value: Any) -> bool:
    return isinstance(value, float)  # true and false stay bool


def example_row(value: Any, rules: Rules, curves: Curves = NO_CURVES) -> SlowRow:
    """Read one decoded example. Raises `Refused`."""
    if not isinstance(value, Pairs):
        raise Refused(NOT_OBJECT)
    seen: set[str] = set()
    given: dict[str, Any] = {}
    for key, item in value:
        if key not in EXAMPLE_KEYS:
            raise Refused(UNKNOWN_KEY, key)
        if key in seen:
            raise Refused(DUPLICATE_KEY, key)
        seen.add(key)
        if item is not None:
            given[key] = member(key, item, rules, curves)
    if "features" not in given:
        raise Refused(MISSING_FEATURES)
    if rules.labelled and "label" not in given:
        raise Refused(MISSING_LABEL)
    label, weight = given.get("label", float("nan")), given.get("weight", 1.0)
    return SlowRow(given["features"], label, weight, given.get("event_id", b""), given.get(SUBJECT, b""), given.get("ts"))


def member(key: str, item: Any, rules: Rules, curves: Curves = NO_CURVES) -> Any:
    """Read the value of one key of an example. Raises `Refused`."""
    if key == "features":
        return _features(item, rules, curves)
    if key == "label":
        return _label(item, rules)
    if key == "weight":
        if not _is_number(item) or not 0.0 < item <= WEIGHT_MAX:
            raise Refused(BAD_WEIGHT, key)
        return item
    if key == "event_id":
        if not isinstance(item, str) or not 1 <= len(item.encode()) <= EVENT_ID_BYTES_MAX or "\0" in item:
            raise Refused(BAD_EVENT_ID, key)
        return item.encode()
    if key == "ts":
        if not isinstance(item, str) or (time := unix_ms(item)) is None:
            raise Refused(BAD_TS, key)
        return time
    if key == SUBJECT:
        if not is_subject(item):
            raise Refused(BAD_SUBJECT, key)
        return item.encode()
    raise Refused(BY_PREDICTION, key)


def _label(item: Any, rules: Rules) -> float:
    if not rules.labelled:
        raise Refused(LABEL_NOT_ALLOWED, "label")
    if isinstance(item, bool) and rules.labels == 0:
        return float(item)
    if _is_number(item):
        if rules.labels == 0 and item in (0.0, 1.0):
            return abs(float(item))
        if rules.labels == 1 and item in (-1.0, 1.0):
            return float(item > 0.0)
        if rules.labels == 2 and abs(item) <= LABEL_ABS_MAX:
            return float(item) + 0.0
    return class_label(item, rules, "label")


def _namespace_records(name: str, value: Pairs, rules: Rules) -> Iterator[Record]:
    yield from feature_records(name, None, rules)  # the key, and the field of what follows
    shown = name.encode()
    space = rules._replace(key=np.uint64(hash_of(shown, int(rules.key), FIELD_NAMESPACE)), text=NO_NAMES)
    for inner, item in value:
        for fingerprint, number, kind, said in feature_records(inner, item, space):
            if kind == EQUALS:
                said = inner.encode() + b":" + said[len(inner.encode()) + 1 :]
            yield fingerprint, number, (kind & ~EQUALS) | NAMESPACE, shown + b"^" + said


def _features(item: Any, rules: Rules, curves: Curves) -> list[Record]:
    if not isinstance(item, Pairs):
        raise Refused(MISSING_FEATURES, "features")
    records: list[Record] = []
    for name, value in item:
        if (tree := curves.of(name)) is not None:
            records.extend(curve_records(name, value, tree, rules))
        elif isinstance(value, Pairs):
            records.extend(_namespace_records(name, value, rules))
        else:
            records.extend(feature_records(name, value, rules))
        if len(records) > RECORDS_PER_ROW_MAX:
            raise Refused(TOO_MANY_IN_ROW, f"features.{name}")
    return records


# When the event of a row happened: the key `ts` of an example in JSON, an RFC 3339 time, kept to the millisecond.


def unix_ms(text: str) -> int | None:
    """Return the unix time of an RFC 3339 time, ms, rounded down; None for another text, or a day, hour or offset that does not
    exist. A leap second is the last second before it. The native reader has its own (`unix_ms` of `service/native/json.c`)."""
    if (found := _TIME.fullmatch(text)) is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction, sign, hours, minutes = found.groups()[6:]
    if sign is not None and (int(hours) > 23 or int(minutes) > 59):
        return None
    try:
        at = datetime(year, month, day, hour, minute, 59 if second == 60 else second, tzinfo=UTC)
    except ValueError:
        return None
    offset = timedelta() if sign is None else timedelta(hours=int(hours), minutes=int(minutes)) * int(f"{sign}1")
    return (at - _EPOCH - offset) // _MS + int((fraction or "")[:3].ljust(3, "0"))


# Rows that label a prediction: {"prediction_id": "…", "label": 1} in place of features.
#
# The readers of bodies know the key and refuse a row that has it. Such rows are rare. So they are picked out of the refused rows
# and read again here, by the strict decoder of the reference reader.

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
        given = json_label(text, b"")
        sentence = label_hint(rules) + ("" if given is None else f"; {received(setting_of(rules), given)}")
    if code == UNKNOWN_KEY:
        sentence = f"{sentence}; {nearest(field[:_SHOWN_MAX], JOIN_KEYS)}"
    shown = "".join(c if c.isprintable() else "\ufffd" for c in field[:_SHOWN_MAX])
    return _NoJoin(slug, f"{shown}: {sentence}" if shown else sentence)
