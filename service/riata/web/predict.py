"""GET and POST /predict: rows in, probabilities out, from one published model for the whole request."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope

from riata.base.errors import BadInput, TooLarge
from riata.predict.explain import explain
from riata.predict.name_book import NameBook
from riata.predict.scoring import score
from riata.run.published import Published
from riata.web.answers import JSON, NDJSON, Answer
from riata.web.body import content_type, header, read_body
from riata.web.hot import Tools
from riata.web.options import SEQ_MAX, check_options, flag, model_in_path, query_pairs, read_options, whole
from riata.web.problems import RowsNotPredicted
from riata.web.settings import EXPLAINED_FEATURES_MAX, INLINE_BYTES_MAX
from riata.wire.parse import Context, explain_query, explain_rows, parse_examples, parse_query
from riata.wire.parsed import Parsed

OPTIONS: Final = ("explain", "min_seq", "remember")
QUERY_OPTIONS: Final = tuple(f"_{name}" for name in OPTIONS)
NDJSON_TYPES: Final = (b"application/x-ndjson", b"application/ndjson", b"application/jsonl")
NamedRows = list[list[tuple[int, float, str]]]


@dataclass(frozen=True, slots=True)
class Question:
    """A request to predict, read but not parsed."""

    explain: bool
    min_seq: int | None


@dataclass(frozen=True, slots=True)
class Served:
    """The model that answers a request, all rows of it."""

    published: Published
    context: Context
    names: NameBook
    age_s: float


@dataclass(frozen=True, slots=True)
class Predict:
    """The handler of the predict routes."""

    tools: Tools

    async def __call__(self, scope: Scope, receive: Receive) -> Answer:
        """Answer a GET from its query, a POST from its body. Raises errors of `riata.base.errors`."""
        model = model_in_path(scope["path_params"])
        if scope["method"] != "POST":
            pairs = query_pairs(scope["query_string"])
            options = [pair for pair in pairs if pair[0].startswith("_")]
            features = [pair for pair in pairs if not pair[0].startswith("_")]
            question = read_question(check_options(options, QUERY_OPTIONS), "_")
            return answer_query(features, question, await self._served(model, question))
        question = read_question(read_options(scope["query_string"], OPTIONS), "")
        self.tools.service.published(model)  # an unknown model is refused before its body is read
        settings = self.tools.settings
        body = await read_body(scope, receive, settings.body_bytes_max, settings.body_deadline_s)
        served = await self._served(model, question)
        arguments = (body, content_type(scope), question, served, wants_ndjson(header(scope, b"accept")))
        if len(body) <= INLINE_BYTES_MAX and not question.explain:
            return answer_body(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self.tools.pool, answer_body, *arguments)

    async def _served(self, model: str, question: Question) -> Served:
        service = self.tools.service
        if question.min_seq is None:
            published = service.published(model)
        else:
            published = await service.wait_for(model, question.min_seq)
        age_s = max(0, self.tools.clock.monotonic_ms() - published.published_mono_ms) / 1000
        return Served(published, service.context(model, labelled=False), service.names(model), age_s)


def read_question(options: dict[str, str], prefix: str) -> Question:
    """Read the options of a prediction. Raises `BadInput` for `remember=true`, which this server does not do."""
    if flag(options, f"{prefix}remember"):
        raise BadInput(f"{prefix}remember: predictions are not remembered by this server", "remember_not_available")
    return Question(flag(options, f"{prefix}explain"), whole(options, f"{prefix}min_seq", None, 0, SEQ_MAX))


def wants_ndjson(accept: bytes | None) -> bool:
    """Say whether the client asks for one JSON object a line. Else it gets an array."""
    return accept is not None and any(part.split(b";")[0].strip().lower() in NDJSON_TYPES for part in accept.split(b","))


def answer_query(features: list[tuple[str, str]], question: Question, served: Served) -> Answer:
    """Answer the one row of a query."""
    parsed = parse_query(features, served.context)
    refuse_errors(parsed)
    named = explain_query(features, served.context) if question.explain else None
    return Answer(200, msgspec.json.encode(predictions(parsed, served, named)[0]))


def answer_body(body: bytes, kind: str, question: Question, served: Served, ndjson: bool) -> Answer:
    """Answer every row of a body: an object for an object, else an array or lines."""
    parsed = parse_examples(body, kind, served.context, labelled=False)
    refuse_errors(parsed)
    named = None
    if question.explain:
        if parsed.batch.nnz > EXPLAINED_FEATURES_MAX:
            detail = f"explain: at most {EXPLAINED_FEATURES_MAX} features a request, got {parsed.batch.nnz}"
            raise TooLarge(detail, "too_many_features_to_explain")
        named = explain_rows(body, kind, served.context)
    answers = predictions(parsed, served, named)
    if ndjson:
        return Answer(200, b"\n".join(map(msgspec.json.encode, answers)) + b"\n", NDJSON)
    return Answer(200, msgspec.json.encode(answers[0] if parsed.single else answers), JSON)


def refuse_errors(parsed: Parsed) -> None:
    """Refuse the request where a row is bad: a list of predictions with holes would be read as if it had none."""
    if parsed.errors:
        detail = f"{len(parsed.errors)} of {parsed.rows} rows cannot be predicted; nothing was"
        raise RowsNotPredicted(detail, parsed.errors)


def predictions(parsed: Parsed, served: Served, named: NamedRows | None) -> list[dict[str, Any]]:
    """Score the rows and write one answer each."""
    published = served.published
    model = published.model
    scores = score(model, parsed.batch)
    source = {"name": model.name, "version": published.version, "seq": model.seq, "age_s": served.age_s}
    whole_labels = published.config.labels != "real"
    answers: list[dict[str, Any]] = []
    columns = (scores.probability, scores.margin, scores.label, scores.std_error, scores.known, scores.unknown)
    for probability, margin, label, error, known, unknown in zip(*(column.tolist() for column in columns), strict=True):
        answers.append(
            {
                "probability": None if math.isnan(probability) else probability,
                "margin": margin,
                "label": int(label) if whole_labels else label,
                "std_error": None if math.isnan(error) else error,
                "known_features": known,
                "unknown_features": unknown,
                "model": source,
            }
        )
    if named is not None:
        for answer, row in zip(answers, named, strict=True):
            answer.update(explain(model, row, served.names.in_slot).answer())
    return answers
