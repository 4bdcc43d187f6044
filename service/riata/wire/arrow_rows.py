"""Arrow bodies to features: what the columns hold becomes the records that every reader leaves, in one compiled pass.

Theory of operation
    Names stand in the body one behind another: a list of ends, as the words of a line are (`wire.tokens`), and a row of plain
    names is hashed as such a line, eight at a time. An index is the feature that svmlight calls so: its decimal digits are its
    name. They are written into the side area behind the body first, and from there on they are names.

    A row is refused for its label, its weight or its event id, in this order, before its features are looked at. Rows
    with a name that is not plain ASCII are left to `slow_row`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U8, U64, read_only
from riata.base.errors import Malformed, TooLarge
from riata.base.limits import BODY_BYTES_MAX, EVENT_ID_BYTES_MAX, FEATURES_PER_REQUEST_MAX, NAME_BYTES_MAX
from riata.maths.borrow import borrow
from riata.maths.hashing import NUMBER, hash_usual
from riata.maths.kernel import inline_kernel, kernel
from riata.maths.lanes import WIDTH
from riata.maths.raw import peek, poke
from riata.maths.words import ONES, TOPS, load_word
from riata.wire.arrow_columns import NOTHING, Columns, Numbers, Texts, number_of, read_columns, warm_up_columns
from riata.wire.codes import (
    BAD_EVENT_ID,
    BAD_INDEX,
    BAD_LABEL,
    BAD_NAME,
    BAD_WEIGHT,
    DUPLICATE_INDEX,
    DUPLICATE_KEY,
    HANDOVER,
    INVALID_UTF8,
    LABEL_NOT_ALLOWED,
    LENGTHS_DIFFER,
    MISSING_LABEL,
    NAME_TOO_LONG,
    OK,
    TOO_MANY_FEATURES,
    TOO_MANY_IN_ROW,
)  # fmt: skip
from riata.wire.finish import finish_row
from riata.wire.json_scan import DELETE, SPACE
from riata.wire.labels import is_weight, label_of
from riata.wire.marks import FRONT, PADDING
from riata.wire.parsed import Reading
from riata.wire.rows import (  # fmt: skip
    FIELD_START,
    FIELD_STOP,
    ID_START,
    ID_STOP,
    IN_FEATURES,
    KEY,
    PLAIN,
    ROWS,
    Refusal,
    Row,
    Rules,
    Sink,
    SlowRow,
    borrow_row,
    borrow_rules,
    borrow_sink,
    make_row,
    make_sink,
)
from riata.wire.strict_json import Record, Refused, feature_records
from riata.wire.tokens import hash_tokens, owe_spans, settle
from riata.wire.workspace import workspace

Lists = tuple[I64, I64, I64]
Marks = tuple[Numbers, Numbers]

_DIGITS_MAX = 20  # of a number below 2^64
_INDEX_MAX = np.uint64(2**63 - 1)
_10 = np.uint64(10)
_HIGH = 0x80
_WORD_BYTES = 8
_SPACES = np.uint64(0x2020202020202020)
_NOTHING, _ONE = np.uint64(0), np.uint64(1)


@kernel
def write_digits(indices: U64, data: U8, at: int, ends: I64) -> None:
    """Write numbers in decimal, one behind another.

    Parameters
    ----------
    indices : u64[k]     read only
    data : u8[...]       written from `at`; 20 bytes of room for each
    at : int
    ends : i64[k + 1]    written: number i is data[ends[i]:ends[i + 1]]

    Returns              nothing
    Cost                 one division a digit
    Source               place values
    """
    ends[0] = at
    for i in range(len(indices)):
        left, size = indices[i], 1
        while left >= _10:
            left //= _10
            size += 1
        left = indices[i]
        for p in range(at + size - 1, at - 1, -1):
            data[p] = np.uint8(48 + left % _10)
            left //= _10
        at += size
        ends[i + 1] = at


@kernel
def name_code(data: U8, start: int, stop: int) -> int:
    """Say what is wrong with a name.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int

    Returns            OK, BAD_NAME, NAME_TOO_LONG, or HANDOVER where it is not plain ASCII
    Cost               one look at each byte
    Source             the rule of names, as wire.json_features has it
    """
    code = OK if start < stop else BAD_NAME
    for p in range(start, stop):
        if data[p] >= _HIGH:
            return HANDOVER
        if data[p] < SPACE or data[p] == DELETE:
            code = BAD_NAME
    return NAME_TOO_LONG if code == OK and stop - start > NAME_BYTES_MAX else code


@inline_kernel
def _outside(word: np.uint64) -> np.uint64:
    """Not 0 where a byte of the word is below a space, or 0x7F and above. Source: as `maths.words.not_plain`."""
    return (((word - _SPACES) & ~word) | (word + ONES) | word) & TOPS


@inline_kernel
def _are_plain(data: U8, start: int, stop: int) -> bool:
    """Whether the bytes start:stop are what any name may have; eight must be there before `stop`. Source: `name_code`."""
    odd, p = _NOTHING, start
    while p + _WORD_BYTES <= stop:
        odd |= _outside(load_word(data, p))
        p += _WORD_BYTES
    if p < stop:
        before = (_ONE << np.uint64(8 * (p + _WORD_BYTES - stop))) - _ONE  # bits of bytes that were looked at, or come before
        odd |= _outside((load_word(data, stop - _WORD_BYTES) & ~before) | (_SPACES & before))
    return bool(odd == _NOTHING)


@inline_kernel
def _hash_plain(data: U8, ends: I64, first: int, n: int, row: Row, key: np.uint64) -> bool:
    """Hash the names data[ends[first]:ends[first + 1]] and the n - 1 behind it; their spans are owed.

    False, and nothing is owed, where one of them is not plain, empty or too long. Source: wire.tokens, theory of operation.
    """
    at, named = row.position, row.named
    if n + WIDTH >= len(at) or n + WIDTH > len(row.value) or not _are_plain(data, ends[first], ends[first + n]):
        return False
    for i in range(n + 1):
        poke(at, i, np.uint32(peek(ends, first + i) - 1))
        poke(named, i, np.uint32(peek(ends, first + i)))
    for k in range(1, WIDTH):  # names of two bytes, whatever those are: they fill the last eight
        poke(at, n + k, np.uint32(ends[first + n] + 2 * k - 1))
        poke(named, n + k, np.uint32(ends[first + n] + 2 * k))
    if not hash_tokens(data, at, named, n, key, row.fingerprint):
        return False
    owe_spans(row, n, PLAIN | KEY, 0, 0)
    return True


@inline_kernel
def _judge(label: float, weight: float, sink: Sink, rules: Rules, number: int) -> int:
    """Take a row's label and weight, NaN where it has none: OK, or why the row is refused. Source: the contract of events."""
    if label == label:
        if not rules.labelled:
            return LABEL_NOT_ALLOWED
        sink.label[number] = label_of(label, rules)
        if sink.label[number] != sink.label[number]:
            return BAD_LABEL
    elif rules.labelled:
        return MISSING_LABEL
    if weight == weight:
        sink.weight[number] = weight
        if not is_weight(weight):
            return BAD_WEIGHT
    return OK


@kernel
def read_lists(data: U8, lists: Lists, values: F64, marks: Marks, indexed: bool, row: Row, sink: Sink, rules: Rules) -> int:
    """Read the features of every row that is not refused yet.

    Parameters
    ----------
    data : u8[...]       the body, and the side area; FRONT bytes before the first name, and PADDING behind
    lists : i64[n + 1] names of row i, i64[n + 1] its values, i64[k + 1] where names begin and end in `data`
    values : f64[m]      read only
    marks : Numbers, Numbers   labels and weights of the rows
    indexed : bool       whether names are digits: they are right then, and one that comes twice is an index
    row : Row            scratch
    sink : Sink          code[:n] is OK where a row may be read
    rules : Rules

    Returns              OK, or TOO_MANY_FEATURES, which ends the reading
    Cost                 one hash for each feature
    Source               this module's theory of operation
    """
    data, row, sink, rules = borrow(data), borrow_row(row), borrow_sink(sink), borrow_rules(rules)
    name_list, value_list, ends = borrow(lists[0]), borrow(lists[1]), borrow(lists[2])
    label, weight = marks
    fingerprint, value, kind, span = row.fingerprint, row.value, row.kind, row.span
    for number in range(len(name_list) - 1):
        sink.count[ROWS] = number + 1
        code = _judge(number_of(label, number), number_of(weight, number), sink, rules, number)
        if code != OK:
            sink.code[number] = code
        if sink.code[number] != OK:
            continue
        first, n = name_list[number], name_list[number + 1] - name_list[number]
        if value_list[number + 1] - value_list[number] != n:
            code = LENGTHS_DIFFER
        elif n > len(value):
            code = TOO_MANY_IN_ROW
        i = 0
        row.owed[0] = 0
        if code == OK and _hash_plain(data, ends, first, n, row, rules.key):
            for i in range(n):
                poke(value, i, peek(values, value_list[number] + i))
            i = n
        while i < n and code == OK:
            start, stop = ends[first + i], ends[first + i + 1]
            span[i, 0], span[i, 1], span[i, 2], span[i, 3] = start, start, start, stop
            code = OK if indexed else name_code(data, start, stop)
            fingerprint[i] = hash_usual(data, start, stop, rules.key, NUMBER)
            value[i] = values[value_list[number] + i]
            kind[i] = PLAIN | KEY
            i += 1
        if code == OK:
            code, i = finish_row(row, n, sink, rules, number)
            i += 1
        if code == TOO_MANY_FEATURES:
            return TOO_MANY_FEATURES
        if code not in (OK, LENGTHS_DIFFER) and i > 0:
            settle(row)
            sink.place[number, FIELD_START], sink.place[number, FIELD_STOP] = span[i - 1, 2], span[i - 1, 3]
            sink.place[number, IN_FEATURES] = 1
        sink.code[number] = DUPLICATE_INDEX if indexed and code == DUPLICATE_KEY else code
    return OK


def read_arrow(body: memoryview, rules: Rules) -> tuple[Reading, Row, Callable[[int], SlowRow | Refusal]]:
    """Read a body: what became of it, the scratch of rows, and the slow lane of the rows that are left at HANDOVER.

    Raises `Malformed` and `TooLarge`.
    """
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(f"a body has at most {BODY_BYTES_MAX} bytes, this one has {len(body)}", "body_too_large")
    columns = read_columns(body)
    if columns.rows == 0:
        raise Malformed("the body holds no rows", "empty_body")
    ends, indices = columns.names, columns.indices
    items = len(indices) if indices is not None else len(ends) - 1 if ends is not None else 0
    if items > FEATURES_PER_REQUEST_MAX:
        raise TooLarge(f"a request has at most {FEATURES_PER_REQUEST_MAX} features", "too_many_features")
    side = _DIGITS_MAX * items if ends is None else 0
    work = workspace(len(body) + side, 1)
    data = np.frombuffer(body, np.uint8)
    if body.readonly or ends is None or ends[0] < FRONT or ends[-1] + PADDING > len(body):  # else it is read where it lies
        copied = work.data[FRONT : FRONT + len(body) + side + PADDING]
        copied[: len(body)] = data
        data = copied
    if ends is None:
        ends = np.empty(items + 1, np.int64)
        write_digits(np.zeros(0, np.uint64) if indices is None else indices, data, len(body), ends)
    reading = Reading(data, work.cleared(columns.rows), rules)
    _find_wrong(reading, columns)
    lists = (columns.name_list, columns.value_list, ends)
    marks, indexed = (columns.label, columns.weight), columns.names is None
    if read_lists(data, lists, columns.values, marks, indexed, work.row, reading.sink, rules) == TOO_MANY_FEATURES:
        raise TooLarge(f"a request has at most {FEATURES_PER_REQUEST_MAX} features", "too_many_features")
    return reading, work.row, lambda number: slow_row(columns, ends, number, reading)


def _find_wrong(reading: Reading, columns: Columns) -> None:
    """Indices and event ids: into the sink, with the code of one that is not acceptable."""
    sink = reading.sink
    if columns.names is None and columns.indices is not None and bool((columns.indices > _INDEX_MAX).any()):
        wrong = np.flatnonzero(columns.indices > _INDEX_MAX)
        at = np.searchsorted(columns.name_list, wrong, side="right") - 1
        sink.code[at[(at >= 0) & (at < columns.rows)]] = BAD_INDEX
    if columns.event_id is not None:
        _identities(reading, columns.event_id)


def _identities(reading: Reading, texts: Texts) -> None:
    sink, given = reading.sink, texts.given
    sizes = np.diff(texts.ends)
    sink.place[:, ID_START] = np.where(given, texts.ends[:-1], 0)
    sink.place[:, ID_STOP] = np.where(given, texts.ends[1:], 0)
    wrong: BOOL = given & ((sizes < 1) | (sizes > EVENT_ID_BYTES_MAX))
    first, last = int(texts.ends[0]), int(texts.ends[-1])
    if bool((reading.data[first:last] >= _HIGH).any() or (reading.data[first:last] == 0).any()):
        for number in np.flatnonzero(given & ~wrong).tolist():
            wrong[number] = not _is_text(reading.data[texts.ends[number] : texts.ends[number + 1]].tobytes())
    sink.code[wrong] = BAD_EVENT_ID


def _is_text(held: bytes) -> bool:
    try:
        return "\0" not in held.decode()
    except UnicodeDecodeError:
        return False


def slow_row(columns: Columns, ends: I64, number: int, reading: Reading) -> SlowRow | Refusal:
    """Read one row in plain Python; any UTF-8."""
    records: list[Record] = []
    first, value_first = int(columns.name_list[number]), int(columns.value_list[number])
    try:
        for i in range(int(columns.name_list[number + 1]) - first):
            name = reading.data[ends[first + i] : ends[first + i + 1]].tobytes().decode()
            records.extend(feature_records(name, float(columns.values[value_first + i]), reading.rules))
    except UnicodeDecodeError:
        return Refusal(INVALID_UTF8)
    except Refused as refused:
        return refused.refusal
    return SlowRow(records, float(reading.sink.label[number]), float(reading.sink.weight[number]))


def warm_up_arrow(rules: Rules) -> None:
    """Compile, or load from the cache, the kernels of this module and of the columns."""
    warm_up_columns()
    data, ends, one = np.zeros(FRONT + 2 * _DIGITS_MAX + PADDING, np.uint8)[FRONT:], np.empty(2, np.int64), np.array([0, 1])
    write_digits(np.ones(1, np.uint64), data, 0, ends)
    read_lists(data, (one, one, ends), read_only(np.ones(1)), (NOTHING, NOTHING), True, make_row(1), make_sink(2, 1, 1), rules)
