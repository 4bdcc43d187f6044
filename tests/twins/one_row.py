"""Slow, obvious twin of `riata.predict.model`."""

from __future__ import annotations

from urllib.parse import parse_qsl

from riata.predict.model import Model, RowAnswer
from riata.wire.parse import Context, parse_examples, parse_query
from riata.wire.parsed import Parsed

TWINS_OF = ("scoring",)


def answer_row(model: Model, context: Context, row: bytes, json: bool) -> RowAnswer | None:
    """The general way: parse, then score; None if the row is refused."""
    parsed: Parsed = (
        parse_examples(row, "application/json", context, labelled=False)
        if json
        else parse_query(parse_qsl(row.decode(), keep_blank_values=True, errors="strict"), context)
    )
    if parsed.errors:
        return None
    scores = model.score(parsed.batch)
    return (scores.margin[0], scores.probability[0], scores.label[0], scores.known[0], scores.unknown[0])
