"""Documents as types. An answer is a `Document`: one declaration of its members, from which its schema and its encoder come. The
body of a request is a frozen dataclass, which `riata.base.document` reads and `schema_of` describes.

The documents of one resource are in its module in `riata.web.api.routes`; here are the words they are written in, and those that
several resources share. Rows are read by the native core, so their schemas are written out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from riata.base.errors import BadInput, Malformed, Unsupported
from riata.base.limits import (
    ERRORS_SHOWN_MAX,
    EVENT_ID_BYTES_MAX,
    FEATURES_PER_ROW_MAX,
    JSON_DEPTH_MAX,
    NAME_BYTES_MAX,
    ROWS_PER_REQUEST_MAX,
    VALUE_ABS_MAX,
    WEIGHT_MAX,
)
from riata.web.api.options import MODEL_NAME
from riata.wire.codes import SUBJECT_BYTES_MAX
from riata.wire.readers import READERS

Schema = dict[str, Any]

NUMBER: Final[Schema] = {"type": "number"}
TEXT: Final[Schema] = {"type": "string"}
YES_OR_NO: Final[Schema] = {"type": "boolean"}
NAME_PATTERN: Final = f"^{MODEL_NAME}$"

Count = Annotated[int, Meta(ge=0)]
Figure = Annotated[Any, Meta(extra_json_schema={"type": ["number", "null"]})]  # a number as it is, or null if undefined
Number = Annotated[Any, Meta(extra_json_schema=NUMBER)]  # a number as it is: 1 stays 1
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Object = dict[str, Any]
ModelName = Annotated[str, Meta(pattern=NAME_PATTERN)]
PredictionId = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{32}$",
        description="id of a prediction made with remember=true; its label may be sent once, within the model's label_ttl_s",
    ),
]


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


class Document(Struct, forbid_unknown_fields=True):
    """An answer. A member whose default is UNSET may be absent. Its docstring describes members as `name : what it is`."""


class Named(NamedTuple):
    """A schema that the contract has under a name. It is made when the contract is asked for."""

    name: str
    schema: Callable[[], Schema]


FIGURES: Final = Named(
    "Figures",
    lambda: {
        "type": "object",
        "description": "test-then-train; null if undefined",
        "properties": {
            name: {"type": ["number", "null"]}
            for name in (
                "log_loss", "base_log_loss", "normalised_entropy", "auc", "accuracy", "base_rate", "calibration_ratio",
                "calibration_error",
            )
        },
        "additionalProperties": {"type": ["number", "null"]},
    },
)  # fmt: skip
Figures = Annotated[Any, Meta(extra_json_schema=ref(FIGURES.name))]
MODEL: Final[Schema] = {
    "name": "model",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": NAME_PATTERN},
    "description": "name of a model; `default` always exists",
    "example": "example",
}
TEXT_TYPES: Final = {media.name: media.about for reader in READERS for media in reader.media_types if media.about}
FEATURE_NAME_PATTERN: Final = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$"

RejectedCodes = Annotated[
    dict[str, Count], Meta(description="only if rows were rejected: how many by code; `errors` has the first of them")
]


class Source(Document):
    """The model that an answer comes from."""

    name: str
    version: Count
    seq: Count


class RowError(Document):
    """A refused row.

    index : position of the row in the body, from 0
    """

    index: Count
    code: str
    detail: str


class Error(Document):
    """Why there is no result."""

    code: str
    detail: str


class Problem(Document):
    """An error, as RFC 9457 has it.

    code    : stable error code for programs; docs/errors.md has cause and remedy of each
    outcome : whether the events were accepted; if unknown, sending the same ids again is safe
    errors  : the first refused rows
    """

    type: Annotated[str, Meta(extra_json_schema={"format": "uri"})]
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: str
    code: str
    outcome: Annotated[str, Meta(extra_json_schema={"enum": ["not_accepted", "unknown"]})]
    retryable: bool
    errors: Annotated[list[RowError], Meta(max_length=ERRORS_SHOWN_MAX)]
    accepted: Count | UnsetType = UNSET
    duplicate: Count | UnsetType = UNSET
    rejected: Count | UnsetType = UNSET
    rejected_codes: RejectedCodes | UnsetType = UNSET
    reasons: list[str] | UnsetType = UNSET


class Promotion(Document):
    """What every promotion answers.

    seq     : event of the promotion
    through : events after this one, up to the promotion, were learnt again
    """

    promoted: bool
    seq: Count
    through: Count
    forced: bool


def json_content(kind: Any) -> Schema:
    """Declare JSON content: a type."""
    return {"application/json": {"schema": kind}}


def answer(kind: Any, *statuses: int) -> dict[int, Schema]:
    """Declare a JSON answer of each of the statuses, by default 200."""
    return {status: json_content(kind) for status in statuses or (200,)}


def json_body(kind: Any, example: Any) -> Schema:
    """Declare a request body of JSON. A test sends the example, and it must be harmless: /docs fills it in."""
    return {"required": True, "content": {"application/json": {"schema": kind, "example": example}}}


def _features() -> Schema:
    text = {"type": "string", "maxLength": NAME_BYTES_MAX, "pattern": FEATURE_NAME_PATTERN}
    number = {"type": "number", "minimum": -VALUE_ABS_MAX, "maximum": VALUE_ABS_MAX}
    simple = [number, text, YES_OR_NO, {"type": "null"}, {"type": "array", "items": text}]
    names = {"minLength": 1, "maxLength": NAME_BYTES_MAX, "pattern": FEATURE_NAME_PATTERN}
    namespace = {"type": "object", "propertyNames": names, "additionalProperties": {"anyOf": simple}}
    points = {"type": "array", "items": NUMBER}
    return {
        "type": "object",
        "description": "A number is a numeric feature; a string s under k is the indicator k=s; true is 1 and false 0; a list of "
        "strings is several indicators; null means absent; an object is a namespace of such features, `user^age`. A list of "
        "numbers, or of points that are lists of a number for each channel, is a curve, in the fields of `encoder.curves` only. "
        "Names and strings: Unicode normal form C, "
        "no control characters (U+0000 to U+001F, U+007F to U+009F); in the fields that the encoder splits as text, a control "
        "character separates words.",
        "propertyNames": names,
        "maxProperties": FEATURES_PER_ROW_MAX,
        "additionalProperties": {"anyOf": [*simple, namespace, points, {"type": "array", "items": points}]},
    }


FEATURES: Final = Named("Features", _features)
Label = Annotated[Any, Meta(extra_json_schema={"anyOf": [NUMBER, YES_OR_NO, {**TEXT, "minLength": 1}]})]
Weight = Annotated[float, Meta(gt=0, le=WEIGHT_MAX, description="importance; 1 if absent")]


class _Row(Document, kw_only=True):
    """What every row may have.

    event_id : makes a retry safe: a row with a known id is a duplicate, not a second event
    subject  : whom the row is about, so that `POST /models/{model}/forget` can find it; only a digest is kept
    """

    features: Annotated[Any, Meta(extra_json_schema=ref(FEATURES.name))]
    event_id: Annotated[str, Meta(min_length=1, max_length=EVENT_ID_BYTES_MAX)] | UnsetType = UNSET
    subject: Annotated[str, Meta(min_length=1, max_length=SUBJECT_BYTES_MAX)] | UnsetType = UNSET


class Example(_Row, kw_only=True):
    """A labelled row.

    ts    : when the event happened; kept in the log, counted by `lateness`, not learnt
    label : depends on the model's setting labels: 0/1 (also false/true), -1/+1, any number for real labels, or the name of a
        class, for which a number stands too
    """

    ts: Time | UnsetType = UNSET
    label: Label
    weight: Weight | UnsetType = UNSET


class UnlabelledExample(_Row, kw_only=True):
    """A row to predict.

    ts : time of the event; validated but not used
    """

    ts: Time | UnsetType = UNSET


class PredictionLabel(Document):
    """The label of a prediction that was made before.

    ts    : time of the event; validated but not used
    label : depends on the model's setting labels: 0/1 (also false/true), -1/+1, any number for real labels, or the name of a
        class, for which a number stands too
    """

    prediction_id: PredictionId
    label: Label
    weight: Weight | UnsetType = UNSET
    ts: Time | UnsetType = UNSET


def rows_body(kinds: tuple[Any, ...], labelled: bool) -> Schema:
    """Declare a request body of rows, with the reader's own example for each media type that is text."""
    many = {"type": "array", "minItems": 1, "maxItems": ROWS_PER_REQUEST_MAX}
    one = kinds[0] if len(kinds) == 1 else {"anyOf": [*kinds]}
    content: Schema = {"application/json": {"schema": {"anyOf": [one, {**many, "items": one}]}}}
    for media, text in TEXT_TYPES.items():
        content[media] = {"schema": {"type": "string", "description": text}}
    for reader in READERS:
        if reader.file is not None:
            row = reader.file.hint.encode()
            line = (row if labelled else reader.file.without_label(row, b"")).decode()
            content[reader.line_type]["example"] = f"{line}\n"
            if reader.row_type != reader.line_type:  # a document of one row, as people write it
                content[reader.row_type]["example"] = json.loads(line)
    return {"required": True, "content": content}


# Strict parsing of the small JSON bodies of the admin routes (RFC 8259, no duplicate keys, bounded nesting).


KEY_CHARS_MAX: Final = 64  # no setting has a longer name; keeps a refusal that names the key short


def read_json_object(body: bytes, content_type: str) -> dict[str, Any]:
    """Read one JSON object.

    Raises `Unsupported` unless the type is application/json, `Malformed` for what is not JSON in UTF-8 (NaN, Infinity, numbers
    out of range, lone surrogates, a byte-order mark, trailing bytes), for duplicate keys and for too deep nesting,
    `BadInput` for anything other than an object.
    """
    check_type(content_type, "application/json")
    if not body:
        raise Malformed("the body is empty; expected a JSON object", "empty_body")
    try:
        msgspec.json.decode(body)
        document = json.loads(body, object_pairs_hook=_unique)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        raise Malformed(
            "the body is not valid JSON (RFC 8259, UTF-8, numbers within the range of float64)", "malformed"
        ) from None
    if not isinstance(document, dict):
        raise BadInput("expected a JSON object", "wrong_type")
    _check_depth(document, JSON_DEPTH_MAX)
    return document


def check_type(content_type: str, expected: str) -> None:
    """Raise `Unsupported` unless a Content-Type header names `expected`, and UTF-8 if it names a charset."""
    media, _, parameters = content_type.partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if media.strip().lower() != expected or charset not in ("", "utf-8", "utf8"):
        raise Unsupported(f"Content-Type: expected {expected}", "unsupported_media_type")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise Malformed("an object has the same key twice", "duplicate_key")
    for key in document:
        if len(key) > KEY_CHARS_MAX:
            raise BadInput(f"a key has {len(key)} characters; at most {KEY_CHARS_MAX} are allowed", "unknown_key")
    return document


def _check_depth(value: Any, left: int) -> None:
    if left == 0:
        raise Malformed(f"nested more than {JSON_DEPTH_MAX} levels deep", "too_deep")
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(child, left - 1)
