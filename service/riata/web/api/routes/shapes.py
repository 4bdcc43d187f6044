"""The route of the shapes of numeric columns."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from msgspec import Meta

from riata.learn.limits import DECIDED, FIRST, LAST
from riata.predict.explain import effects
from riata.run.writer.published import Published
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.models import CLASS, source, weights_of_class
from riata.web.api.schemas import Count, Document, Figure, Number, Source, answer
from riata.web.auth.keys import PREDICT, WATCH
from riata.web.server.answers import Answer

Two = Meta(min_length=2, max_length=2)


class ColumnEffect(Document):
    """What a column adds to a margin: at x, `weight` * x and the value of the interval that x is in.

    feature : the first name with this hash; null if none is known
    names   : all of them
    weight  : of one unit of the value: the straight line
    edges   : upper ends of all intervals but the last: x is in the first interval whose edge is not below it
    values  : of the intervals, one more than edges. The interval of zero has 0
    range   : largest less smallest effect, from the upper end of the first interval to the lower end of the last
    """

    feature: str | None
    names: list[str]
    hash: Count
    weight: Number
    edges: list[Number]
    values: list[Number]
    range: Number


class PairEffect(Document):
    """What a pair of columns adds to the margin of a row that has both.

    features, hashes, edges : of the first column and of the second
    values                  : by interval of the first column, and of the second
    range                   : largest less smallest value
    """

    features: Annotated[list[str | None], Two]
    hashes: Annotated[list[Count], Two]
    edges: Annotated[list[list[Number]], Two]
    values: list[list[Number]]
    range: Number


class Shapes(Document):
    """What numeric columns and pairs of them add to a margin, those with the largest range first.

    why_not   : why there are no shapes; null if there are
    share     : of the shapes in the mixture with the linear model; null without shapes
    intercept : what every row has
    """

    model: Source
    why_not: str | None
    share: Figure
    intercept: Number
    columns: list[ColumnEffect]
    pairs: list[PairEffect]


async def model_shapes(call: Call) -> Answer:
    """The shapes of numeric columns: what each value adds to the margin, and what pairs of values add."""
    model, options = call.asked()
    published, book = call.parts.service.published(model), call.parts.service.names(model)
    of_class, weights = CLASS.of(options), published.model.weights
    if of_class is not None or weights.cells is not None:
        weights = weights_of_class(published, of_class)
    has = weights.shapes
    columns, pairs = await asyncio.get_running_loop().run_in_executor(None, effects, weights, book)
    return call.answer(
        {
            "model": source(published),
            "why_not": why_not(published) if has is None else None,
            "share": None if has is None else published.figures["mixed"]["shapes"],
            "intercept": weights.intercept if has is None else weights.intercept + has.intercept,
            "columns": columns,
            "pairs": pairs,
        }
    )


def why_not(published: Published) -> str:
    """Return why a model has no shapes."""
    config, rows = published.config, published.shown.examples
    if reason := config.learner.no_shapes(config.has_classes):
        return reason
    if rows < FIRST:
        return f"they are sought from row {FIRST} on; {rows} rows are learnt"
    if config.learner.declares_shapes():
        return f"no column that learner.shapes names has had several values; they are sought again up to row {LAST}"
    if rows < DECIDED:
        return f"no numeric columns in the rows so far; they are sought again up to row {DECIDED}"
    return "no numeric columns since the first row or the promotion of a refit; a quarter of the features have to be their values"


TAG: Final = "models"
ROUTES: Final = (
    Route(
        "GET",
        f"{AT}/shapes",
        (PREDICT, WATCH),
        model_shapes,
        "What each value of a numeric column adds to the margin, and each pair of values.",
        answer(Shapes),
        (404, 422, 503),
        (CLASS,),
    ),
)
