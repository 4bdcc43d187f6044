"""JSON Schemas: the words that they are written in, and those that several resources share.

A schema of one resource is in its module in `riata.web.api.routes`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from riata.base.limits import (
    ERRORS_SHOWN_MAX,
    EVENT_ID_BYTES_MAX,
    FEATURES_PER_ROW_MAX,
    NAME_BYTES_MAX,
    ROWS_PER_REQUEST_MAX,
    VALUE_ABS_MAX,
    WEIGHT_MAX,
)
from riata.web.api.options import MODEL_NAME, SEQ_MAX
from riata.wire.readers import READERS
from riata.wire.subjects import SUBJECT_BYTES_MAX

Schema = dict[str, Any]

NUMBER: Final[Schema] = {"type": "number"}
FIGURE: Final[Schema] = {"type": ["number", "null"]}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TEXT: Final[Schema] = {"type": "string"}
YES_OR_NO: Final[Schema] = {"type": "boolean"}
PROMOTION: Final[Schema] = {  # properties of the answer to any promotion
    "promoted": YES_OR_NO,
    "seq": {**COUNT, "description": "event of the promotion"},
    "through": {**COUNT, "description": "events after this one, up to the promotion, were learnt again"},
    "forced": YES_OR_NO,
}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
NAME_PATTERN: Final = f"^{MODEL_NAME}$"
PREDICTION_ID: Final[Schema] = {
    "type": "string",
    "pattern": "^[0-9a-f]{32}$",
    "description": "id of a prediction made with remember=true; its label may be sent once, within the model's label_ttl_s",
}
MODEL: Final[Schema] = {
    "name": "model",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": NAME_PATTERN},
    "description": "name of a model; `default` always exists",
    "example": "example",
}
FLAG: Final[Schema] = {"type": "string", "enum": ["true", "false"], "default": "false"}
SEQ: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": SEQ_MAX}
SERVED: Final[Schema] = {"name": TEXT, "version": COUNT, "seq": COUNT}
TEXT_TYPES: Final = {media.name: media.about for reader in READERS for media in reader.media_types if media.about}
FEATURE_NAME_PATTERN: Final = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$"

REJECTED_CODES: Final[Schema] = {
    "type": "object",
    "additionalProperties": COUNT,
    "description": "only if rows were rejected: how many by code; `errors` has the first of them",
}


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema, **more: Any) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": items, **more}


def record(properties: Schema, optional: tuple[str, ...] = (), closed: bool = True) -> Schema:
    """Return the schema of an object. Every key that is not in `optional` is required."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        **({"additionalProperties": False} if closed else {}),
    }


def query(name: str, schema: Schema, text: str) -> Schema:
    """Declare a query option."""
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": text}


def json_content(name: str) -> Schema:
    """Declare JSON content."""
    return {"application/json": {"schema": ref(name)}}


def answer(name: str, *statuses: int) -> dict[int, Schema]:
    """Declare a JSON answer of each of the statuses, by default 200."""
    return {status: json_content(name) for status in statuses or (200,)}


def json_body(name: str, example: Any) -> Schema:
    """Declare a request body of JSON. A test sends the example, and it must be harmless: /docs fills it in."""
    return {"required": True, "content": {"application/json": {"schema": ref(name), "example": example}}}


def rows_body(one: str, many: str, labelled: bool) -> Schema:
    """Declare a request body of rows, with the reader's own example for each media type that is text."""
    content: Schema = {"application/json": {"schema": {"anyOf": [ref(one), ref(many)]}}}
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


def _features() -> Schema:
    text = {"type": "string", "maxLength": NAME_BYTES_MAX, "pattern": FEATURE_NAME_PATTERN}
    number = {"type": "number", "minimum": -VALUE_ABS_MAX, "maximum": VALUE_ABS_MAX}
    simple = [number, text, YES_OR_NO, {"type": "null"}, array(text)]
    names = {"minLength": 1, "maxLength": NAME_BYTES_MAX, "pattern": FEATURE_NAME_PATTERN}
    namespace = {"type": "object", "propertyNames": names, "additionalProperties": {"anyOf": simple}}
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
        "additionalProperties": {"anyOf": [*simple, namespace, array(NUMBER), array(array(NUMBER))]},
    }


def _rows() -> Schema:
    unused = {**TIME, "description": "time of the event; validated but not used"}
    ts = {**TIME, "description": "when the event happened; kept in the log, counted by `lateness`, not learnt"}
    event_id = {
        "type": "string",
        "minLength": 1,
        "maxLength": EVENT_ID_BYTES_MAX,
        "description": "makes a retry safe: a row with a known id is a duplicate, not a second event",
    }
    label = {
        "anyOf": [NUMBER, YES_OR_NO, {**TEXT, "minLength": 1}],
        "description": "depends on the model's setting labels: 0/1 (also false/true), -1/+1, any number for real labels, or the "
        "name of a class, for which a number stands too",
    }
    weight = {"type": "number", "exclusiveMinimum": 0, "maximum": WEIGHT_MAX, "description": "importance; 1 if absent"}
    subject = {
        "type": "string",
        "minLength": 1,
        "maxLength": SUBJECT_BYTES_MAX,
        "description": "whom the row is about, so that `POST /models/{model}/forget` can find it; only a digest is kept",
    }
    common = {"features": ref("Features"), "event_id": event_id, "ts": ts, "subject": subject}
    labelled = record({**common, "label": label, "weight": weight}, optional=("event_id", "ts", "subject", "weight"))
    unlabelled = record({**common, "ts": unused}, optional=("event_id", "ts", "subject"))
    later = record({"prediction_id": PREDICTION_ID, "label": label, "weight": weight, "ts": unused}, optional=("ts", "weight"))
    either = {"anyOf": [ref("Example"), ref("PredictionLabel")]}
    return {
        "Features": _features(),
        "Example": labelled,
        "PredictionLabel": later,
        "Observation": either,
        "UnlabelledExample": unlabelled,
    }


def _problem() -> Schema:
    row = record({"index": {**COUNT, "description": "position of the row in the body, from 0"}, "code": TEXT, "detail": TEXT})
    problem = {
        "type": {**TEXT, "format": "uri"},
        "title": TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": TEXT,
        "code": {**TEXT, "description": "stable error code for programs; docs/errors.md has cause and remedy of each"},
        "outcome": {
            "enum": ["not_accepted", "unknown"],
            "description": "whether the events were accepted; if unknown, sending the same ids again is safe",
        },
        "retryable": YES_OR_NO,
        "errors": array(ref("RowError"), maxItems=ERRORS_SHOWN_MAX, description="the first refused rows"),
        "accepted": COUNT,
        "duplicate": COUNT,
        "rejected": COUNT,
        "rejected_codes": REJECTED_CODES,
        "reasons": array(TEXT),
    }
    return {
        "RowError": row,
        "Problem": record(problem, optional=("accepted", "duplicate", "rejected", "rejected_codes", "reasons")),
    }


SHARED: Final[Schema] = {
    **_rows(),
    "Observations": array(ref("Observation"), minItems=1, maxItems=ROWS_PER_REQUEST_MAX),
    "UnlabelledExamples": array(ref("UnlabelledExample"), minItems=1, maxItems=ROWS_PER_REQUEST_MAX),
    **_problem(),
    "Source": record(SERVED),
}
