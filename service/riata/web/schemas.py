"""JSON Schemas of all requests and responses, for the OpenAPI document."""

from __future__ import annotations

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
from riata.learn.registry import SPECS
from riata.run.config import CHANGEABLE, ModelConfig
from riata.web.options import MODEL_NAME
from riata.web.schema_of import schema_of

Schema = dict[str, Any]

NUMBER: Final[Schema] = {"type": "number"}
FIGURE: Final[Schema] = {"type": ["number", "null"]}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TEXT: Final[Schema] = {"type": "string"}
YES_OR_NO: Final[Schema] = {"type": "boolean"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
NAME_PATTERN: Final = f"^{MODEL_NAME}$"
PREDICTION_ID: Final[Schema] = {
    "type": "string",
    "pattern": "^[0-9a-f]{32}$",
    "description": "id of a prediction made with remember=true; its label may be sent once, within the model's label_ttl_s",
}
FEATURE_NAME_PATTERN: Final = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$"


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


def _features() -> Schema:
    text = {"type": "string", "maxLength": NAME_BYTES_MAX, "pattern": FEATURE_NAME_PATTERN}
    number = {"type": "number", "minimum": -VALUE_ABS_MAX, "maximum": VALUE_ABS_MAX}
    return {
        "type": "object",
        "description": "A number is a numeric feature; a string s under k is the indicator k=s; true is 1 and false 0; a list of "
        "strings is several indicators; null means absent. Names and strings: Unicode normal form C, "
        "no control characters (U+0000 to U+001F, U+007F to U+009F); in the fields that the encoder splits as text, a control "
        "character separates words.",
        "propertyNames": {"minLength": 1, "maxLength": NAME_BYTES_MAX, "pattern": FEATURE_NAME_PATTERN},
        "maxProperties": FEATURES_PER_ROW_MAX,
        "additionalProperties": {"anyOf": [number, text, YES_OR_NO, {"type": "null"}, array(text)]},
    }


def _rows() -> Schema:
    ts = {**TIME, "description": "time of the event; validated but not used"}
    event_id = {
        "type": "string",
        "minLength": 1,
        "maxLength": EVENT_ID_BYTES_MAX,
        "description": "makes a retry safe: a row with a known id is a duplicate, not a second event",
    }
    label = {
        "anyOf": [NUMBER, YES_OR_NO],
        "description": "depends on the model's setting labels: 0/1 (also false/true), -1/+1, or any number for real labels",
    }
    weight = {"type": "number", "exclusiveMinimum": 0, "maximum": WEIGHT_MAX, "description": "importance; 1 if absent"}
    common = {"features": ref("Features"), "event_id": event_id, "ts": ts}
    labelled = record({**common, "label": label, "weight": weight}, optional=("event_id", "ts", "weight"))
    unlabelled = record(common, optional=("event_id", "ts"))
    later = record({"prediction_id": PREDICTION_ID, "label": label, "weight": weight, "ts": ts}, optional=("ts", "weight"))
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
        "code": {**TEXT, "description": "stable error code for programs"},
        "outcome": {
            "enum": ["not_accepted", "unknown"],
            "description": "whether the events were accepted; if unknown, sending the same ids again is safe",
        },
        "retryable": YES_OR_NO,
        "errors": array(ref("RowError"), maxItems=ERRORS_SHOWN_MAX, description="the first refused rows"),
        "accepted": COUNT,
        "duplicate": COUNT,
        "rejected": COUNT,
        "reasons": array(TEXT),
    }
    return {"RowError": row, "Problem": record(problem, optional=("accepted", "duplicate", "rejected", "reasons"))}


def _answers() -> Schema:
    observed = {
        "accepted": COUNT,
        "duplicate": COUNT,
        "rejected": COUNT,
        "seq": {**COUNT, "description": "log position of the last accepted row"},
        "outcome": {"enum": ["accepted", "duplicate"]},
        "durability": {"enum": ["fsync", "memory"]},
        "errors": array(ref("RowError"), maxItems=ERRORS_SHOWN_MAX),
        "applied": {**YES_OR_NO, "description": "only with wait=applied: the served model includes these rows"},
    }
    served = {"name": TEXT, "version": COUNT, "seq": COUNT}
    age = {"type": "number", "minimum": 0, "description": "seconds since this version was published"}
    stale = {
        "type": "number",
        "minimum": 0,
        "description": "seconds since this version was last known to be the newest; 0 in the process that learns",
    }
    contribution = {"feature": TEXT, "value": NUMBER, "weight": NUMBER, "contribution": NUMBER, "shares_slot_with": array(TEXT)}
    prediction = {
        "probability": {
            "type": ["number", "null"],
            "minimum": 0,
            "maximum": 1,
            "description": "null if the model gives no probabilities",
        },
        "margin": NUMBER,
        "label": NUMBER,
        "std_error": {
            **FIGURE,
            "minimum": 0,
            "description": "approximate standard error of the margin, from the curvature of the non-zero weights, which may be "
            "some seconds old; features without a weight add nothing. null if the learner keeps no curvature, or too much to "
            "invert",
        },
        "known_features": COUNT,
        "unknown_features": COUNT,
        "model": record({**served, "age_s": age, "stale_s": stale}),
        "prediction_id": PREDICTION_ID,
        "bias": NUMBER,
        "contributions": array(
            ref("Contribution"),
            description="with explain: bias plus these contributions, added in this order, equals the margin to the last bit",
        ),
    }
    return {
        "Observed": record(observed, optional=("applied",)),
        "Source": record(served),
        "Contribution": record(contribution),
        "Prediction": record(prediction, optional=("prediction_id", "bias", "contributions")),
    }


def _figures() -> Schema:
    names = ("log_loss", "base_log_loss", "normalised_entropy", "auc", "accuracy", "base_rate", "calibration_ratio")
    figures = {
        "type": "object",
        "description": "test-then-train; null if undefined",
        "properties": dict.fromkeys(names, FIGURE),
        "additionalProperties": FIGURE,
    }
    metrics = {
        "model": ref("Source"),
        "cumulative": ref("Figures"),
        "faded": ref("Figures"),
        "window": ref("Figures"),
        "calibration": array({"type": "object", "additionalProperties": FIGURE}),
        "non_zeros": COUNT,
        "history": array(
            {"type": "object", "additionalProperties": FIGURE},
            description="with since: points of the learning curve; those learnt in another log have the seq of their import",
        ),
    }
    return {"Figures": figures, "Metrics": record(metrics, optional=("history",))}


def _models() -> Schema:
    served = record({"version": COUNT, "seq": COUNT, "generation": COUNT, "published": TIME, "age_s": NUMBER}, closed=False)
    line = {
        "name": {"type": "string", "pattern": NAME_PATTERN},
        "learner": TEXT,
        "mode": {"type": ["string", "null"], "description": "mode of the learner, if it has several"},
        "examples": COUNT,
        "non_zeros": COUNT,
        "served": served,
    }
    config = {"name": TEXT, "created": YES_OR_NO, "config": {"type": "object"}}
    error = {
        **FIGURE,
        "minimum": 0,
        "description": "approximate standard error of the weight, as in a prediction; null if unknown",
    }
    slot = {**COUNT, "description": "hash >> (32 - bits)"}
    weight = {"feature": {"type": ["string", "null"]}, "slot": slot, "weight": NUMBER, "names": array(TEXT), "std_error": error}
    bits = {"type": "integer", "minimum": 1, "maximum": 32}
    weights = {"model": ref("Source"), "intercept": NUMBER, "bits": bits, "non_zeros": COUNT, "weights": array(record(weight))}
    snapshot = {
        "generation": COUNT,
        "seq": COUNT,
        "created": TIME,
        "bytes": COUNT,
        "state_digest": TEXT,
        "cause": {"type": "string", "enum": ["schedule", "request"]},
        "metrics": {"type": "object"},
    }
    return {
        "ModelConfig": schema_of(ModelConfig),
        "ModelLine": record(line, closed=False),
        "DamagedModel": record(
            {"name": line["name"], "damaged": {**TEXT, "description": "what is damaged, and the command that repairs it"}}
        ),
        "ModelList": record({"models": array({"anyOf": [ref("ModelLine"), ref("DamagedModel")]})}),
        "Model": record({**line, "config": {"type": "object"}, "memory_bytes": {"type": "object"}}, closed=False),
        "ModelPut": record({**config, "state": {"type": "string", "enum": ["ready", "compiling"]}}),
        "ModelChange": _change(),
        "ModelChanged": record({**config, "seq": {**COUNT, "description": "the served model includes this log position"}}),
        "ModelDropped": record({"name": TEXT, "dropped": YES_OR_NO}),
        "Weights": record(weights),
        "Snapshot": record(snapshot, closed=False),
        "SnapshotList": record({"snapshots": array(ref("Snapshot"))}),
        "Restore": record({"generation": {"type": "integer", "minimum": 1}}),
        "Restored": record({"generation": COUNT, "seq": COUNT}),
        "Imported": record({"name": TEXT, "created": YES_OR_NO, "seq": COUNT}, closed=False),
        "Export": record(
            {"model": ref("Source"), "config": {"type": "object"}, "weights": array({"type": "object"})}, closed=False
        ),
    }


def _change() -> Schema:
    """Return the schema of a PATCH body: the changeable settings of a model and of its learner."""
    whole = schema_of(ModelConfig)["properties"]
    settings = {name: whole[name] for name in sorted(CHANGEABLE)}
    for spec in SPECS.values():
        for name in sorted(spec.adjustable):
            settings[name] = schema_of(spec.config)["properties"][name]
    for setting in settings.values():
        setting.pop("default", None)  # an absent setting stays as it is
    return record(settings, optional=tuple(settings))


def _paths() -> Schema:
    loss = {
        **FIGURE,
        "minimum": 0,
        "description": "test-then-train, if this penalty is among the learner's shadows; otherwise null",
    }
    objective = {**NUMBER, "description": "log-likelihood of the sketch minus penalties, relative to that of all weights zero"}
    gamma = {"type": "number", "minimum": 0}
    point = {
        "gamma": gamma,
        "non_zeros": COUNT,
        "objective": objective,
        "in_force": {**YES_OR_NO, "description": "whether this is the penalty that the model learns with now"},
        "log_loss": loss,
        "faded_log_loss": loss,
    }
    shadow = dict.fromkeys(("gamma", "weight", "log_loss", "faded_weight", "faded_log_loss"), gamma)
    said = "from the largest penalty to the smallest, including the current one and those of the shadows"
    points = array(ref("PathPoint"), description=said)
    own = {**FIGURE, "minimum": 0, "description": "test-then-train, of the model itself under the penalties it had at the time"}
    path = {
        "model": ref("Source"),
        "gamma": gamma,
        "log_loss": own,
        "faded_log_loss": own,
        "points": points,
        "shadows": array(record(shadow)),
    }
    return {"PathPoint": record(point), "Path": record(path)}


def components() -> Schema:
    """Return every schema by name."""
    operations = {
        "Alive": record({"alive": YES_OR_NO}),
        "Ready": record(
            {
                "ready": YES_OR_NO,
                "role": {"type": "string", "enum": ["all", "web", "writer", "replica"]},
                "leads": {**YES_OR_NO, "description": "whether this process learns"},
                "accepting": {
                    **YES_OR_NO,
                    "description": "whether this process accepts events now; if not, `warnings` gives the reason",
                },
                "models": {"type": "object"},
                "damaged": {
                    "type": "object",
                    "additionalProperties": TEXT,
                    "description": "models that answer 503 model_damaged: what is damaged, and the command that repairs it",
                },
                "warnings": array(TEXT),
            }
        ),
        "Started": record({"started": YES_OR_NO, "replayed": COUNT}),
        "Version": record({"version": TEXT, "api": COUNT, "python": TEXT}),
    }
    rows = {
        "Observations": array(ref("Observation"), minItems=1, maxItems=ROWS_PER_REQUEST_MAX),
        "UnlabelledExamples": array(ref("UnlabelledExample"), minItems=1, maxItems=ROWS_PER_REQUEST_MAX),
    }
    return {**_rows(), **rows, **_problem(), **_answers(), **_figures(), **_models(), **_paths(), **operations}
