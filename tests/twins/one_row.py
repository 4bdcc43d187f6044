"""Slow, obvious twin of `riata.predict.one_row`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

from riata.predict.model import Model
from riata.predict.one_row import RowAnswer
from riata.wire.parse import Context, parse_examples, parse_query
from riata.wire.parsed import Parsed
from riata.wire.rows import Rules
from riata.wire.scan.reference import Record, feature_records

TWINS_OF = ("predict/one_row",)

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def query_records(query: bytes, rules: Rules) -> list[Record]:
    """What `feature_records` makes of every pair, numbers read by Python."""
    records: list[Record] = []
    for name, text in parse_qsl(query.decode(), keep_blank_values=True):
        value: Any = float(text) if _NUMBER.fullmatch(text) else text
        records.extend(feature_records(name, value, rules))
    return records


def answer_row(model: Model, context: Context, row: bytes, json: bool) -> RowAnswer | None:
    """The general way: parse, then score; None if the row is refused."""
    parsed: Parsed = (
        parse_examples(row, "application/json", context, labelled=False)
        if json
        else parse_query(parse_qsl(row.decode(), keep_blank_values=True), context)
    )
    if parsed.errors:
        return None
    scores = model.score(parsed.batch)
    return (scores.margin[0], scores.probability[0], scores.label[0], scores.known[0], scores.unknown[0])
