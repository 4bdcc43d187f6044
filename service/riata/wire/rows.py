"""From the records of one row to sorted, summed, bounded features: shared by every format the wire reads.

Theory of operation
    A reader (JSON, VW, svmlight) walks the bytes of one row and leaves one record per value in `RecordScratch`: the 64-bit
    fingerprint of the name, the value as written, what kind of name it is, and where its bytes are. `finish_row` then

        1  orders the records by feature hash (the top 32 bits), equal hashes in the order they came
        2  sums equal hashes, in that order; refuses a JSON key that came twice, and a sum beyond VALUE_ABS_MAX
        3  drops sums that are zero or subnormal
        4  divides by the row's 2-norm where the encoder asks for it
        5  appends to `BatchBuilder`, and lists there the names that are not in the table of names seen

    Nothing of a row reaches `BatchBuilder` before the row is known to be good, so a refused row leaves no trace.

    A line reader offers two functions, which `wire.parse` calls:

        read_FORMAT(text: Text, row: RecordScratch, sink: BatchBuilder, rules: Rules) -> int
            a kernel over the whole body, which it takes in part by part (`delimiters.take_in`). Sets sink.code, place, label,
            weight for every row and count[ROWS]; calls `finish_row` for good ones. It begins with  row, sink, rules =
            borrow_row(row), …, which takes reference counting out of the loops (three times faster). Returns OK, or
            TOO_MANY_FEATURES or TOO_MANY_ROWS, which end the reading.
        slow_FORMAT(line: bytes, rules: Rules) -> SlowRow | Refusal
            the same line in plain Python, for rows whose code the kernel left at HANDOVER.

    Orders are sorted as (hash << 32 | position): all different, so no sort has to be stable (`wire.sorting`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import F64, I64, U8, U32, U64, T, aligned
from riata.base.limits import FEATURES_PER_REQUEST_MAX, FEATURES_PER_ROW_MAX
from riata.jit.kernel import inline_kernel
from riata.jit.raw.unowned import borrow
from riata.jit.simd.rank import RANKED_MAX
from riata.wire.sorting import BUCKET_KEYS, BUCKETS_MAX

STARTS_MAX: Final = max(BUCKETS_MAX, RANKED_MAX)
RECORDS_PER_ROW_MAX: Final = 32 * FEATURES_PER_ROW_MAX  # before summing: words of a text repeat

LISTED_PLACES: Final = 2**14  # few enough for the second cache, and enough for the names that come again and again

MARKS_MAX: Final = 9
OWED: Final = 3
_POSITIONS_MAX: Final = 2**18  # of delimiters; a row with more is read without
_POSITIONS_SPARE: Final = 128
_LINE_BYTES: Final = 64
_PAGE_BYTES: Final = 4096
_APART: Final = 17  # cache lines; any number that takes four arrays to different parts of a page

# Kinds of record. The low two bits say how the name is shown, as the tags of the feature hash do.
PLAIN: Final = 0  # name
EQUALS: Final = 1  # prefix=name
WORD: Final = 2  # prefix:name
NAMESPACE: Final = 3  # prefix^name
KEY: Final = 4  # a JSON key: its fingerprint must not come twice among records of this kind
SHADOWED: Final = 8  # no feature, value 0: there only so that a key of a string, list or null is seen

# Places in Sink.count
FEATURES: Final = 0
FOUND: Final = 1
ROWS: Final = 2

# Columns of Sink.place
ROW_START: Final = 0
ROW_STOP: Final = 1
AT: Final = 2  # where reading stopped, for the sentence about a syntax error
FIELD_START: Final = 3  # the name that is to blame; start == stop where there is none
FIELD_STOP: Final = 4
ID_START: Final = 5  # the event id; start == stop where there is none
ID_STOP: Final = 6
BEGIN: Final = 7  # first feature in Sink.hash; only where the row was accepted
END: Final = 8
IN_FEATURES: Final = 9  # 1 where the field to blame is a key of a JSON "features" object
PLACES: Final = 10


class RecordScratch(NamedTuple):
    """Records of the row being read; reused for every row. m = capacity, `row_capacity(body bytes, ngrams)`."""

    fingerprint: U64  # u64[m]
    value: F64  # f64[m] as written, not yet checked; may be infinite
    kind: U8  # u8[m]  PLAIN, EQUALS, WORD or NAMESPACE, with KEY and SHADOWED
    span: I64  # i64[m, 4] prefix start, prefix stop, name start, name stop in the body; start == stop: empty
    order: U64  # u64[m] scratch
    bucket: U64  # u64[m] scratch
    mark: I64  # i64[MARKS_MAX] small scratch of the reader, whose own module names its places
    pair: F64  # f64[2] label and weight of the row being read
    position: U32  # u32[...] delimiters of the row (wire.delimiters)
    named: U32  # u32[...] as long as `position`: where the names of words end (wire.tokens)
    owed: I64  # i64[OWED] records whose spans are to be had from tokens.settle, and their prefix
    keys: U32  # u32[BUCKETS_MAX * BUCKET_KEYS] keys of a short row, two in each; of a longer one hashes, in buckets
    starts: U32  # u32[STARTS_MAX] their ranks; or how many are in each bucket, and then where it begins


class BatchBuilder(NamedTuple):
    """What the whole body became. c = feature capacity, r = row capacity.

    A reader sets for its row number i: code[i], place[i], label[i], weight[i]; `count[ROWS]` is set when it ends.
    Rows are counted from 0 over the rows that are there; blank lines are no rows.
    """

    hash: U32  # u32[c]
    value: F64  # f64[c]
    count: I64  # type: ignore[assignment]  # i64[3]  FEATURES, FOUND, ROWS so far; nobody counts items of this tuple
    found_fingerprint: U64  # u64[c] one for each record whose name is not in Rules.seen; or not for all that repeat another's
    found_value: F64  # f64[c] its own value, after normalising
    found_row: I64  # i64[c]
    found_kind: U8  # u8[c]
    found_span: I64  # i64[c, 4]
    listed: U32  # u32[LISTED_PLACES] by the low bits of a fingerprint where it may be in found_fingerprint; never cleared
    code: I64  # i64[r]  OK, HANDOVER or why the row was refused (wire.codes)
    place: I64  # i64[r, PLACES]
    label: F64  # f64[r] NaN where there is none
    weight: F64  # f64[r]


class Rules(NamedTuple):
    """What the readers need to know about the model, as scalars and arrays that kernels take."""

    key: np.uint64  # the model's hash key
    labels: int  # 0: "0/1"   1: "-1/+1"   2: "real"
    labelled: int  # 1 where rows are to be learnt, 0 where they are to be predicted
    l2: int  # 1 where rows are divided by their 2-norm
    ngrams: int
    text: U64  # u64[fields] H(key, NUMBER, name) of the fields that are split into words
    seen: U64  # u64[2^k] table of names seen (wire.names); of length 0 where no names are wanted


def row_capacity(body_bytes: int, ngrams: int) -> int:
    """Records one row of such a body can have: a record takes at least two bytes, once for each length of n-gram."""
    return min(RECORDS_PER_ROW_MAX, ngrams * (body_bytes // 2) + 4)


def make_row(capacity: int) -> RecordScratch:
    """Allocate a `RecordScratch`; pages that are not reached are never touched."""
    positions = min(2 * capacity, _POSITIONS_MAX) + _POSITIONS_SPARE
    return RecordScratch(
        fingerprint=_in_page(0, capacity, np.uint64),
        value=_in_page(1, capacity, np.float64),
        kind=np.empty(capacity, np.uint8),
        span=np.empty((capacity, 4), np.int64),
        order=np.empty(capacity, np.uint64),
        bucket=np.empty(capacity, np.uint64),
        mark=np.zeros(MARKS_MAX, np.int64),
        pair=np.empty(2),
        position=_in_page(2, positions, np.uint32),
        named=_in_page(3, positions, np.uint32),
        owed=np.zeros(OWED, np.int64),
        keys=_on_lines(BUCKETS_MAX * BUCKET_KEYS),
        starts=_on_lines(STARTS_MAX),
    )


def _in_page(part: int, count: int, kind: type[T]) -> NDArray[T]:
    """So many elements, from one of four parts of a page on.

    What of a short row is read and written in whole registers is then on one page each. Registers that go beyond a short row, as
    those of `jit.simd.rank` do, would otherwise sometimes reach into a page that was never touched, and a masked access there
    costs hundreds of cycles for every row. The parts differ because a core at first takes equal places of two pages for one.
    """
    skipped = part * _APART * _LINE_BYTES // np.dtype(kind).itemsize
    spare = 2 * _PAGE_BYTES // np.dtype(kind).itemsize
    return aligned(np.empty(count + spare, kind), skipped + count, _PAGE_BYTES)[skipped:]


def _on_lines(count: int) -> U32:
    """So many numbers, from the beginning of a cache line on."""
    return aligned(np.empty(count + _LINE_BYTES // 4, np.uint32), count, _LINE_BYTES)


def make_sink(body_bytes: int, rows: int, ngrams: int) -> BatchBuilder:
    """Allocate a `BatchBuilder` for at most `rows` rows of a body of `body_bytes`."""
    c = min(FEATURES_PER_REQUEST_MAX, ngrams * (body_bytes // 2) + 4)
    return BatchBuilder(
        hash=np.empty(c, np.uint32),
        value=np.empty(c, np.float64),
        count=np.zeros(3, np.int64),
        found_fingerprint=np.empty(c, np.uint64),
        found_value=np.empty(c, np.float64),
        found_row=np.empty(c, np.int64),
        found_kind=np.empty(c, np.uint8),
        found_span=np.empty((c, 4), np.int64),
        listed=np.zeros(LISTED_PLACES, np.uint32),
        code=np.zeros(rows, np.int64),
        place=np.zeros((rows, PLACES), np.int64),
        label=np.full(rows, np.nan),
        weight=np.ones(rows, np.float64),
    )


@inline_kernel
def borrow_row(row: RecordScratch) -> RecordScratch:
    """The same row without reference counts; for the first lines of a reader. Source: jit.raw.unowned."""
    return RecordScratch(
        borrow(row.fingerprint),
        borrow(row.value),
        borrow(row.kind),
        borrow(row.span),
        borrow(row.order),
        borrow(row.bucket),
        borrow(row.mark),
        borrow(row.pair),
        borrow(row.position),
        borrow(row.named),
        borrow(row.owed),
        borrow(row.keys),
        borrow(row.starts),
    )


@inline_kernel
def borrow_sink(sink: BatchBuilder) -> BatchBuilder:
    """The same sink without reference counts; for the first lines of a reader. Source: jit.raw.unowned."""
    return BatchBuilder(
        borrow(sink.hash),
        borrow(sink.value),
        borrow(sink.count),
        borrow(sink.found_fingerprint),
        borrow(sink.found_value),
        borrow(sink.found_row),
        borrow(sink.found_kind),
        borrow(sink.found_span),
        borrow(sink.listed),
        borrow(sink.code),
        borrow(sink.place),
        borrow(sink.label),
        borrow(sink.weight),
    )


@inline_kernel
def borrow_rules(rules: Rules) -> Rules:
    """The same rules without reference counts; for the first lines of a reader. Source: jit.raw.unowned."""
    return Rules(rules.key, rules.labels, rules.labelled, rules.l2, rules.ngrams, borrow(rules.text), borrow(rules.seen))


class SlowRow(NamedTuple):
    """One good row as a slow lane hands it back: the same records, with the name as it is shown."""

    records: list[tuple[int, float, int, bytes]]  # fingerprint, value, kind, shown name
    label: float = float("nan")
    weight: float = 1.0
    event_id: bytes = b""  # UTF-8; empty where there is none


class Refusal(NamedTuple):
    """Why a slow lane refused a row: a code of `wire.codes`, and the field or name to blame, empty where there is none."""

    code: int
    field: str = ""
