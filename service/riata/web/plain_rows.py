"""Plain rows of one model, from bytes to the document that answers them."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from riata.maths.sockets import CAN_HEAR
from riata.predict.heard import Ear, Head
from riata.predict.one_row import OneRow, Plan, RowAnswer, plan_of
from riata.run.published import Published
from riata.web.hot import Tools
from riata.web.predictions import SourceText, row_document

NOTHING: Final = (0, None)
_KNOWN_FEATURES: Final = 3  # of a RowAnswer
_ENCODE: Final = msgspec.json.Encoder().encode


class PlainRows:
    """Writes the answer to a plain row, without an array made for it; None where it has to go the general way.

    What it needs is bound here, once for many rows: finding it anew takes as long as a prediction. It belongs to the event
    loop's thread, as `row`, `ear` and `source` do.
    """

    __slots__ = ("_answer", "_context", "_ear", "_json", "_model", "_monotonic_ms", "_now", "_text_of")

    def __init__(self, tools: Tools, row: OneRow, ear: Ear, source: SourceText, model: str, json: bool) -> None:
        self._now, self._context, self._monotonic_ms = tools.service.now, tools.service.context, tools.clock.monotonic_ms
        self._answer, self._ear, self._text_of = row.answer, ear, source.of
        self._model, self._json = model, json

    def __call__(self, row: bytes) -> bytes | None:
        """Answer a row. Raises errors of `riata.base.errors`."""
        published, stale_s = self._now(self._model)
        found = self._answer(published.model.plan or self._plan(published), row, self._json)
        return None if found is None else self._document(published, stale_s, found)

    def listen(self, socket: int, head: Head) -> tuple[int, bytes | None]:
        """Look for a request with this head on a socket, and answer its row.

        Returns how many bytes have come, none where the event loop has to look; and the answer, None where what has come (`said`)
        has to be read by somebody else. Raises errors of `riata.base.errors` where nothing was taken from the socket.
        """
        published, stale_s = self._now(self._model)
        plan = published.model.plan or self._plan(published)
        if not (CAN_HEAR and plan.known):
            return NOTHING
        size, found = self._ear.listen(socket, head, plan)
        if size <= 0:
            return NOTHING
        try:
            now, stale_now_s = self._now(self._model)
            stands = found[_KNOWN_FEATURES] >= 0 and now is published and stale_now_s == stale_s  # no other has come meanwhile
            return size, self._document(published, stale_s, found) if stands else None
        except Exception:
            return size, None  # whoever reads it meets it too, and says what it is

    def said(self, size: int) -> bytes:
        """What has come."""
        return self._ear.said(size)

    def _plan(self, published: Published) -> Plan:
        return plan_of(published.model, self._context(self._model, labelled=False))

    def _document(self, published: Published, stale_s: float, found: RowAnswer) -> bytes:
        margin, probability, label, known, unknown = found
        source = self._text_of(published, self._monotonic_ms(), stale_s)
        whole_labels = published.config.labels != "real"
        return _ENCODE(row_document((probability, margin, label, math.nan, known, unknown), whole_labels, source))
