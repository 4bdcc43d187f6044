"""Output formats of predictions: a JSON object, a JSON array, NDJSON lines or Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from riata.base.arrays import F64, I64
from riata.predict.model import Scores
from riata.run.writer.published import Published
from riata.web.server.answers import ARROW, JSON, NDJSON, Answer
from riata.wire.arrow_writer import floats, integers, texts, write_stream

FORMS: Final = {
    b"application/x-ndjson": NDJSON, b"application/ndjson": NDJSON, b"application/jsonl": NDJSON, ARROW: ARROW,
}  # fmt: skip
ANYTHING: Final = b"*/*"
ENDS: Final = ("low", "high", "mean")


class SourceDocument(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The member `model` of a prediction: the model that answered. `refit`: which, if the weights are those of a refit.
    `replaying`: events from before the start of the process are missing."""

    name: str
    version: int
    seq: int
    age_s: float
    stale_s: float
    refit: str | None = None
    replaying: bool = False


class RowDocument(msgspec.Struct, frozen=True, gc=False):
    """The prediction of one row, as it is written."""

    probability: float | None
    margin: float
    label: float
    std_error: float | None
    known_features: int
    unknown_features: int
    model: SourceDocument | msgspec.Raw


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
    source: SourceDocument
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


def documents(predicted: Predicted) -> Sequence[RowDocument | dict[str, Any]]:
    """Return one document for each prediction."""
    scores = predicted.scores
    members = (scores.probability, scores.margin, scores.label, scores.std_error, scores.known, scores.unknown)
    rows = zip(*(column.tolist() for column in members), strict=True)
    whole = predicted.whole_labels and scores.by_class is None
    answers = [row_document(row, whole, predicted.source) for row in rows]
    intervals = predicted.intervals
    plain = not predicted.explained and not predicted.ids and intervals is None and predicted.decisions is None
    if plain and scores.by_class is None:
        return answers
    longer = [msgspec.structs.asdict(answer) for answer in answers]
    if scores.by_class is not None:
        for answer, name, each in zip(longer, winners(scores, predicted.classes), scores.by_class.tolist(), strict=True):
            answer["label"], answer["probabilities"] = name, dict(zip(predicted.classes, each, strict=True))
    if predicted.decisions is not None:
        for answer, decided in zip(longer, predicted.decisions.tolist(), strict=True):
            answer["decision"] = decided
    if intervals is not None:
        for answer, ends in zip(longer, intervals.ends.tolist(), strict=True):
            answer["interval"] = {"level": intervals.level, **dict(zip(ENDS, ends, strict=True))}
    if predicted.explained:
        for answer, explanation in zip(longer, predicted.explained, strict=True):
            answer.update(explanation)
    if predicted.ids:
        for answer, prediction_id in zip(longer, predicted.ids, strict=True):
            answer["prediction_id"] = prediction_id
    return longer


def winners(scores: Scores, classes: Sequence[str]) -> list[str | None]:
    """Return the name of the class that each row was predicted; None while the model has no class."""
    return [None if label != label else classes[int(label)] for label in scores.label.tolist()]


def row_document(
    row: tuple[float, float, float, float, int, int], whole_labels: bool, source: SourceDocument | msgspec.Raw
) -> RowDocument:
    """Return the document of one row: probability, margin, label, standard error, known, unknown features. NaN becomes null."""
    probability, margin, label, error, known, unknown = row
    return RowDocument(
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


def source_document(published: Published, age_s: float, stale_s: float) -> SourceDocument:
    """Return the member `model` of an answer."""
    model = published.model
    at = (model.origin.name, published.version, model.seq, age_s, stale_s)
    return SourceDocument(*at, published.refit or None, published.replaying)
