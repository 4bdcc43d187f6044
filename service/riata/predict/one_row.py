"""Fast path for predicting one row: from its bytes to its answer in one compiled call.

Theory of operation
    For one row, `wire.parse.parse_examples` (or `parse_query`) and `Model.score` do a few microseconds of work in tens
    of calls. Passing some twenty arrays to their kernels costs more than the work. So one kernel here calls theirs, on arrays in
    one block of memory that is reused for every row. The result is identical to theirs, to the last bit: the same kernels parse,
    sum and score.

    Only common rows are handled: one JSON object, or a query, that needs no reference reader and whose margin is finite.
    Everything else is left (`answer` returns None) to the general path, which reports errors.

A `OneRow` belongs to one thread.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from riata.base.arrays import I64, U32
from riata.jit.kernel import inline_kernel, quick_kernel
from riata.jit.raw.address import array_at
from riata.jit.simd.rank import RANKED_MAX
from riata.learn.learner import Weights
from riata.maths.dot import margins
from riata.maths.links import LOGISTIC, answers
from riata.predict.query import join_lists, query_records
from riata.wire.codes import DUPLICATE_KEY, OK, SYNTAX
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, make_rules
from riata.wire.readers.json.body import read_json
from riata.wire.readers.json.grammar import OPEN_OBJECT, skip_space
from riata.wire.readers.json.reader import READER
from riata.wire.rows import (
    FEATURES,
    FOUND,
    MARKS_MAX,
    OWED,
    PARTS_MAX,
    PLACES,
    ROWS,
    BatchBuilder,
    RecordScratch,
    Rules,
)  # fmt: skip
from riata.wire.scan.assemble import finish_row
from riata.wire.scan.delimiters import Text, room_of

ROW_READER: Final = READER  # the format of a single row
BYTES_MAX: Final = 16 * 2**10  # of the row; for longer rows the overhead of the general path is relatively small
NGRAMS_MAX: Final = 3
RECORDS: Final = NGRAMS_MAX * (BYTES_MAX // 2) + 4  # `row_capacity` of such a row
POSITIONS: Final = BYTES_MAX + 128  # delimiters of such a row, and the spare entries that wire.scan.delimiters needs after them
FRONT: Final = 64  # bytes before the block, since the reader needs some; a cache line
DATA_BYTES: Final = room_of(BYTES_MAX)
RowAnswer = tuple[float, float, float, int, int]  # margin, probability, label, known and unknown features
LEFT: Final = (0.0, 0.0, 0.0, -1, 0)
# Words of a `Plan`; after them the hashes of the text fields and of the crossed fields, and the crosses.
KEY_WORD, LABELS, L2, NGRAMS, TEXTS, BITS, LINK, NEGATIVE, NON_ZEROS, BUCKETS = range(10)
SLOT_AT, BETA_AT, BUCKET_AT, INTERCEPT, WORDS, FIELDS, CROSSES, CROSS_SCALE = range(10, 18)
PLAN_SCALARS: Final = 18
_KNOWN_FEATURES: Final = 3  # of a RowAnswer
_NEWLINE: Final = 0x0A
_LISTED_MAX: Final = 1024  # records of a query with lists

# Byte offset of each array in the block; each is a multiple of a cache line.
_SIZES: Final = (
    DATA_BYTES,
    *(8 * RECORDS, 8 * RECORDS, RECORDS, 32 * RECORDS, 8 * RECORDS, 8 * RECORDS, 8 * MARKS_MAX),  # RecordScratch
    *(8 * 2, 4 * POSITIONS, 8 * OWED, 4 * (RANKED_MAX // 2), 4 * RANKED_MAX),  # the rest of RecordScratch
    *(4 * RECORDS, 8 * RECORDS, 8 * 3, 8 * 1, 8 * PLACES, 8 * 1, 8 * 1),  # BatchBuilder, without the names found: unused
    *(8 * 2, 8 * 2, 8 * 1, 8 * 1, 8 * 1, 8 * 1),  # ends, row pointers, margin, known, probability, label
)
_AT: Final = tuple(sum(-(-size // 64) * 64 for size in _SIZES[:i]) for i in range(len(_SIZES) + 1))
(_DATA, _FINGERPRINT, _VALUE, _KIND, _SPAN, _ORDER, _BUCKET, _MARK, _PAIR, _POSITION, _OWED, _KEYS, _RANKS,
 _HASH, _SUM, _COUNT, _CODE, _PLACE, _LABEL, _WEIGHT,
 _ENDS, _POINTERS, _MARGIN, _KNOWN, _PROBABILITY, _ANSWER, BLOCK_BYTES) = _AT  # fmt: skip


@inline_kernel
def row_in(block_at: int) -> RecordScratch:
    """The scratch arrays of one row, in the block. Source: wire.rows, `make_row`."""
    return RecordScratch(
        array_at(block_at + _FINGERPRINT, (RECORDS,), np.uint64),
        array_at(block_at + _VALUE, (RECORDS,), np.float64),
        array_at(block_at + _KIND, (RECORDS,), np.uint8),
        array_at(block_at + _SPAN, (RECORDS, 4), np.int64),
        array_at(block_at + _ORDER, (RECORDS,), np.uint64),
        array_at(block_at + _BUCKET, (RECORDS,), np.uint64),
        array_at(block_at + _MARK, (MARKS_MAX,), np.int64),
        array_at(block_at + _PAIR, (2,), np.float64),
        array_at(block_at + _POSITION, (POSITIONS,), np.uint32),
        array_at(block_at, (0,), np.uint32),
        array_at(block_at + _OWED, (OWED,), np.int64),
        array_at(block_at + _KEYS, (RANKED_MAX // 2,), np.uint32),
        array_at(block_at + _RANKS, (RANKED_MAX,), np.uint32),
    )


@inline_kernel
def sink_in(block_at: int) -> BatchBuilder:
    """An empty batch builder for one row, in the block. Source: wire.rows, `make_sink`."""
    sink = BatchBuilder(
        array_at(block_at + _HASH, (RECORDS,), np.uint32),
        array_at(block_at + _SUM, (RECORDS,), np.float64),
        array_at(block_at + _COUNT, (3,), np.int64),
        array_at(block_at, (0,), np.uint64),
        array_at(block_at, (0,), np.float64),
        array_at(block_at, (0,), np.int64),
        array_at(block_at, (0,), np.uint8),
        array_at(block_at, (0, 4), np.int64),
        array_at(block_at, (0,), np.uint32),
        array_at(block_at + _CODE, (1,), np.int64),
        array_at(block_at + _PLACE, (1, PLACES), np.int64),
        array_at(block_at + _LABEL, (1,), np.float64),
        array_at(block_at + _WEIGHT, (1,), np.float64),
    )
    sink.count[FEATURES], sink.count[FOUND], sink.count[ROWS] = 0, 0, 0
    sink.code[0] = OK
    return sink


@inline_kernel
def rules_in(plan: I64, plan_at: int) -> Rules:
    """The rules for reading a row without a label. Source: wire.parse, `make_rules`."""
    key = array_at(plan_at, (PLAN_SCALARS,), np.uint64)[KEY_WORD]
    texts = array_at(plan_at + 8 * PLAN_SCALARS, (plan[TEXTS],), np.uint64)
    fields_at = plan_at + 8 * (PLAN_SCALARS + plan[TEXTS])
    fields = array_at(fields_at, (plan[FIELDS],), np.uint64)
    crosses = array_at(fields_at + 8 * plan[FIELDS], (plan[CROSSES], PARTS_MAX), np.int64)
    nothing = array_at(plan_at, (0,), np.uint64)
    cross_scale = array_at(plan_at, (PLAN_SCALARS,), np.float64)[CROSS_SCALE]
    return Rules(key, plan[LABELS], 0, plan[L2], plan[NGRAMS], plan[WORDS], texts, nothing, fields, crosses, cross_scale)


@inline_kernel
def finish_query(row: RecordScratch, n: int, sink: BatchBuilder, rules: Rules) -> int:
    """Make the n records of a query the features of row 0: OK, or why not. Source: wire.scan.assemble."""
    code = OK if n >= 0 else SYNTAX
    if code == OK:
        code, _ = finish_row(row, n, sink, rules, 0)
    if code == DUPLICATE_KEY and n <= _LISTED_MAX and join_lists(row, n):
        code, _ = finish_row(row, n, sink, rules, 0)
    return code


@quick_kernel
def answer_row(block_at: int, length: int, json: bool, plan_at: int) -> RowAnswer:
    """Predict the row in the first `length` bytes of the block. Arrays are passed by address (`jit.raw.address`).

    Parameters
    ----------
    block_at : int           address of u8[BLOCK_BYTES], which is overwritten except for the row
    length : int             of the row in bytes, at most BYTES_MAX
    json : bool              whether it is JSON; otherwise a query
    plan_at : int            address of the words of a `Plan`; read only, as are the weights they refer to

    Returns                  margin, probability, label, known features, unknown features; LEFT for the general path
    Cost                     that of `read_json`, `margins` and `answers`
    Source                   this module's theory of operation
    """
    plan = array_at(plan_at, (PLAN_SCALARS,), np.int64)
    data = array_at(block_at + _DATA, (DATA_BYTES,), np.uint8)
    row, sink, rules = row_in(block_at), sink_in(block_at), rules_in(plan, plan_at)
    data[length] = _NEWLINE
    if json:
        text = Text(block_at, length, data, array_at(block_at + _ENDS, (2,), np.int64))
        begin = skip_space(data, 0, length)
        if begin == length or data[begin] != OPEN_OBJECT:
            return LEFT
        labelled = not json  # false; numba would compile the whole reader once more for a literal, which takes it 20 s
        if read_json(text, row, sink, rules, labelled) != OK or sink.count[ROWS] != 1 or sink.code[0] != OK:
            return LEFT
    else:
        n = query_records(data, length, row, rules)
        if finish_query(row, n, sink, rules) != OK:
            return LEFT
    pointers = array_at(block_at + _POINTERS, (2,), np.int64)
    pointers[0], pointers[1] = 0, sink.count[FEATURES]
    margin, known = array_at(block_at + _MARGIN, (1,), np.float64), array_at(block_at + _KNOWN, (1,), np.int64)
    slot = array_at(plan[SLOT_AT], (plan[NON_ZEROS],), np.uint32)
    beta = array_at(plan[BETA_AT], (plan[NON_ZEROS],), np.float64)
    bucket = array_at(plan[BUCKET_AT], (plan[BUCKETS],), np.uint32)
    intercept = array_at(plan_at, (PLAN_SCALARS,), np.float64)[INTERCEPT]
    margins(pointers, sink.hash, sink.value, slot, beta, bucket, plan[BITS], intercept, margin, known)
    if not math.isfinite(margin[0]):
        return LEFT
    probability, label = array_at(block_at + _PROBABILITY, (1,), np.float64), array_at(block_at + _ANSWER, (1,), np.float64)
    answers(margin, plan[LINK], -1.0 if plan[NEGATIVE] else 0.0, probability, label)
    return margin[0], probability[0], label[0], known[0], pointers[1] - known[0]


class Plan:
    """What the kernel needs about one version of a linear model, as one array of words. Any thread may use it."""

    __slots__ = ("_kept", "at", "words")

    def __init__(self, weights: Weights, bucket: U32, link: int, context: Context) -> None:
        """
        weights, bucket : those of the model; their arrays must not be changed
        link            : a code of `maths.links`
        context         : the one that rows are parsed with
        """
        rules = make_rules(context, labelled=False)
        after = (rules.text.view(np.int64), rules.fields.view(np.int64), rules.crosses.ravel())
        words = np.concatenate((np.zeros(PLAN_SCALARS, np.int64), *after))
        words[KEY_WORD] = rules.key.astype(np.int64)
        words[LABELS], words[L2], words[NGRAMS], words[TEXTS] = rules.labels, rules.l2, rules.ngrams, len(rules.text)
        words[WORDS], words[FIELDS], words[CROSSES] = rules.words, len(rules.fields), len(rules.crosses)
        words[BITS], words[LINK], words[NEGATIVE] = weights.bits, link, int(context.labels == "-1/+1")
        words[NON_ZEROS], words[BUCKETS] = len(weights.slot), len(bucket)
        words[SLOT_AT], words[BETA_AT], words[BUCKET_AT] = (address_of(array) for array in (weights.slot, weights.beta, bucket))
        words.view(np.float64)[[INTERCEPT, CROSS_SCALE]] = weights.intercept, rules.cross_scale
        self.words = words
        self._kept = (weights, bucket)  # the words hold the addresses of their arrays
        self.at = address_of(words)


def address_of(array: np.ndarray[Any, Any]) -> int:
    """The address of an array. Raises `ValueError` if it is not contiguous or not aligned."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ValueError("an array that is read by its address has to be contiguous and aligned")
    return int(array.ctypes.data)


class OneRow:
    """The block of memory of one thread, and the view through which rows are copied into it."""

    def __init__(self) -> None:
        self._block = np.zeros(FRONT + BLOCK_BYTES, np.uint8)[FRONT:]
        self._bytes = memoryview(self._block.data)
        self.at = address_of(self._block)

    def answer(self, plan: Plan, row: bytes, json: bool) -> RowAnswer | None:
        """Predict a JSON object or a query; None if the general path has to handle it.

        The result contains no standard error: models that have standard errors have no plan.
        """
        length = len(row)
        if length > BYTES_MAX:
            return None
        self._bytes[:length] = row
        found = answer_row(self.at, length, json, plan.at)
        return found if found[_KNOWN_FEATURES] >= 0 else None


def warm_up() -> None:
    """Compile the kernels of this module, or load them from disk."""
    nothing = Weights(np.zeros(0, np.uint32), np.zeros(0), 0.0, "logistic", 1)
    plan = Plan(nothing, np.zeros(2, np.uint32), LOGISTIC, Context(EncoderConfig(bits=1)))
    for row, json in ((b'{"features":{"a":1}}', True), (b"a=1&b=c", False)):
        OneRow().answer(plan, row, json)
