"""From the records of one row to sorted, summed, bounded features: shared by every format the wire reads.

Theory of operation
    A reader (JSON, VW, svmlight) walks the bytes of one row and leaves one record per value in `Row`: the 64-bit
    fingerprint of the name, the value as written, what kind of name it is, and where its bytes are. `finish_row` then

        1  orders the records by feature hash (the top 32 bits), equal hashes in the order they came
        2  sums equal hashes, in that order; refuses a JSON key that came twice, and a sum beyond VALUE_ABS_MAX
        3  drops sums that are zero or subnormal
        4  divides by the row's 2-norm where the encoder asks for it
        5  appends to `Sink`, and lists there the names that are not in the table of names seen

    Nothing of a row reaches `Sink` before the row is known to be good, so a refused row leaves no trace.

    A line reader offers two functions, which `wire.parse` calls:

        read_FORMAT(data: U8, ends: I64, row: Row, sink: Sink, rules: Rules) -> int
            a kernel over the whole body; line k is data[ends[k]:ends[k + 1] - 1], so ends[0] == 0, and the byte between
            two lines is the newline. Sets sink.code, place, label, weight for every row and count[ROWS]; calls
            `finish_row` for good ones. It begins with  data, row, sink, rules = borrow(data), borrow_row(row), …, which
            takes reference counting out of the loops (three times faster). Returns OK, or TOO_MANY_FEATURES or
            TOO_MANY_ROWS, which end the reading.
        slow_FORMAT(line: bytes, rules: Rules) -> SlowRow | Refusal
            the same line in plain Python, for rows whose code the kernel left at HANDOVER.

    Orders are sorted as (hash << 32 | position): all different, so no sort has to be stable (`wire.sorting`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U8, U32, U64
from riata.base.limits import FEATURES_PER_REQUEST_MAX, FEATURES_PER_ROW_MAX, VALUE_ABS_MAX
from riata.maths.borrow import borrow
from riata.maths.kernel import inline_kernel, kernel
from riata.maths.raw import peek, poke
from riata.wire.codes import DUPLICATE_KEY, OK, OUT_OF_RANGE, TOO_MANY_FEATURES, TOO_MANY_IN_ROW
from riata.wire.length import SMALLEST_NORMAL, normalise_l2
from riata.wire.names import lacks
from riata.wire.sorting import RANKED_MAX, rank_keys, sort_keys, sort_range

RECORDS_PER_ROW_MAX: Final = 32 * FEATURES_PER_ROW_MAX  # before summing: words of a text repeat

MARKS_MAX: Final = 9
_POSITIONS_MAX: Final = 2**18  # of delimiters; a row with more is read without
_POSITIONS_SPARE: Final = 128

# Kinds of record. The low two bits say how the name is shown, as the tags of the feature hash do.
PLAIN: Final = 0  # name
EQUALS: Final = 1  # prefix=name
WORD: Final = 2  # prefix:name
NAMESPACE: Final = 3  # prefix^name
KEY: Final = 4  # a JSON key: its fingerprint must not come twice among records of this kind
GHOST: Final = 8  # no feature, value 0: there only so that a key of a string, list or null is seen

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


class Row(NamedTuple):
    """Records of the row being read; reused for every row. m = capacity, `row_capacity(body bytes, ngrams)`."""

    fingerprint: U64  # u64[m]
    value: F64  # f64[m] as written, not yet checked; may be infinite
    kind: U8  # u8[m]  PLAIN, EQUALS, WORD or NAMESPACE, with KEY and GHOST
    span: I64  # i64[m, 4] prefix start, prefix stop, name start, name stop in the body; start == stop: empty
    order: U64  # u64[m] scratch
    bucket: U64  # u64[m] scratch
    mark: I64  # i64[MARKS_MAX] small scratch of the reader, whose own module names its places
    pair: F64  # f64[2] label and weight of the row being read
    position: U32  # u32[...] delimiters of the row (wire.marks)
    ranked: U32  # u32[RANKED_MAX] hashes of a short row
    rank: U32  # u32[RANKED_MAX] where they belong


class Sink(NamedTuple):
    """What the whole body became. c = feature capacity, r = row capacity.

    A reader sets for its row number i: code[i], place[i], label[i], weight[i]; `count[ROWS]` is set when it ends.
    Rows are counted from 0 over the rows that are there; blank lines are no rows.
    """

    hash: U32  # u32[c]
    value: F64  # f64[c]
    count: I64  # type: ignore[assignment]  # i64[3]  FEATURES, FOUND, ROWS so far; nobody counts items of this tuple
    found_fingerprint: U64  # u64[c] one for each record whose name is not in Rules.seen
    found_value: F64  # f64[c] its own value, after normalising
    found_row: I64  # i64[c]
    found_kind: U8  # u8[c]
    found_span: I64  # i64[c, 4]
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


def make_row(capacity: int) -> Row:
    """Allocate a `Row`; pages that are not reached are never touched."""
    return Row(
        fingerprint=np.empty(capacity, np.uint64),
        value=np.empty(capacity, np.float64),
        kind=np.empty(capacity, np.uint8),
        span=np.empty((capacity, 4), np.int64),
        order=np.empty(capacity, np.uint64),
        bucket=np.empty(capacity, np.uint64),
        mark=np.zeros(MARKS_MAX, np.int64),
        pair=np.empty(2),
        position=np.empty(min(2 * capacity, _POSITIONS_MAX) + _POSITIONS_SPARE, np.uint32),
        ranked=np.empty(RANKED_MAX, np.uint32),
        rank=np.empty(RANKED_MAX, np.uint32),
    )


def make_sink(body_bytes: int, rows: int, ngrams: int) -> Sink:
    """Allocate a `Sink` for at most `rows` rows of a body of `body_bytes`."""
    c = min(FEATURES_PER_REQUEST_MAX, ngrams * (body_bytes // 2) + 4)
    return Sink(
        hash=np.empty(c, np.uint32),
        value=np.empty(c, np.float64),
        count=np.zeros(3, np.int64),
        found_fingerprint=np.empty(c, np.uint64),
        found_value=np.empty(c, np.float64),
        found_row=np.empty(c, np.int64),
        found_kind=np.empty(c, np.uint8),
        found_span=np.empty((c, 4), np.int64),
        code=np.zeros(rows, np.int64),
        place=np.zeros((rows, PLACES), np.int64),
        label=np.full(rows, np.nan),
        weight=np.ones(rows, np.float64),
    )


@inline_kernel
def borrow_row(row: Row) -> Row:
    """The same row without reference counts; for the first lines of a reader. Source: maths.borrow."""
    return Row(
        borrow(row.fingerprint),
        borrow(row.value),
        borrow(row.kind),
        borrow(row.span),
        borrow(row.order),
        borrow(row.bucket),
        borrow(row.mark),
        borrow(row.pair),
        borrow(row.position),
        borrow(row.ranked),
        borrow(row.rank),
    )


@inline_kernel
def borrow_sink(sink: Sink) -> Sink:
    """The same sink without reference counts; for the first lines of a reader. Source: maths.borrow."""
    return Sink(
        borrow(sink.hash),
        borrow(sink.value),
        borrow(sink.count),
        borrow(sink.found_fingerprint),
        borrow(sink.found_value),
        borrow(sink.found_row),
        borrow(sink.found_kind),
        borrow(sink.found_span),
        borrow(sink.code),
        borrow(sink.place),
        borrow(sink.label),
        borrow(sink.weight),
    )


@inline_kernel
def borrow_rules(rules: Rules) -> Rules:
    """The same rules without reference counts; for the first lines of a reader. Source: maths.borrow."""
    return Rules(rules.key, rules.labels, rules.labelled, rules.l2, rules.ngrams, borrow(rules.text), borrow(rules.seen))


_32 = np.uint64(32)
_EMPTY = np.uint64(0)  # of a table of names
_LOW = np.uint64(0xFFFFFFFF)


@kernel
def repeated_key(row: Row, first: int, last: int) -> int:
    """Find a JSON key that came twice among the records order[first:last], which share one hash.

    Parameters
    ----------
    row : Row            `order` sorted; `bucket` is overwritten
    first, last : int

    Returns              position of a record of that key, or -1
    Cost                 m log m for m records
    Source               this module's theory of operation
    """
    m = 0
    for k in range(first, last):
        i = np.int64(row.order[k] & _LOW)
        if row.kind[i] & KEY:
            row.bucket[m] = row.fingerprint[i]
            m += 1
    sort_range(row.bucket, 0, m)
    for k in range(1, m):
        if row.bucket[k] == row.bucket[k - 1]:
            for q in range(first, last):
                i = np.int64(row.order[q] & _LOW)
                if row.fingerprint[i] == row.bucket[k] and row.kind[i] & KEY:
                    return int(i)
    return -1


@kernel
def place_row(fingerprints: U64, values: F64, scratch: tuple[U32, U32], n: int, hashes: U32, sums: F64, start: int) -> int:
    """Do what `sum_row` does for a short row whose hashes are all different and whose values are all within bounds.

    Parameters
    ----------
    fingerprints : u64[>= n], values : f64[>= n]   of the records; read only
    scratch : u32[RANKED_MAX], u32[RANKED_MAX]     overwritten
    n : int              at most RANKED_MAX
    hashes : u32[c], sums : f64[c]   written from `start`; room for n
    start : int

    Returns              features written; -1 where the row is of another kind, and what was written means nothing
    Cost                 as `rank_keys`, and a few operations for each record
    Source               this module's theory of operation
    """
    keys, rank = scratch
    for i in range(n):
        poke(keys, i, np.uint32(peek(fingerprints, i) >> _32))
    if not rank_keys(keys, rank, n):
        return -1
    inside, normal = True, True
    for i in range(n):
        at, value = start + np.int64(peek(rank, i)), peek(values, i)
        inside &= abs(value) <= VALUE_ABS_MAX  # false for what is not a number
        normal &= abs(value) >= SMALLEST_NORMAL
        poke(hashes, at, peek(keys, i))
        poke(sums, at, value)
    if not inside:
        return -1
    if normal:
        return n
    done = start
    for i in range(start, start + n):
        poke(hashes, done, peek(hashes, i))
        poke(sums, done, peek(sums, i))
        done += int(abs(peek(sums, i)) >= SMALLEST_NORMAL)
    return done - start


@kernel
def sum_row(row: Row, n: int, hashes: U32, sums: F64, start: int) -> tuple[int, int]:
    """Write the sums of a row's records to hashes[start:] and sums[start:], in increasing order of hash.

    Parameters
    ----------
    row : Row            n records; `order` and `bucket` are overwritten
    n : int
    hashes : u32[c], sums : f64[c]   written from `start`
    start : int

    Returns              (OK, features written), or (why not, position of the record to blame)
    Cost                 one sort of n
    Source               this module's theory of operation, steps 1 to 3
    """
    # Taken out of their tuple once: numba counts references wherever an array leaves a tuple.
    order, fingerprints, values = row.order, row.fingerprint, row.value
    for i in range(n):
        order[i] = ((fingerprints[i] >> _32) << _32) | np.uint64(i)
    sort_keys(order, row.bucket, n)
    room = min(len(hashes) - start, FEATURES_PER_ROW_MAX)
    done = 0
    i = 0
    while i < n:
        h = order[i] >> _32
        first = int(np.int64(order[i] & _LOW))
        total = values[first]
        j = i + 1
        while j < n and order[j] >> _32 == h:
            total += values[np.int64(order[j] & _LOW)]
            j += 1
        if j > i + 1:
            twice = repeated_key(row, i, j)
            if twice >= 0:
                return DUPLICATE_KEY, twice
        if not abs(total) <= VALUE_ABS_MAX:  # so written that NaN (infinity minus infinity) is refused too
            return OUT_OF_RANGE, first
        if abs(total) >= SMALLEST_NORMAL:
            if done >= room:
                return (TOO_MANY_IN_ROW if room == FEATURES_PER_ROW_MAX else TOO_MANY_FEATURES), first
            hashes[start + done] = np.uint32(h)
            sums[start + done] = total
            done += 1
        i = j
    return OK, done


@kernel
def list_new(row: Row, n: int, sink: Sink, seen: U64, number: int, lift: float, norm: float) -> None:
    """List the records of a row whose names are not in the table of names seen.

    Parameters
    ----------
    row : Row            n records; read only
    n : int
    sink : Sink          found_… and count[FOUND] are written
    seen : u64[2^k]      the table
    number : int         which row this is
    lift, norm : float   what the row's values were multiplied with, and divided by

    Returns              nothing
    Cost                 one probe of the table for each record
    Source               this module's theory of operation
    """
    fingerprints, values = borrow(row.fingerprint), borrow(row.value)
    found, room, mask = int(sink.count[FOUND]), len(sink.found_value), np.uint64(len(seen) - 1)
    for i in range(n):
        # Most names are known, and at the first place where they can be.
        fingerprint = peek(fingerprints, i)
        if peek(seen, np.int64(fingerprint & mask)) == fingerprint and fingerprint != _EMPTY:
            continue
        if values[i] != 0.0 and found < room and lacks(seen, fingerprint):
            sink.found_fingerprint[found] = fingerprint
            sink.found_value[found] = values[i] * lift / norm
            sink.found_row[found] = number
            sink.found_kind[found] = row.kind[i]
            for k in range(4):
                sink.found_span[found, k] = row.span[i, k]
            found += 1
    sink.count[FOUND] = found


@inline_kernel
def finish_row(row: Row, n: int, sink: Sink, rules: Rules, number: int) -> tuple[int, int]:
    """Turn the n records of `row` into features of row `number` and append them to `sink`.

    Parameters
    ----------
    row : Row            n records; scratch is overwritten
    n : int
    sink : Sink          features appended, place[number, BEGIN:END + 1] and count updated; untouched where refused
    rules : Rules        key, l2 and seen are read
    number : int         which row this is

    Returns              (OK, 0), or (why not, position of the record to blame)
    Cost                 one sort of n, one probe of the table of names for each record
    Source               this module's theory of operation
    """
    start = int(sink.count[FEATURES])
    code, done = OK, -1
    if n <= RANKED_MAX and start + n <= len(sink.hash):
        done = place_row(row.fingerprint, row.value, (row.ranked, row.rank), n, sink.hash, sink.value, start)
    if done < 0:
        code, done = sum_row(row, n, sink.hash, sink.value, start)
    if code != OK:
        return code, done
    stop = start + done
    lift, norm = 1.0, 1.0
    if rules.l2:
        stop, lift, norm = normalise_l2(sink.hash, sink.value, start, stop)
    sink.count[FEATURES] = stop
    sink.place[number, BEGIN] = start
    sink.place[number, END] = stop
    if len(rules.seen) > 0:
        list_new(row, n, sink, rules.seen, number, lift, norm)
    return OK, 0


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
