"""Fast prediction of simple rows of one model, from the bytes of a row to the JSON document that answers it."""

from __future__ import annotations

import math
from typing import ClassVar, Final

import msgspec

from riata.predict.heard import Asked, Ear
from riata.predict.one_row import OneRow, Plan, plan_of
from riata.run.published import Published
from riata.web.hot import Tools
from riata.web.predictions import SourceText, row_document

_ENCODE: Final = msgspec.json.Encoder().encode


class PlainRows:
    """Answers simple rows without creating an array. The answer is None if a row needs the general path.

    What a row needs is bound here, once for many rows: looking it up takes as long as a prediction. The object belongs to the
    event loop's thread, as `row` and `source` do.
    """

    __slots__ = ("_answer", "_context", "_model", "_monotonic_ms", "_now", "_text_of")
    take: ClassVar[None] = None  # no row is answered later

    def __init__(self, tools: Tools, row: OneRow, source: SourceText, model: str) -> None:
        self._now, self._context, self._monotonic_ms = tools.service.now, tools.service.context, tools.clock.monotonic_ms
        self._answer, self._text_of, self._model = row.answer, source.of, model

    def __call__(self, row: bytes, json: bool) -> bytes | None:
        """Answer a row; None if it needs the general path. Raises errors of `riata.base.errors`."""
        published, stale_s = self._now(self._model)
        found = self._answer(published.model.plan or self._plan(published), row, json)
        if found is None:
            return None
        margin, probability, label, known, unknown = found
        source = self._text_of(published, self._monotonic_ms(), stale_s)
        whole = published.config.labels != "real"
        return _ENCODE(row_document((probability, margin, label, math.nan, known, unknown), whole, source))

    def heard(self, ear: Ear, at: int, count: int) -> tuple[int, list[Asked]]:
        """Answer the rows received from index `at` on that belong to this object. Returns the index of the first that does not,
        and the requests with the documents that answer them."""
        try:
            published, stale_s = self._now(self._model)
            plan = published.model.plan or self._plan(published)
            source = self._text_of(published, self._monotonic_ms(), stale_s)
        except Exception:
            stop = ear.answer(at, count, None)  # the parser's path meets the same error and reports it
            return stop, [(socket, begin, size, None) for socket, begin, size, *_ in ear.found(at, stop)]
        stop = ear.answer(at, count, plan if plan.known else None)
        whole = published.config.labels != "real"
        asked: list[Asked] = []
        for socket, begin, size, margin, probability, label, known, unknown in ear.found(at, stop):
            answered = known >= 0
            row = probability, margin, label, math.nan, known, unknown
            asked.append((socket, begin, size, _ENCODE(row_document(row, whole, source)) if answered else None))
        return stop, asked

    def _plan(self, published: Published) -> Plan:
        return plan_of(published.model, self._context(self._model, labelled=False))
