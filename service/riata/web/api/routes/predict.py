"""The contract of the routes that predict. Their handler is `riata.web.api.predict`."""

from __future__ import annotations

from typing import Final

from riata.web.api.predictions import Prediction
from riata.web.api.route import AT, Hot, Route
from riata.web.api.schemas import FLAG, SEQ, Schema, UnlabelledExample, answer, query, rows_body
from riata.web.auth.keys import PREDICT

TAG: Final = "predict"
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
    "application/json": {"schema": {"anyOf": [Prediction, list[Prediction]]}},
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
        answer(Prediction),
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
        rows_body((UnlabelledExample,), labelled=False),
    )


ROUTES: Final = (
    _predict_query("/predict"),
    _predict_body("/predict"),
    _predict_query(f"{AT}/predict"),
    _predict_body(f"{AT}/predict"),
)
