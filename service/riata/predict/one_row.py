"""Fast path for predicting one row: from its bytes to its answer in one native call.

Theory of operation
    For one row, `wire.parse.parse_examples` (or `parse_query`) and `Model.score` do a few microseconds of work in tens
    of calls. `riata_answer_row` does it in one, on memory that is reused for every row. The result is identical to theirs, to the
    last bit.

    Only common rows are handled: one JSON object, or a query, that needs no reference reader and whose margin is finite.
    Everything else is left (`answer` returns None) to the general path, which reports errors.

A `OneRow` belongs to one thread.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

import numpy as np

from riata.native.library import core, struct
from riata.native.reading import records_struct, rules_struct, sink_struct
from riata.wire.codes import OK
from riata.wire.padded_buffer import FRONT, room_of
from riata.wire.parse import Context, make_rules
from riata.wire.readers.json.reader import READER
from riata.wire.rows import make_row, make_sink, row_capacity

ROW_READER: Final = READER  # the format of a single row
BYTES_MAX: Final = 16 * 2**10  # of the row; for longer rows the overhead of the general path is relatively small
NGRAMS_MAX: Final = 3
RowAnswer = tuple[float, float, float, int, int]  # margin, probability, label, known and unknown features
_ANSWER: Final = Struct("=dddqq")


class Plan:
    """What the call needs to know about one version of a linear model. Any thread may use it."""

    __slots__ = ("rules", "weights")

    def __init__(self, weights: Any, context: Context) -> None:
        """
        weights : the `riata_weights` of the model
        context : the one that rows are parsed with
        """
        self.rules = rules_struct(make_rules(context, labelled=False))
        self.weights = weights


class OneRow:
    """The memory of one thread, into which rows are copied."""

    def __init__(self) -> None:
        room = np.zeros(FRONT + room_of(BYTES_MAX), np.uint8)[FRONT:]
        self._bytes = memoryview(room.data)
        self._text = struct("riata_text", source=room, data=room, room=len(room))
        self._records = records_struct(make_row(row_capacity(BYTES_MAX, NGRAMS_MAX)))
        self._sink = sink_struct(make_sink(BYTES_MAX, 1, NGRAMS_MAX))
        self._answer = struct("riata_answer")
        self._at = tuple(found._as_parameter_ for found in (self._text, self._records, self._sink))

    def answer(self, plan: Plan, row: bytes, json: bool) -> RowAnswer | None:
        """Predict a JSON object or a query; None if the general path has to handle it.

        The result contains no standard error: models that have standard errors have no plan.
        """
        length = len(row)
        if length > BYTES_MAX:
            return None
        self._bytes[:length] = row
        self._text.size = length
        if core.answer_row(*self._at, plan.rules, plan.weights, json, self._answer) != OK:
            return None
        found: RowAnswer = _ANSWER.unpack(self._answer)
        return found
