"""Output formats of predictions: a JSON object, a JSON array, NDJSON lines or Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from riata.base.arrays import F64, I64
from riata.predict.model import OUTSIDE_SPAN, Scores
from riata.run.writer.published import Published
from riata.web.api.schemas import Count, Document, Number, PredictionId
from riata.web.server.answers import ARROW, JSON, NDJSON, Answer
from riata.wire.arrow_writer import floats, integers, texts, write_stream

FORMS: Final = {
    b"application/x-ndjson": NDJSON, b"application/ndjson": NDJSON, b"application/jsonl": NDJSON, ARROW: ARROW,
}  # fmt: skip
ANYTHING: Final = b"*/*"
ENDS: Final = ("low", "high", "mean")


class ServedModel(Document, kw_only=True, gc=False):
    """The model that answered. `refit`: which, if the weights are those of a refit.

    age_s     : seconds since this version was published
    stale_s   : seconds since this version was last known to be the newest; 0 in the process that learns
    refit     : with from=refit: the refit whose weights answered
    replaying : true, and otherwise absent, while events after `seq` that were logged before the start are not learnt yet
    """

    name: str
    version: Count
    seq: Count
    age_s: Annotated[float, Meta(ge=0)]
    stale_s: Annotated[float, Meta(ge=0)]
    refit: str | UnsetType = UNSET
    replaying: bool | UnsetType = UNSET


class Interval(Document):
    """Where the probability lies."""

    level: Number
    low: Number
    high: Number
    mean: Number


class Contribution(Document):
    """What a feature adds to the margin.

    sent : the value in whose place it is, if that is set apart or far outside of its column
    """

    feature: str
    value: Number
    weight: Number
    contribution: Number
    shares_slot_with: list[str]
    sent: Number | UnsetType = UNSET


class ColumnPart(Document):
    """What a column adds to the margin."""

    feature: str
    contribution: Number


class Run(Document):
    """What a run of features adds to the margin."""

    group: str
    first: str
    last: str
    features: Count
    contribution: Number


class Prediction(Document, gc=False):
    """The prediction of one row.

    probability   : of the positive class, or of the class in `label`; null if the model gives no probabilities
    label         : as labels are written; of several classes the name of the one with the largest margin, null before the first
    std_error     : approximate standard error of the margin, from the curvature of the non-zero weights, which may be some
        seconds old, and their pull by prior and penalty; features without a weight add nothing. null, with the reason in
        `std_error_why_not`, for a row unlike all that were learnt; for all rows, with the reason in `std_error` of
        `GET /models/{model}`, where it would mean nothing
    probabilities : if the model has several classes: the probability of each, which sum to one
    decision      : if the model has costs: the class of the lower expected cost
    interval      : with level: the central interval of the probability under the posterior distribution of the weights, and its
        mean; from draws, or from std_error as if the margin were normal, and then null where that is
    contributions : with explain: bias plus these contributions, added in this order, equals the margin to the last bit. With
        shapes they have the interval of each value, the intervals of each pair, and `(shapes)`, which every row has
    by_column     : with explain, if the model has shapes: these with the interval of a value added to its column, largest first
    unknown       : with explain: names of features that no learnt row is known to have had, if there are any
    runs          : with explain, from a refit with groups: what each run of features adds in this row, largest first
    """

    probability: Annotated[float, Meta(ge=0, le=1)] | None
    margin: Number
    label: float | str | None
    std_error: Annotated[float, Meta(ge=0)] | None
    known_features: Count
    unknown_features: Count
    model: ServedModel
    probabilities: dict[str, Number] | UnsetType = UNSET
    decision: int | UnsetType = UNSET
    interval: Interval | UnsetType | None = UNSET
    std_error_why_not: str | UnsetType = UNSET
    bias: Number | UnsetType = UNSET
    contributions: list[Contribution] | UnsetType = UNSET
    by_column: list[ColumnPart] | UnsetType = UNSET
    unknown: list[str] | UnsetType = UNSET
    runs: list[Run] | UnsetType = UNSET
    prediction_id: PredictionId | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Intervals:
    """What the probability of each row may be. ends : f64[n, 3], low and high end of the interval of `level`, and the mean."""

    level: float
    ends: F64


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions that are not encoded yet.

    explained : the explanation of each; empty if none was requested
    rows      : the encoded rows to remember; empty if none is
    ids       : the prediction ids of these rows
    intervals : of the probabilities; None if none was requested
    decisions : i64[n], the class of the lower expected cost, as the client writes labels; None if the model has no costs
    classes   : of a model of several classes: their names by number; labels are names then
    """

    scores: Scores
    source: ServedModel
    whole_labels: bool
    single: bool
    explained: list[dict[str, Any]]
    rows: list[bytes]
    ids: list[str] = field(default_factory=list)
    intervals: Intervals | None = None
    decisions: I64 | None = None
    classes: Sequence[str] = ()


def wanted_form(accept: bytes | None) -> bytes:
    """Return the media type for several predictions: the first of NDJSON and Arrow that the Accept header names, otherwise
    JSON."""
    if accept is None or accept == ANYTHING:
        return JSON
    kinds = (part.split(b";")[0].strip().lower() for part in accept.split(b","))
    return next((FORMS[kind] for kind in kinds if kind in FORMS), JSON)


def write_answer(predicted: Predicted, form: bytes) -> Answer:
    """Encode predictions: an object for an object, otherwise an array, lines or columns."""
    if form == ARROW:
        return Answer(200, columns(predicted), ARROW, rows=len(predicted.scores.label))
    answers = documents(predicted)
    if form == NDJSON:
        return Answer(200, b"\n".join(map(msgspec.json.encode, answers)) + b"\n", NDJSON, rows=len(answers))
    return Answer(200, msgspec.json.encode(answers[0] if predicted.single else answers), JSON, rows=len(answers))


def columns(predicted: Predicted) -> bytes:
    """Encode one Arrow column for each member of a prediction; the model that answered is metadata of the schema."""
    scores = predicted.scores
    if scores.by_class is not None:
        label = texts("label", [name or "" for name in winners(scores, predicted.classes)])
    else:
        label = integers("label", scores.label.astype(np.int64)) if predicted.whole_labels else floats("label", scores.label)
    made = [
        floats("probability", scores.probability),
        floats("margin", scores.margin),
        label,
        floats("std_error", scores.std_error),
        integers("known_features", scores.known),
        integers("unknown_features", scores.unknown),
    ]
    if scores.by_class is not None:
        named = zip(predicted.classes, scores.by_class.T, strict=True)
        made += [floats(f"probability_{name}", np.ascontiguousarray(column)) for name, column in named]
    if predicted.decisions is not None:
        made.append(integers("decision", predicted.decisions))
    if predicted.intervals is not None:
        made += [floats(f"interval_{name}", column) for name, column in zip(ENDS, predicted.intervals.ends.T, strict=True)]
    if predicted.ids:
        made.append(texts("prediction_id", predicted.ids))
    return write_stream(made, {"model": msgspec.to_builtins(predicted.source)})


def documents(predicted: Predicted) -> list[Prediction]:
    """Return one document for each prediction."""
    scores, intervals = predicted.scores, predicted.intervals
    members = (scores.probability, scores.margin, scores.label, scores.std_error, scores.known, scores.unknown)
    rows = zip(*(column.tolist() for column in members), strict=True)
    whole = predicted.whole_labels and scores.by_class is None
    answers = [prediction(row, whole, predicted.source) for row in rows]
    if scores.by_class is not None:
        for answer, name, each in zip(answers, winners(scores, predicted.classes), scores.by_class.tolist(), strict=True):
            answer.label, answer.probabilities = name, dict(zip(predicted.classes, each, strict=True))
    if predicted.decisions is not None:
        for answer, decided in zip(answers, predicted.decisions.tolist(), strict=True):
            answer.decision = decided
    if intervals is not None:
        for answer, ends in zip(answers, intervals.ends.tolist(), strict=True):
            answer.interval = None if ends[0] != ends[0] else Interval(intervals.level, *ends)
    for at in () if scores.outside is None else np.flatnonzero(scores.outside).tolist():
        answers[at].std_error_why_not = OUTSIDE_SPAN
    for answer, explanation in zip(answers, predicted.explained, strict=False):  # all of them, or none
        for name, value in explanation.items():
            setattr(answer, name, value)
    for answer, prediction_id in zip(answers, predicted.ids, strict=False):
        answer.prediction_id = prediction_id
    return answers


def winners(scores: Scores, classes: Sequence[str]) -> list[str | None]:
    """Return the name of the class that each row was predicted; None while the model has no class."""
    return [None if label != label else classes[int(label)] for label in scores.label.tolist()]


def prediction(row: tuple[float, float, float, float, int, int], whole_labels: bool, source: Any) -> Prediction:
    """Return the document of one row: probability, margin, label, standard error, known, unknown features. NaN becomes null.

    source : a `ServedModel`, or the same encoded
    """
    probability, margin, label, error, known, unknown = row
    return Prediction(
        None if probability != probability else probability,  # true for NaN only
        margin,
        int(label) if whole_labels else label,
        None if error != error else error,
        known,
        unknown,
        source,
    )


class SourceText:
    """Cache of the encoded member `model`: valid while it does not change, which is one millisecond or tens of answers."""

    __slots__ = ("_now_ms", "_published", "_stale_s", "_text")

    def __init__(self) -> None:
        self._published: Published | None = None
        self._now_ms = 0
        self._stale_s = 0.0
        self._text = msgspec.Raw()

    def of(self, published: Published, now_ms: int, stale_s: float) -> msgspec.Raw:
        """Return the encoded `source_document` at a time of the monotonic clock."""
        if now_ms != self._now_ms or published is not self._published or stale_s != self._stale_s:
            self._text = msgspec.Raw(msgspec.json.encode(source_document(published, age_s(published, now_ms), stale_s)))
            self._now_ms, self._published, self._stale_s = now_ms, published, stale_s
        return self._text


def age_s(published: Published, now_ms: int) -> float:
    """Return the age of a model, seconds, at a time of the monotonic clock."""
    return max(0, now_ms - published.published_mono_ms) / 1000


def source_document(published: Published, age_s: float, stale_s: float) -> ServedModel:
    """Return the member `model` of an answer."""
    model = published.model
    return ServedModel(
        name=model.origin.name,
        version=published.version,
        seq=model.seq,
        age_s=age_s,
        stale_s=stale_s,
        refit=published.refit or UNSET,
        replaying=published.replaying or UNSET,
    )
