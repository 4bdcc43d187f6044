"""GET and POST /predict: predict all rows of a request with one published model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from starlette.types import Receive, Scope

from riata.base.errors import BadInput, TooLarge
from riata.base.limits import REMEMBERED_ROW_BYTES_MAX
from riata.predict.explain import explain
from riata.predict.name_book import NameBook
from riata.predict.one_row import BYTES_MAX, OneRow
from riata.predict.scoring import score
from riata.run.labels.pending_rows import TOO_LARGE, encode_waiting
from riata.run.published import Published
from riata.web.again import Quick, Reply
from riata.web.answers import ARROW, JSON, Answer
from riata.web.body import content_type, header, read_body
from riata.web.fast_lane import NOT_HERE, FastRequest, Verdict
from riata.web.hot import Tools
from riata.web.keys import KEY, Forbidden, Key
from riata.web.options import SEQ_MAX, check_options, flag, model_in_path, query_pairs, read_options, whole
from riata.web.plain_rows import PlainRows
from riata.web.predictions import Predicted, SourceText, age_s, source_document, wanted_form, write_answer
from riata.web.problems import RowsNotPredicted
from riata.web.scopes import OBSERVE
from riata.web.settings import EXPLAINED_FEATURES_MAX, INLINE_BYTES_MAX
from riata.wire.parse import Context, explain_query, explain_rows, parse_examples, parse_query
from riata.wire.parsed import Parsed, RowError

OPTIONS: Final = ("explain", "min_seq", "remember")
QUERY_OPTIONS: Final = ("_explain", "_min_seq")
REMEMBER_IN_QUERY: Final = "_remember"
REMEMBERED_INLINE_BYTES_MAX: Final = 2 * 2**10  # encoding a row takes the event loop 50 µs, even if it is short
PLAIN_MODELS_MAX: Final = 1024  # entries of `Predict.plain`
JSON_TYPE: Final = JSON.decode()
NamedRows = list[list[tuple[int, float, str]]]


@dataclass(frozen=True, slots=True)
class Question:
    """The options of a request to predict."""

    explain: bool
    min_seq: int | None
    remember: bool


PLAIN: Final = Question(explain=False, min_seq=None, remember=False)


@dataclass(frozen=True, slots=True)
class Served:
    """The model that answers all rows of a request, and what goes with it."""

    published: Published
    context: Context
    names: NameBook
    age_s: float
    stale_s: float  # how long it is not known whether this is the newest; 0.0 if the process learns


@dataclass(frozen=True, slots=True)
class Predict:
    """The handler of the predict routes. Its methods belong to the event loop's thread."""

    tools: Tools
    one_row: OneRow = field(default_factory=OneRow)
    source: SourceText = field(default_factory=SourceText)
    plain: dict[str, PlainRows] = field(default_factory=dict)  # by model name, whether the model exists or not

    async def __call__(self, scope: Scope, receive: Receive) -> Answer:
        """Answer a GET from its query, a POST from its body. Raises errors of `riata.base.errors`."""
        model = model_in_path(scope["path_params"])
        if scope["method"] != "POST":
            pairs = query_pairs(scope["query_string"])
            options = [pair for pair in pairs if pair[0].startswith("_")]
            features = [pair for pair in pairs if not pair[0].startswith("_")]
            refuse_remembering(options)
            question = read_question(check_options(options, QUERY_OPTIONS), "_")
            if question == PLAIN and (document := self.one(model)(scope["query_string"], json=False)) is not None:
                return Answer(200, document)
            return write_answer(predict_query(features, question, await self._served(model, question)), JSON)
        question = read_question(read_options(scope["query_string"], OPTIONS), "")
        require_allowed(scope, question)
        self.tools.service.published(model)  # an unknown model is refused before its body is read
        settings = self.tools.settings
        body = await read_body(scope, receive, settings.body_bytes_max, settings.body_deadline_s)
        kind, form = content_type(scope), wanted_form(header(scope, b"accept"))
        plain = question == PLAIN and kind == JSON_TYPE and form == JSON
        if plain and (document := self.one(model)(body, json=True)) is not None:
            return Answer(200, document)
        if question.explain and form == ARROW:
            raise BadInput("explain: the Arrow answer cannot hold contributions; request JSON", "explained_in_columns")
        served = await self._served(model, question)
        arguments = (body, kind, question, served)
        inline_bytes_max = REMEMBERED_INLINE_BYTES_MAX if question.remember else INLINE_BYTES_MAX
        if len(body) <= inline_bytes_max and not question.explain:
            return write_answer(await self._remembered(model, predict_body(*arguments)), form)
        aside = partial(asyncio.get_running_loop().run_in_executor, self.tools.pool)
        if question.remember:
            predicted = await self._remembered(model, await aside(predict_body, *arguments))
            return await aside(write_answer, predicted, form)
        return await aside(lambda: write_answer(predict_body(*arguments), form))

    def at_once(self, request: FastRequest, _reply: Reply) -> Answer | Verdict:
        """Answer on the fast path a request without `min_seq`, `remember` or `explain`."""
        model, query, body = request.model, request.query, request.body
        if request.line.method == "GET":
            document = self.one(model)(query, json=False)
            if document is not None:
                request.is_plain = True
                return Answer(200, document)
            pairs = query_pairs(query)
            if any(name.startswith("_") for name, _ in pairs):
                return NOT_HERE
            return write_answer(predict_query(pairs, PLAIN, self._now(model)), JSON)
        if query or len(body) > self.tools.settings.body_bytes_max:
            return NOT_HERE
        kind = request.headers.get(b"content-type", b"").decode("latin-1")
        form = wanted_form(request.headers.get(b"accept"))
        document = self.one(model)(body, json=True) if kind == JSON_TYPE and form == JSON else None
        if document is not None:
            request.is_plain = True
            return Answer(200, document)
        return write_answer(predict_body(body, kind, PLAIN, self._now(model)), form)

    def quick(self, request: FastRequest) -> Quick | None:
        """Return how to answer rows under the head of `request`: with `one`, which takes only simple queries and bodies. None if
        `request` itself was not answered in that way, or its head asks for another content type or form."""
        if not request.is_plain:
            return None
        if request.line.method == "GET":
            return self.one(request.model)
        kind, form = request.headers.get(b"content-type"), wanted_form(request.headers.get(b"accept"))
        if kind != JSON or form != JSON or request.query or self.tools.settings.body_bytes_max < BYTES_MAX:
            return None
        return self.one(request.model)

    def one(self, model: str) -> PlainRows:
        """Return the object that answers simple rows of a model."""
        found = self.plain.get(model)
        if found is None:
            if len(self.plain) == PLAIN_MODELS_MAX:
                self.plain.clear()
            found = self.plain[model] = PlainRows(self.tools, self.one_row, self.source, model)
        return found

    def _age_s(self, published: Published) -> float:
        return age_s(published, self.tools.clock.monotonic_ms())

    async def _remembered(self, model: str, predicted: Predicted) -> Predicted:
        """Store the rows to be remembered and give each prediction its id; from here on a label may arrive."""
        return replace(predicted, ids=await self.tools.service.remember(model, predicted.rows)) if predicted.rows else predicted

    async def _served(self, model: str, question: Question) -> Served:
        service = self.tools.service
        if question.min_seq is None:
            return self._now(model, question.remember)
        return self._answering(model, await service.wait_for(model, question.min_seq), question.remember)

    def _now(self, model: str, remember: bool = False) -> Served:
        return self._answering(model, self.tools.service.published(model), remember)

    def _answering(self, model: str, published: Published, remember: bool) -> Served:
        service = self.tools.service
        # A remembered row may become an event of the log, together with its new feature names.
        context, stale_s = service.context(model, labelled=remember), service.stale_s(model)
        return Served(published, context, service.names(model), self._age_s(published), stale_s)


def read_question(options: dict[str, str], prefix: str) -> Question:
    """Read the options of a prediction."""
    min_seq = whole(options, f"{prefix}min_seq", None, 0, SEQ_MAX)
    return Question(flag(options, f"{prefix}explain"), min_seq, flag(options, f"{prefix}remember"))


def refuse_remembering(options: list[tuple[str, str]]) -> None:
    """Refuse `_remember` in the query of a GET, which any web page can make a browser send. Raises `BadInput`
    (remember_by_post)."""
    if any(name == REMEMBER_IN_QUERY for name, _ in options):
        raise BadInput(
            "_remember: a GET cannot remember; send the features in the body of a POST: POST /predict?remember=true, or "
            "POST /models/{model}/predict?remember=true",
            "remember_by_post",
        )


def require_allowed(scope: Scope, question: Question) -> None:
    """Raise `Forbidden` if predictions are to be remembered and the key lacks the scope observe: with a model's default label
    they become events."""
    key: Key | None = scope.get(KEY)
    if question.remember and key is not None and OBSERVE not in key.scopes:
        raise Forbidden(
            f"the key {key.id} does not allow this: a remembered prediction may become an event, which needs the scope observe"
        )


def predict_query(features: list[tuple[str, str]], question: Question, served: Served) -> Predicted:
    """Predict the one row of a query."""
    parsed = parse_query(features, served.context)
    refuse_errors(parsed)
    named = explain_query(features, served.context) if question.explain else None
    return predictions(parsed, served, named, [])


def predict_body(body: bytes, kind: str, question: Question, served: Served) -> Predicted:
    """Predict every row of a body."""
    parsed = parse_examples(body, kind, served.context, labelled=False)
    refuse_errors(parsed)
    named = None
    if question.explain:
        if parsed.batch.nnz > EXPLAINED_FEATURES_MAX:
            detail = f"explain: at most {EXPLAINED_FEATURES_MAX} features per request, got {parsed.batch.nnz}"
            raise TooLarge(detail, "too_many_features_to_explain")
        named = explain_rows(body, kind, served.context)
    return predictions(parsed, served, named, rows_to_remember(parsed, question))


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


def refuse_errors(parsed: Parsed) -> None:
    """Refuse the request if any row is bad: a client could misalign a list of predictions with gaps."""
    if parsed.errors:
        detail = f"{len(parsed.errors)} of {parsed.rows} rows cannot be predicted; no row was"
        raise RowsNotPredicted(detail, parsed.errors)


def predictions(parsed: Parsed, served: Served, named: NamedRows | None, rows: list[bytes]) -> Predicted:
    """Score the rows; explain them if `named` has their features."""
    published = served.published
    model = published.model
    source = source_document(published, served.age_s, served.stale_s)
    explained = [explain(model, row, served.names.in_slot).answer() for row in named or ()]
    whole_labels = published.config.labels != "real"
    return Predicted(score(model, parsed.batch), source, whole_labels, parsed.single, explained, rows)
