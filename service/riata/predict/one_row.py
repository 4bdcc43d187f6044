"""One row to predict, from its bytes to its answer in one compiled call.

Theory of operation
    What `wire.parse.parse_examples`, or `parse_query`, and `predict.scoring.score` do for a row is a few microseconds of work in
    tens of calls, and handing over some twenty arrays costs more than the work. So their kernels are called from another one
    here, on arrays that are cut out of one block of memory, which is used again for every row. What comes out is what they
    give, to the last bit: nothing is parsed, summed or scored anywhere else.

    Only the usual is taken: one JSON object, or a query in plain characters, that is accepted without a slow lane, and a margin
    that is finite. Everything else is left (`answer` returns None) to the general way, which says what is wrong with it.

A `OneRow` belongs to one thread.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U8, U32, U64
from riata.base.limits import NAME_BYTES_MAX
from riata.maths.borrow import borrow
from riata.maths.dot import margins
from riata.maths.hashing import FIELD_EQUALS, NUMBER, hash_name
from riata.maths.kernel import inline_kernel, kernel
from riata.maths.links import answers
from riata.predict.model import Model, Origin, empty_model
from riata.wire.codes import OK
from riata.wire.encoder import EncoderConfig
from riata.wire.finish import finish_row
from riata.wire.json_scan import OPEN_OBJECT, skip_space
from riata.wire.json_text import read_json
from riata.wire.numbers import EXACT, NOT_A_NUMBER, parse_number
from riata.wire.parse import Context, make_rules
from riata.wire.rows import EQUALS, FEATURES, GHOST, KEY, MARKS_MAX, PLACES, PLAIN, ROWS, Row, Rules, Sink
from riata.wire.sorting import RANKED_MAX

BYTES_MAX: Final = 16 * 2**10  # of the row; longer ones take so long that the general way costs them little more
NGRAMS_MAX: Final = 3
RECORDS: Final = NGRAMS_MAX * (BYTES_MAX // 2) + 4  # `row_capacity` of such a row
POSITIONS: Final = BYTES_MAX + 128  # delimiters of such a row, and the room that wire.marks wants behind them
DATA_BYTES: Final = 2 * (BYTES_MAX + 64)  # the row, its newline, and the side area of `wire.json_text` behind it
LEFT: Final = (False, 0.0, 0.0, 0.0, 0, 0)
PLAN_SCALARS: Final = 7  # of a plan: see `plan_of`
_NEWLINE: Final = 0x0A
_AMPERSAND, _EQUALS, _PERCENT, _PLUS, _UNDERSCORE, _FIRST, _LAST = 0x26, 0x3D, 0x25, 0x2B, 0x5F, 0x21, 0x7E

# Where each array begins in the block, in bytes; every one at a multiple of a cache line.
_SIZES: Final = (
    DATA_BYTES,
    *(8 * RECORDS, 8 * RECORDS, RECORDS, 32 * RECORDS, 8 * RECORDS, 8 * RECORDS, 8 * MARKS_MAX),  # Row
    *(8 * 2, 4 * POSITIONS, 4 * RANKED_MAX, 4 * RANKED_MAX),  # what is left of it
    *(4 * RECORDS, 8 * RECORDS, 8 * 3, 8 * 1, 8 * PLACES, 8 * 1, 8 * 1),  # Sink, but for the names found, which nobody asks for
    *(8 * 2, 8 * 2, 8 * 1, 8 * 1, 8 * 1, 8 * 1),  # ends, row pointers, margin, known, probability, label
)
_AT: Final = tuple(sum(-(-size // 64) * 64 for size in _SIZES[:i]) for i in range(len(_SIZES) + 1))
(_DATA, _FINGERPRINT, _VALUE, _KIND, _SPAN, _ORDER, _BUCKET, _MARK, _PAIR, _POSITION, _RANKED, _RANK,
 _HASH, _SUM, _COUNT, _CODE, _PLACE, _LABEL, _WEIGHT,
 _ENDS, _POINTERS, _MARGIN, _KNOWN, _PROBABILITY, _ANSWER, BLOCK_BYTES) = _AT  # fmt: skip


@inline_kernel
def whole(block: U8, at: int, count: int) -> I64:
    """`count` integers of the block. Source: this module's theory of operation."""
    return block[at : at + 8 * count].view(np.int64)


@inline_kernel
def real(block: U8, at: int, count: int) -> F64:
    """`count` doubles of the block. Source: this module's theory of operation."""
    return block[at : at + 8 * count].view(np.float64)


@inline_kernel
def mixed(block: U8, at: int, count: int) -> U64:
    """`count` words of the block. Source: this module's theory of operation."""
    return block[at : at + 8 * count].view(np.uint64)


@inline_kernel
def row_in(block: U8) -> Row:
    """The scratch of a row. Source: wire.rows, `make_row`."""
    return Row(
        mixed(block, _FINGERPRINT, RECORDS),
        real(block, _VALUE, RECORDS),
        block[_KIND : _KIND + RECORDS],
        whole(block, _SPAN, 4 * RECORDS).reshape((RECORDS, 4)),
        mixed(block, _ORDER, RECORDS),
        mixed(block, _BUCKET, RECORDS),
        whole(block, _MARK, MARKS_MAX),
        real(block, _PAIR, 2),
        block[_POSITION : _POSITION + 4 * POSITIONS].view(np.uint32),
        block[_RANKED : _RANKED + 4 * RANKED_MAX].view(np.uint32),
        block[_RANK : _RANK + 4 * RANKED_MAX].view(np.uint32),
    )


@inline_kernel
def sink_in(block: U8) -> Sink:
    """An empty sink for one row. Source: wire.rows, `make_sink`."""
    sink = Sink(
        block[_HASH : _HASH + 4 * RECORDS].view(np.uint32),
        real(block, _SUM, RECORDS),
        whole(block, _COUNT, 3),
        mixed(block, _FINGERPRINT, 0),
        real(block, _VALUE, 0),
        whole(block, _SPAN, 0),
        block[_KIND:_KIND],
        whole(block, _SPAN, 0).reshape((0, 4)),
        whole(block, _CODE, 1),
        whole(block, _PLACE, PLACES).reshape((1, PLACES)),
        real(block, _LABEL, 1),
        real(block, _WEIGHT, 1),
    )
    sink.count[:] = 0
    sink.code[:] = OK
    return sink


@inline_kernel
def rules_in(plan: I64) -> Rules:
    """How to read a row to be predicted. Source: wire.parse, `make_rules`."""
    words = plan.view(np.uint64)
    return Rules(words[0], plan[1], 0, plan[2], plan[3], words[PLAN_SCALARS:], words[0:0])


@inline_kernel
def is_plain(c: int) -> bool:
    """Whether a byte of a query stands for itself. Source: the encoding of forms in the URL standard."""
    return _FIRST <= c <= _LAST and c != _PERCENT and c != _PLUS and c != _AMPERSAND


@kernel
def query_records(data: U8, stop: int, row: Row, rules: Rules) -> int:
    """Read a query `name=value&...` in plain characters into records.

    Parameters
    ----------
    data : u8[...]     the query begins it; read only
    stop : int         its bytes
    row : Row          records are written from 0
    rules : Rules

    Returns            records, or -1 where something is left to `wire.parse.parse_query`: an encoded character, a name that is
                       none or begins with `_`, a text, an empty value, a long name, a number next to a tie
    Cost               two looks at each byte, one hash for each value
    Source             the HTTP contract; wire.strict_json, `feature_records`
    """
    fingerprints, values, kinds = row.fingerprint, row.value, row.kind
    n, p = 0, 0
    while p < stop:
        start = p
        while p < stop and data[p] != _EQUALS and is_plain(data[p]):
            p += 1
        middle = p
        p += 1
        while p < stop and is_plain(data[p]):
            p += 1
        if p < stop and data[p] != _AMPERSAND:
            return -1
        if middle == start or data[middle] != _EQUALS or p <= middle + 1 or data[start] == _UNDERSCORE:
            return -1
        if middle - start > NAME_BYTES_MAX or p - middle - 1 > NAME_BYTES_MAX or n + 2 > len(values):
            return -1
        fingerprints[n], values[n], kinds[n] = hash_name(data, start, middle, rules.key, NUMBER), 0.0, PLAIN | KEY
        value, status = parse_number(data, middle + 1, p, True)
        if status == EXACT:
            values[n] = value
        elif status != NOT_A_NUMBER or len(rules.text) > 0:
            return -1
        else:
            kinds[n] |= GHOST
            n += 1
            field = hash_name(data, start, middle, rules.key, FIELD_EQUALS)
            fingerprints[n], values[n], kinds[n] = hash_name(data, middle + 1, p, field, NUMBER), 1.0, EQUALS
        n += 1
        p += 1
    return n


@kernel
def answer_row(
    block: U8, length: int, json: bool, plan: I64, slot: U32, beta: F64, bucket: U32, intercept: float
) -> tuple[bool, float, float, float, int, int]:
    """Answer the row in the first `length` bytes of the block.

    Parameters
    ----------
    block : u8[BLOCK_BYTES]  overwritten but for the row
    length : int             at most BYTES_MAX
    json : bool              whether it is JSON, in ASCII; else a query
    plan : i64[PLAN_SCALARS + f]  see `plan_of`
    slot, beta, bucket, intercept : of the model, as for `margins`; read only

    Returns                  (taken, margin, probability, label, known features, features); of no meaning where not taken
    Cost                     that of `read_json`, `margins` and `answers`
    Source                   this module's theory of operation
    """
    block = borrow(block)
    plan = borrow(plan)
    data, row, sink, rules = block[:DATA_BYTES], row_in(block), sink_in(block), rules_in(plan)
    data[length] = _NEWLINE
    if json:
        ends = whole(block, _ENDS, 2)
        ends[0], ends[1] = 0, length + 1
        begin = skip_space(data, 0, length)
        if begin == length or data[begin] != OPEN_OBJECT:
            return LEFT
        if read_json(data, ends, row, sink, rules) != OK or sink.count[ROWS] != 1 or sink.code[0] != OK:
            return LEFT
    else:
        n = query_records(data, length, row, rules)
        if n < 0 or finish_row(row, n, sink, rules, 0)[0] != OK:
            return LEFT
    pointers, margin, known = whole(block, _POINTERS, 2), real(block, _MARGIN, 1), whole(block, _KNOWN, 1)
    pointers[0], pointers[1] = 0, sink.count[FEATURES]
    margins(pointers, sink.hash, sink.value, slot, beta, bucket, plan[4], intercept, margin, known)
    if not math.isfinite(margin[0]):
        return LEFT
    probability, label = real(block, _PROBABILITY, 1), real(block, _ANSWER, 1)
    answers(margin, plan[5], -1.0 if plan[6] else 0.0, probability, label)
    return True, margin[0], probability[0], label[0], known[0], pointers[1]


class RowAnswer(NamedTuple):
    """As `scoring.Scores`, for one row. The standard error is NaN: models that know it are not asked here."""

    margin: float
    probability: float
    label: float
    known: int
    unknown: int


def plan_of(model: Model, context: Context) -> I64:
    """Write what the kernel needs to know about a model, and all versions of it with the same configuration, as one array: hash
    key, labels, l2, ngrams, bits, link, whether the negative class is written -1, the hashes of the fields that are texts."""
    rules = make_rules(context, labelled=False)
    negative = int(model.origin.labels == "-1/+1")
    scalars = [int(rules.key), rules.labels, rules.l2, rules.ngrams, model.weights.bits, model.link_code, negative]
    return np.array([*scalars, *rules.text.tolist()], np.uint64).view(np.int64)


class OneRow:
    """The block of one thread, and a view of it through which rows come in."""

    def __init__(self) -> None:
        self._block = np.zeros(BLOCK_BYTES, np.uint8)
        self._bytes = memoryview(self._block.data)

    def answer(self, model: Model, plan: I64, row: bytes, json: bool) -> RowAnswer | None:
        """Answer a JSON object, or a query; None where the general way has to look at it."""
        length = len(row)
        if length > BYTES_MAX or model.uncertainty is not None or not row.isascii():
            return None
        self._bytes[:length] = row
        weights = model.weights
        taken, margin, probability, label, known, features = answer_row(
            self._block, length, json, plan, weights.slot, weights.beta, model.bucket, weights.intercept
        )
        return RowAnswer(margin, probability, label, known, features - known) if taken else None


def warm_up() -> None:
    """Compile what is needed here, or load it from disk."""
    context = Context(EncoderConfig(bits=1))
    model = empty_model(Origin("warm-up", bytes(16), "", "0/1"), "logistic", 1, 0)
    plan = plan_of(model, context)
    for row, json in ((b'{"features":{"a":1}}', True), (b"a=1&b=c", False)):
        OneRow().answer(model, plan, row, json)
