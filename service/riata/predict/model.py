"""The `Model` protocol: what a learner knew after one event of the log, ready to be asked by any thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, Literal, Protocol

import numpy as np

from riata.base.arrays import BOOL, F64, I64, Arrays
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.learner import Weights
from riata.native.library import copy_struct, core, struct
from riata.predict.explain import Explanation
from riata.wire.batch import Batch
from riata.wire.codes import OK
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, make_rules
from riata.wire.rows import make_row, make_sink, row_capacity
from riata.wire.workspace import FRONT, room_of

# Fast path for predicting one row: from its bytes to its answer in one native call.
#
# Theory of operation
#     For one row, `wire.parse.parse_examples` (or `parse_query`) and `Model.score` do a few microseconds of work in tens
#     of calls. `riata_answer_row` does it in one, on memory that is reused for every row. The result is identical to theirs, to
#     the last bit.
#
#     Only common rows are handled: one JSON object, or a query, that needs no reference reader and whose margin is finite.
#     Everything else is left (`answer` returns None) to the general path, which reports errors.
#
# A `OneRow` belongs to one thread.

BYTES_MAX: Final = 16 * 2**10  # of the row; for longer rows the overhead of the general path is relatively small
NGRAMS_MAX: Final = 3
_RULES_KEPT: Final = 64
RowAnswer = tuple[float, float, float, int, int]  # margin, probability, label, known and unknown features
_ANSWER: Final = Struct("=dddqq")


class Plan:
    """What the call needs to know about one version of a linear model. Any thread may use it."""

    __slots__ = ("rules", "weights")

    def __init__(self, weights: Any, encoder: EncoderConfig, labels: Labels) -> None:
        """
        weights : the `riata_weights` of the model
        encoder, labels : of the context that rows are parsed with
        """
        self.rules = copy_struct(_rules(encoder, labels))  # its own: kinds of fields are set later, and are of one model
        self.weights = weights


@lru_cache(_RULES_KEPT)
def _rules(encoder: EncoderConfig, labels: Labels) -> Any:
    """The `riata_rules` of rows without a label, before fields have kinds. Never changed."""
    return make_rules(Context(encoder, labels), labelled=False).native


class OneRow:
    """The memory of one thread, into which rows are copied."""

    def __init__(self) -> None:
        room = np.zeros(FRONT + room_of(BYTES_MAX), np.uint8)[FRONT:]
        self._bytes = memoryview(room.data)
        self._text = struct("riata_text", source=room, data=room, room=len(room))
        self._records = make_row(row_capacity(BYTES_MAX, NGRAMS_MAX)).native
        self._sink = make_sink(BYTES_MAX, 1, NGRAMS_MAX).native
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


Labels = Literal["0/1", "-1/+1", "real", "classes"]


@frozen_dataclass(frozen=True, slots=True)
class Origin:
    """What stays the same from one version of a model to the next. lineage : 16 bytes drawn when the model was created."""

    name: str
    lineage: bytes
    encoder: EncoderConfig
    labels: Labels


OUTSIDE_SPAN: Final = "a feature, or a combination of features, did not occur in the rows that were learnt"


@frozen_dataclass(frozen=True, slots=True)
class Scores:
    """Answers to the n rows of a batch.

    margin      : f64[n]  finite; bitwise equal to that of the learner after the same event
    probability : f64[n]  of the positive class; NaN if the link has none (hinge, real labels)
    label       : f64[n]  as the client writes labels: 1 if the probability is above 1/2 (hinge: the margin above 0),
                          otherwise 0 or -1; the margin itself for real labels
    known       : i64[n]  features that have a weight or a shape in the model
    unknown     : i64[n]  features that have none: never seen, or with weight zero
    std_error   : f64[n]  of the margin, approximate (see `predict/uncertainty.py`); NaN if it is unknown
    outside     : bool[n]  rows without a standard error because they are outside the span of those learnt; None if none is
    by_class    : f64[n, k]  of several classes: the probabilities of each, which sum to one. `label` is then the number of the
                          class of the largest margin, NaN without a class; the rest is of that class. None: there is one margin
    """

    margin: F64
    probability: F64
    label: F64
    known: I64
    unknown: I64
    std_error: F64
    by_class: F64 | None = None
    outside: BOOL | None = None


class Model(Protocol):
    """One version of a model. `predict.factory` makes all models; nothing else names an implementation.

    An implementation owes:

    - It is immutable, and any thread may ask it. No answer depends on the clock, on chance or on earlier questions.
    - A row gets the same bits alone, in any batch, by `plan`, and after `parts` and `factory.read_model` in another process.
    - The parts of an explanation, added in their order, are exactly the margin.
    - Where nothing was learnt (`seq` is 0) every row gets the prior: probability 1/2 if the link has one.
    """

    @property
    def origin(self) -> Origin:
        """What it shares with other versions."""
        ...

    @property
    def gen(self) -> int:
        """The newest durable generation when it was made; 0 for none."""
        ...

    @property
    def seq(self) -> int:
        """It has learnt events 1..seq; 0 if nothing was learnt."""
        ...

    @property
    def weights(self) -> Weights:
        """Its link, how it maps hashes to slots, and what it adds up: the weights that are listed and exported. A model that is
        not linear gives those of its linear part."""
        ...

    @property
    def plan(self) -> Plan | None:
        """What `predict.model` needs to answer common rows; None if `score` has to answer every row."""
        ...

    def score(self, batch: Batch) -> Scores:
        """Score every row. Never fails on a validated batch."""
        ...

    def explain(self, named_row: Sequence[tuple[int, float, str]], shared: Callable[[int, int], list[str]]) -> Explanation:
        """Split the margin of one row; the arguments are those of `predict.explain.explain`."""
        ...

    def weight_errors(self) -> F64:
        """Return the standard error of each of `weights`; NaN if it is unknown."""
        ...

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        ...

    def parts(self) -> tuple[Arrays, str]:
        """Return the arrays from which `factory.read_model` makes it again, and why they lack standard errors that it has; empty
        if they do not."""
        ...
