"""The contract of the routes that predict. Their handler is `riata.web.api.predict`."""

from __future__ import annotations

from typing import Final

from riata.web.api.route import AT, Hot, Route
from riata.web.api.schemas import (
    COUNT,
    FIGURE,
    FLAG,
    NUMBER,
    PREDICTION_ID,
    SEQ,
    SERVED,
    TEXT,
    Schema,
    answer,
    array,
    query,
    record,
    ref,
    rows_body,
)
from riata.web.auth.keys import PREDICT

_AGE: Final = {"type": "number", "minimum": 0, "description": "seconds since this version was published"}
_STALE: Final = {
    "type": "number",
    "minimum": 0,
    "description": "seconds since this version was last known to be the newest; 0 in the process that learns",
}
_REPLAYING: Final = {
    "type": "boolean",
    "description": "true, and otherwise absent, while events after `seq` that were logged before the start are not learnt yet",
}
_REFIT: Final = {"type": "string", "description": "with from=refit: the refit whose weights answered"}
TAG: Final = "predict"
SCHEMAS: Final = {
    "Contribution": record(
        {"feature": TEXT, "value": NUMBER, "weight": NUMBER, "contribution": NUMBER, "shares_slot_with": array(TEXT)}
    ),
    "Prediction": record(
        {
            "probability": {
                "type": ["number", "null"],
                "minimum": 0,
                "maximum": 1,
                "description": "of the positive class, or of the class in `label`; null if the model gives no probabilities",
            },
            "margin": NUMBER,
            "label": {
                "type": ["number", "string", "null"],
                "description": "as labels are written; of several classes the name of the one with the largest margin, null "
                "before the first",
            },
            "probabilities": {
                "type": "object",
                "additionalProperties": NUMBER,
                "description": "if the model has several classes: the probability of each, which sum to one",
            },
            "std_error": {
                **FIGURE,
                "minimum": 0,
                "description": "approximate standard error of the margin, from the curvature of the non-zero weights, which may "
                "be some seconds old; features without a weight add nothing. null, with the reason in `std_error` of "
                "`GET /models/{model}`, if the learner keeps no curvature or too much to invert, if the model is worse than its "
                "base rate, if too few events have come for so many weights, or if columns are nearly combinations of others or "
                "have heavy tails",
            },
            "interval": {
                **record({"level": NUMBER, "low": NUMBER, "high": NUMBER, "mean": NUMBER}),
                "description": "with level: the central interval of the probability under the posterior distribution of the "
                "weights, and its mean; from draws, or from std_error as if the margin were normal; features that the model has "
                "not met add nothing",
            },
            "decision": {"type": "integer", "description": "if the model has costs: the class of the lower expected cost"},
            "known_features": COUNT,
            "unknown_features": COUNT,
            "model": record(
                {**SERVED, "age_s": _AGE, "stale_s": _STALE, "refit": _REFIT, "replaying": _REPLAYING},
                optional=("refit", "replaying"),
            ),
            "prediction_id": PREDICTION_ID,
            "bias": NUMBER,
            "contributions": array(
                ref("Contribution"),
                description="with explain: bias plus these contributions, added in this order, equals the margin to the last bit",
            ),
            "runs": array(
                record({"group": TEXT, "first": TEXT, "last": TEXT, "features": COUNT, "contribution": NUMBER}),
                description="with explain, from a refit with groups: what each run of features adds in this row, largest first",
            ),
        },
        optional=("probabilities", "interval", "decision", "prediction_id", "bias", "contributions", "runs"),
    ),
}
_EXPLAIN: Final = "add bias and contributions, which add up to the margin"
_MIN_SEQ: Final = "wait until the served model includes this log position"
_LEVEL: Final = "add the interval that holds the probability with this probability; the model has to have standard errors"
_BETWEEN: Final = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
_FROM: Final = "refit answers with the weights of the model's last refit instead of its own"
_SOURCE: Final[Schema] = {"type": "string", "enum": ["model", "refit"], "default": "model"}
_REMEMBER: Final = "keep the features until the label arrives; the answer has the prediction_id to send it with"
QUERY_OPTIONS: Final[tuple[Schema, ...]] = (
    query("_explain", FLAG, _EXPLAIN),
    query("_min_seq", SEQ, _MIN_SEQ),
    query("_level", _BETWEEN, _LEVEL),
    query("_from", _SOURCE, _FROM),
    {
        **query("features", {"type": "object", "additionalProperties": {"type": "string"}}, ""),
        "style": "form",
        "explode": True,
        "description": "every other parameter is a feature: numeric if its value is a number, otherwise an indicator",
        "example": {"age": "40", "country": "de"},
    },
)
BODY_OPTIONS: Final = (
    query("explain", FLAG, _EXPLAIN),
    query("min_seq", SEQ, _MIN_SEQ),
    query("remember", FLAG, _REMEMBER),
    query("level", _BETWEEN, _LEVEL),
    query("from", _SOURCE, _FROM),
)
PREDICTIONS: Final = {
    "application/json": {"schema": {"anyOf": [ref("Prediction"), array(ref("Prediction"))]}},
    "application/x-ndjson": {"schema": {"type": "string"}},
    "application/vnd.apache.arrow.stream": {"schema": {"type": "string", "format": "binary"}},
}


def _predict_query(path: str) -> Route:
    return Route(
        "GET",
        path,
        (PREDICT,),
        Hot.PREDICT,
        "Predict the one row of the query.",
        answer("Prediction"),
        (400, 404, 409, 414, 422, 503),
        QUERY_OPTIONS,
    )


def _predict_body(path: str) -> Route:
    return Route(
        "POST",
        path,
        (PREDICT,),
        Hot.PREDICT,
        "Predict rows. One JSON object is answered by an object, every other body by an array. With Accept: application/x-ndjson "
        "the answer has one line per row; with application/vnd.apache.arrow.stream it is columns, and the metadata of the schema "
        "name the model.",
        {200: PREDICTIONS},
        (404, 409, 503, 507),
        BODY_OPTIONS,
        rows_body("UnlabelledExample", "UnlabelledExamples", labelled=False),
    )


ROUTES: Final = (
    _predict_query("/predict"),
    _predict_body("/predict"),
    _predict_query(f"{AT}/predict"),
    _predict_body(f"{AT}/predict"),
)
