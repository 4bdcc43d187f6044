"""Fast prediction of simple rows of one model, from the bytes of a row to the JSON document that answers it."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from riata.predict.one_row import OneRow
from riata.web.api.predictions import SourceText, row_document
from riata.web.api.tools import Tools

_ENCODE: Final = msgspec.json.Encoder().encode


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
        source = self._text_of(published, self._monotonic_ms(), stale_s)
        whole = published.config.labels != "real"
        return _ENCODE(row_document((probability, margin, label, math.nan, known, unknown), whole, source))
