"""The contract of the routes that predict. Their handler is `riata.web.api.predict`."""

from __future__ import annotations

from typing import Any, Final

from riata.web.api.options import SEQ_MAX, Option, choice, flag, share, whole
from riata.web.api.predictions import Prediction
from riata.web.api.route import AT, Hot, Route
from riata.web.api.schemas import Schema, UnlabelledExample, answer, rows_body
from riata.web.auth.keys import PREDICT

TAG: Final = "predict"
REFIT: Final = "refit"
SOURCES: Final = ("model", REFIT)  # where the weights come from


class QuestionOptions:
    """The options of a prediction; in a query, where the other parameters are features, their names begin with `_`."""

    def __init__(self, prefix: str) -> None:
        self.explain = flag(f"{prefix}explain", "add bias and contributions, which add up to the margin")
        self.min_seq = whole(f"{prefix}min_seq", "wait until the served model includes this log position", 0, SEQ_MAX, None)
        self.remember = flag(
            f"{prefix}remember", "keep the features until the label arrives; the answer has the prediction_id to send it with"
        )
        self.level = share(
            f"{prefix}level",
            "add the interval that holds the probability with this probability; the model has to have standard errors",
        )
        text = "refit answers with the weights of the model's last refit instead of its own"
        self.source = choice(f"{prefix}from", text, SOURCES, SOURCES[0])


IN_QUERY: Final = QuestionOptions("_")
BESIDE_BODY: Final = QuestionOptions("")
QUERY_OPTIONS: Final[tuple[Option[Any] | Schema, ...]] = (
    IN_QUERY.explain,
    IN_QUERY.min_seq,
    IN_QUERY.level,
    IN_QUERY.source,
    {
        "name": "features",
        "in": "query",
        "required": False,
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        "style": "form",
        "explode": True,
        "description": "every other parameter is a feature: numeric if its value is a number, otherwise an indicator",
        "example": {"age": "40", "country": "de"},
    },
)
BODY_OPTIONS: Final = (BESIDE_BODY.explain, BESIDE_BODY.min_seq, BESIDE_BODY.remember, BESIDE_BODY.level, BESIDE_BODY.source)
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
