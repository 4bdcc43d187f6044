"""GET and POST /predict: predict all rows of a request with one published model."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np

from riata.base.arrays import I64
from riata.base.errors import BadInput, TooLarge
from riata.base.limits import REMEMBERED_ROW_BYTES_MAX
from riata.predict.model import OneRow, Scores
from riata.predict.name_book import NameBook
from riata.predict.posterior import intervals_of
from riata.predict.unknown_rows import NamedRows, unknown_rows
from riata.run.labels.pending_rows import TOO_LARGE, encode_waiting
from riata.run.served_model import NotServedYet
from riata.run.state.config import ModelConfig, require_one_margin
from riata.run.writer.published import Published
from riata.web.api.options import check_options, model_named, query_pairs, read_options
from riata.web.api.predictions import (
    Intervals,
    Predicted,
    SourceText,
    age_s,
    prediction,
    source_document,
    wanted_form,
    write_answer,
)
from riata.web.api.problems import RowsNotPredicted, refuse_errors, refuse_rows
from riata.web.api.routes.predict import BESIDE_BODY, IN_QUERY, REFIT, QuestionOptions
from riata.web.auth.keys import OBSERVE, Forbidden, Key
from riata.web.server.answers import ARROW, JSON, Answer
from riata.web.server.request import Aside, Handled, Reply, Request
from riata.web.settings import EXPLAINED_FEATURES_MAX, INLINE_BYTES_MAX, Tools
from riata.wire.parse import StoreContext, explain_query, explain_rows, parse_for_store, parse_query
from riata.wire.parsed import Parsed, RowError

_ENCODE: Final = msgspec.json.Encoder().encode

REMEMBER_IN_QUERY: Final = "_remember"
REMEMBERED_INLINE_BYTES_MAX: Final = 2 * 2**10  # encoding a row takes the event loop 50 µs, even if it is short
PLAIN_MODELS_MAX: Final = 1024  # entries of `Predict.plain`


# Fast prediction of simple rows of one model, from the bytes of a row to the JSON document that answers it.


class SingleRowResponder:
    """Answers simple rows without creating an array. The answer is None if a row needs the general path.

    What a row needs is bound here, once for many rows: looking it up takes as long as a prediction. The object belongs to the
    event loop's thread, as `row` and `source` do.
    """

    __slots__ = ("_answer", "_model", "_monotonic_ms", "_now", "_text_of")

    def __init__(self, tools: Tools, row: OneRow, source: SourceText, model: str) -> None:
        self._now, self._monotonic_ms = tools.service.now, tools.clock.monotonic_ms
        self._answer, self._text_of, self._model = row.answer, source.of, model

    def __call__(self, row: bytes, json: bool) -> bytes | None:
        """Answer a row; None if it needs the general path. Raises errors of `riata.base.errors`."""
        published, stale_s = self._now(self._model)
        plan = None if published.config.decision.is_wanted else published.model.plan
        found = None if plan is None else self._answer(plan, row, json)
        if found is None:
            return None
        margin, probability, label, known, unknown = found
        if unknown and not known and published.config.unknown_rows == "refuse":
            return None
        source = self._text_of(published, self._monotonic_ms(), stale_s)
        whole = published.config.labels != "real"
        return _ENCODE(prediction((probability, margin, label, math.nan, known, unknown), whole, source))


@dataclass(frozen=True, slots=True)
class Question:
    """The options of a request to predict."""

    explain: bool
    min_seq: int | None
    remember: bool
    level: float | None = None
    refit: bool = False  # whether to answer with the weights of the last refit


PLAIN: Final = Question(explain=False, min_seq=None, remember=False)


@dataclass(frozen=True, slots=True)
class Served:
    """The model that answers all rows of a request, and what goes with it."""

    published: Published
    context: StoreContext
    names: NameBook
    age_s: float
    stale_s: float  # how long it is not known whether this is the newest; 0.0 if the process learns


@dataclass(frozen=True, slots=True)
class Predict:
    """The handler of the predict routes. Its methods belong to the event loop's thread."""

    tools: Tools
    one_row: OneRow = field(default_factory=OneRow)
    source: SourceText = field(default_factory=SourceText)
    plain: dict[str, SingleRowResponder] = field(default_factory=dict)  # by model name, whether the model exists or not

    def check_head(self, request: Request) -> None:
        """Refuse what can be refused before the body is read. Raises errors of `riata.base.errors`."""
        model = model_named(request.model)
        if request.route.method == "POST":
            self._question(request)
            with contextlib.suppress(NotServedYet):
                self.tools.service.published(model)

    def handle(self, request: Request, _reply: Reply) -> Handled:
        """Answer a GET from its query, a POST from its body. Raises errors of `riata.base.errors`."""
        try:
            return self._handle(request)
        except NotServedYet:
            request.body = bytes(request.body)  # the buffer is needed for other requests meanwhile
            return Aside(partial(self._when_served, request))

    async def _when_served(self, request: Request) -> Answer:
        """Answer once a model is served that the start of the process has not come to yet."""
        await self.tools.service.await_arrival(request.model)
        found = self._handle(request)
        return await found.work() if isinstance(found, Aside) else found

    def _handle(self, request: Request) -> Answer | Aside:
        if request.route.method == "GET":
            return self._query(request.model, request)
        return self._body(request.model, request)

    def _query(self, model: str, request: Request) -> Answer | Aside:
        document = self.one(model)(request.query, json=False)
        if document is not None:
            return Answer(200, document, rows=1)
        pairs = query_pairs(request.query)
        options = [pair for pair in pairs if pair[0].startswith("_")]
        features = [pair for pair in pairs if not pair[0].startswith("_")]
        refuse_remembering(options)
        question = read_question(check_options(options, request.route.options), IN_QUERY)
        if question.min_seq is None:
            return write_answer(predict_query(features, question, self._now(model, refit=question.refit)), JSON)

        async def awaited() -> Answer:
            return write_answer(predict_query(features, question, await self._served(model, question)), JSON)

        return Aside(awaited)

    def _body(self, model: str, request: Request) -> Answer | Aside:
        question = self._question(request)
        body, form = bytes(request.body), wanted_form(request.accept)
        if question is PLAIN:
            document = self.one(model)(body, json=True) if request.content_type == JSON and form == JSON else None
            if document is not None:
                return Answer(200, document, rows=1)
            if len(body) <= INLINE_BYTES_MAX:
                return write_answer(predict_body(body, request.kind, PLAIN, self._now(model)), form)
        self.tools.service.published(model)  # an unknown model is refused first, however the request arrived
        if question.explain and form == ARROW:
            raise BadInput("explain: the Arrow answer cannot hold contributions; request JSON", "explained_in_columns")
        return Aside(partial(self._aside, model, (body, request.kind, question), form))

    async def _aside(self, model: str, asked: tuple[bytes, str, Question], form: bytes) -> Answer:
        """Answer a body that takes long, or has to wait for the model or for the store."""
        body, _, question = asked
        arguments = (*asked, await self._served(model, question))
        inline_bytes_max = REMEMBERED_INLINE_BYTES_MAX if question.remember else INLINE_BYTES_MAX
        if len(body) <= inline_bytes_max and not question.explain and question.level is None:
            return write_answer(await self._remembered(model, predict_body(*arguments)), form)
        aside = partial(asyncio.get_running_loop().run_in_executor, self.tools.pool)
        if question.remember:
            predicted = await self._remembered(model, await aside(predict_body, *arguments))
            return await aside(write_answer, predicted, form)
        return await aside(lambda: write_answer(predict_body(*arguments), form))

    def _question(self, request: Request) -> Question:
        """Read the options of a POST; PLAIN itself if there are none."""
        question = read_question(read_options(request.query, request.route.options), BESIDE_BODY) if request.query else PLAIN
        require_allowed(request.key, question)
        return PLAIN if question == PLAIN else question

    def one(self, model: str) -> SingleRowResponder:
        """Return the object that answers simple rows of a model."""
        found = self.plain.get(model)
        if found is None:
            if len(self.plain) == PLAIN_MODELS_MAX:
                self.plain.clear()
            found = self.plain[model] = SingleRowResponder(self.tools, self.one_row, self.source, model)
        return found

    def _age_s(self, published: Published) -> float:
        return age_s(published, self.tools.clock.monotonic_ms())

    async def _remembered(self, model: str, predicted: Predicted) -> Predicted:
        """Store the rows to be remembered and give each prediction its id; from here on a label may arrive."""
        return replace(predicted, ids=await self.tools.service.remember(model, predicted.rows)) if predicted.rows else predicted

    async def _served(self, model: str, question: Question) -> Served:
        service = self.tools.service
        if question.min_seq is None:
            return self._now(model, question.remember, question.refit)
        return self._answering(model, await service.wait_for(model, question.min_seq), question.remember)

    def _now(self, model: str, remember: bool = False, refit: bool = False) -> Served:
        service = self.tools.service
        return self._answering(model, service.refits.refitted(model) if refit else service.published(model), remember)

    def _answering(self, model: str, published: Published, remember: bool) -> Served:
        service = self.tools.service
        # A remembered row may become an event of the log, together with its new feature names.
        context, stale_s = service.context(model, labelled=remember), service.stale_s(model)
        return Served(published, context, service.names(model), self._age_s(published), stale_s)


def read_question(options: dict[str, str], declared: QuestionOptions) -> Question:
    """Read the options of a prediction. Raises `BadInput`."""
    min_seq, from_refit = declared.min_seq.of(options), declared.source.of(options) == REFIT
    if from_refit and min_seq is not None:
        told = f"{declared.min_seq.name}: a refit has learnt the events up to its own; leave out one of the two"
        raise BadInput(told, "bad_option")
    return Question(declared.explain.of(options), min_seq, declared.remember.of(options), declared.level.of(options), from_refit)


def refuse_remembering(options: list[tuple[str, str]]) -> None:
    """Refuse `_remember` in the query of a GET, which any web page can make a browser send. Raises `BadInput`
    (remember_by_post)."""
    if any(name == REMEMBER_IN_QUERY for name, _ in options):
        raise BadInput(
            "_remember: a GET cannot remember; send the features in the body of a POST: POST /predict?remember=true, or "
            "POST /models/{model}/predict?remember=true",
            "remember_by_post",
        )


def require_allowed(key: Key | None, question: Question) -> None:
    """Raise `Forbidden` if predictions are to be remembered and the key lacks the scope observe: with a model's default label
    they become events."""
    if question.remember and key is not None and OBSERVE not in key.scopes:
        raise Forbidden(
            f"the key {key.id} does not allow this: a remembered prediction may become an event, which needs the scope observe"
        )


def predict_query(features: list[tuple[str, str]], question: Question, served: Served) -> Predicted:
    """Predict the one row of a query."""
    parsed = parse_query(features, served.context)
    refuse_errors(parsed)
    return predictions(parsed, served, question, partial(explain_query, features, served.context), [])


def predict_body(body: bytes, kind: str, question: Question, served: Served) -> Predicted:
    """Predict every row of a body."""
    parsed = parse_for_store(body, kind, served.context, labelled=False)
    refuse_errors(parsed)
    if question.explain and parsed.batch.nnz > EXPLAINED_FEATURES_MAX:
        detail = f"explain: at most {EXPLAINED_FEATURES_MAX} features per request, got {parsed.batch.nnz}"
        raise TooLarge(detail, "too_many_features_to_explain")
    named = partial(explain_rows, body, kind, served.context)
    return predictions(parsed, served, question, named, rows_to_remember(parsed, question))


def rows_to_remember(parsed: Parsed, question: Question) -> list[bytes]:
    """Encode the rows to be kept until their labels come. Raises `RowsNotPredicted` if one is too large."""
    if not question.remember:
        return []
    rows = encode_waiting(parsed.batch, parsed.names)
    detail = f"features: a remembered row may take {REMEMBERED_ROW_BYTES_MAX} bytes, about 12 per feature; this one takes"
    too_large = [
        RowError(at, TOO_LARGE, f"{detail} {len(row)}") for at, row in enumerate(rows) if len(row) > REMEMBERED_ROW_BYTES_MAX
    ]
    if too_large:
        raise RowsNotPredicted(f"{len(too_large)} of {parsed.rows} rows cannot be remembered; nothing was predicted", too_large)
    return rows


def decided(scores: Scores, config: ModelConfig) -> I64 | None:
    """Return the class that costs least for each row, as labels are written; None if the model has no costs."""
    if not config.decision.is_wanted:
        return None
    negative = -1 if config.labels == "-1/+1" else 0
    return np.where(scores.probability > config.decision.threshold, 1, negative)


def explained_row(published: Published, row: list[tuple[int, float, str]], names: NameBook) -> dict[str, Any]:
    """Explain one row: bias and contributions, and those of runs if the model has groups."""
    found = published.model.explain(row, names.in_slot)
    runs = {} if published.partition is None else {"runs": published.partition.answer(found)}
    return {**found.answer(), **runs}


def predictions(
    parsed: Parsed, served: Served, question: Question, named: Callable[[], NamedRows], rows: list[bytes]
) -> Predicted:
    """Score the rows, and explain them or add intervals if the question asks for it. named : returns them with their features"""
    published = served.published
    model = published.model
    source = source_document(published, served.age_s, served.stale_s)
    explained = [explained_row(published, row, served.names) for row in named()] if question.explain else []
    whole_labels = published.config.labels != "real"
    if (level := question.level) is not None:
        require_one_margin(published.config, "an interval of the probability")
    scores = model.score(parsed.batch)
    if published.config.unknown_rows == "refuse":
        refuse_rows(unknown_rows(scores, named, served.names, parsed.row), parsed.rows)
    intervals = None if level is None else Intervals(level, intervals_of(model, parsed.batch, scores, level))
    decisions = decided(scores, published.config)
    return Predicted(
        scores, source, whole_labels, parsed.single, explained, rows, intervals=intervals, decisions=decisions,
        classes=published.config.classes.names,
    )  # fmt: skip
