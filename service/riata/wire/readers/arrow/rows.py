"""Arrow bodies to features: one compiled pass turns the columns into the records that every reader produces.

Theory of operation
    Names are contiguous in the body, with a list of ends, as the words of a line are (`wire.scan.tokens`). A row of plain names
    is hashed like such a line, eight at a time. An index is the feature that svmlight names so: its name is its decimal digits.
    The digits are written into the side area after the body first, and are then read as names.

    A row is refused for its label, its weight, its event id or its subject, in this order, before its features are read. A row
    with a name that is not plain is read name by name.
"""

from __future__ import annotations

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U8, read_only
from riata.base.errors import Malformed, TooLarge
from riata.base.limits import BODY_BYTES_MAX, EVENT_ID_BYTES_MAX, FEATURES_PER_REQUEST_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.memory import peek, poke
from riata.jit.raw.unowned import borrow
from riata.maths.hashing import NUMBER, hash_usual
from riata.wire.codes import (
    BAD_EVENT_ID,
    BAD_INDEX,
    BAD_LABEL,
    BAD_NAME,
    BAD_SUBJECT,
    BAD_WEIGHT,
    DUPLICATE_INDEX,
    DUPLICATE_KEY,
    LABEL_NOT_ALLOWED,
    LENGTHS_DIFFER,
    MISSING_LABEL,
    OK,
    TOO_MANY_FEATURES,
    TOO_MANY_IN_ROW,
)  # fmt: skip
from riata.wire.labels import is_weight, label_of
from riata.wire.parsed import Reading
from riata.wire.readers.arrow.columns import (  # fmt: skip
    NOTHING,
    Columns,
    NamesAt,
    Numbers,
    Texts,
    bad_offsets,
    do_rise,
    number_of,
    read_columns,
    warm_up_columns,
)
from riata.wire.readers.arrow.names import hash_plain, write_digits
from riata.wire.rows import (  # fmt: skip
    FIELD_START,
    FIELD_STOP,
    ID_START,
    IN_FEATURES,
    KEY,
    PLAIN,
    ROWS,
    SUBJECT_START,
    BatchBuilder,
    RecordScratch,
    Rules,
    borrow_row,
    borrow_rules,
    borrow_sink,
    growth_of,
    make_row,
    make_sink,
)
from riata.wire.scan.assemble import finish_row
from riata.wire.scan.delimiters import FRONT, PADDING
from riata.wire.scan.tokens import settle
from riata.wire.scan.unicode import name_code
from riata.wire.workspace import workspace

Lists = tuple[I64, I64]
Marks = tuple[Numbers, Numbers]

_BAD_OFFSETS = -1  # not a code of wire.codes
_DIGITS_MAX = 20  # of a number below 2^64
_INDEX_MAX = np.uint64(2**63 - 1)
_HIGH = 0x80


@inline_kernel
def _judge(label: float, weight: float, sink: BatchBuilder, rules: Rules, number: int) -> int:
    """Check and store a row's label and weight, NaN if absent: OK, or why the row is refused. Source: the contract of events."""
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
def read_lists(
    data: U8,
    lists: Lists,
    names: NamesAt,
    values: F64,
    marks: Marks,
    indexed: bool,
    row: RecordScratch,
    sink: BatchBuilder,
    rules: Rules,
) -> int:
    """Read the features of every row that is not refused yet.

    Parameters
    ----------
    data : u8[...]       the body, and the side area; FRONT bytes before the first name, and PADDING after
    lists : i64[n + 1], i64[n + 1]   which names row i has, and which values; both within bounds
    names : NamesAt      in `data`
    values : f64[m]      read only
    marks : Numbers, Numbers   labels and weights of the rows
    indexed : bool       whether the names are digits of indices: those need no check, and a repeated one is refused as an index
    row : RecordScratch  scratch
    sink : BatchBuilder  code[:n] is OK for the rows that are to be read
    rules : Rules

    Returns              OK; TOO_MANY_FEATURES, which ends the reading; or _BAD_OFFSETS of the names, before anything is read
    Cost                 one hash for each feature
    Source               this module's theory of operation
    """
    data, row, sink, rules = borrow(data), borrow_row(row), borrow_sink(sink), borrow_rules(rules)
    name_list, value_list = borrow(lists[0]), borrow(lists[1])
    names = NamesAt(borrow(names.ends), names.at, names.size)
    label, weight = marks
    if not do_rise(names.ends, names.size):
        return _BAD_OFFSETS
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
        if code == OK and hash_plain(data, names, first, n, row, rules.key):
            for i in range(n):
                poke(value, i, peek(values, value_list[number] + i))
            i = n
        while i < n and code == OK:
            start, stop = names.at + names.ends[first + i], names.at + names.ends[first + i + 1]
            span[i, 0], span[i, 1], span[i, 2], span[i, 3] = start, start, start, stop
            code = OK if indexed else BAD_NAME if start == stop else name_code(data, start, stop)
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


def read_arrow(body: memoryview, rules: Rules) -> Reading:
    """Read a body. Raises `Malformed` and `TooLarge`."""
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(f"a body has at most {BODY_BYTES_MAX} bytes, this one has {len(body)}", "body_too_large")
    columns = read_columns(body)
    if columns.rows == 0:
        raise Malformed("the body holds no rows", "empty_body")
    names, indices = columns.names, columns.indices
    items = len(indices) if indices is not None else len(names.ends) - 1 if names is not None else 0
    if items > FEATURES_PER_REQUEST_MAX:
        raise TooLarge(f"a request has at most {FEATURES_PER_REQUEST_MAX} features", "too_many_features")
    side = _DIGITS_MAX * items if names is None else 0
    work = workspace(len(body) + side, growth_of(rules))
    data = np.frombuffer(body, np.uint8)
    if body.readonly or names is None or names.at < FRONT or names.at + names.size + PADDING > len(body):  # otherwise in place
        copied = work.data[FRONT : FRONT + len(body) + side + PADDING]
        copied[: len(body)] = data
        data = copied
    if names is None:
        ends = np.empty(items + 1, np.int64)
        write_digits(np.zeros(0, np.uint64) if indices is None else indices, data, len(body), ends)
        names = NamesAt(read_only(ends), 0, len(data))
    reading = Reading(data, work.cleared(columns.rows), rules)
    reading.given_labels = columns.label.values if len(columns.label.values) else None
    _find_wrong(reading, columns)
    lists, marks, indexed = (columns.name_list, columns.value_list), (columns.label, columns.weight), columns.names is None
    code = read_lists(data, lists, names, columns.values, marks, indexed, work.row, reading.sink, rules)
    if code == _BAD_OFFSETS:
        raise bad_offsets("names")
    if code == TOO_MANY_FEATURES:
        raise TooLarge(f"a request has at most {FEATURES_PER_REQUEST_MAX} features", "too_many_features")
    return reading


def _find_wrong(reading: Reading, columns: Columns) -> None:
    """Check indices, and store subjects and event ids: a row with a bad one gets its code in the sink."""
    sink = reading.sink
    if columns.names is None and columns.indices is not None and bool((columns.indices > _INDEX_MAX).any()):
        wrong = np.flatnonzero(columns.indices > _INDEX_MAX)
        at = np.searchsorted(columns.name_list, wrong, side="right") - 1
        sink.code[at[(at >= 0) & (at < columns.rows)]] = BAD_INDEX
    if columns.subject is not None:
        _store_texts(reading, columns.subject, SUBJECT_START, BAD_SUBJECT)
    if columns.event_id is not None:
        _store_texts(reading, columns.event_id, ID_START, BAD_EVENT_ID)


def _store_texts(reading: Reading, texts: Texts, column: int, code: int) -> None:
    """Store where the text of each row is, in `column` of `place` and the next; a row with a bad one gets the code."""
    sink, given = reading.sink, texts.given
    sizes = np.diff(texts.ends)
    sink.place[:, column] = np.where(given, texts.ends[:-1], 0)
    sink.place[:, column + 1] = np.where(given, texts.ends[1:], 0)
    wrong: BOOL = given & ((sizes < 1) | (sizes > EVENT_ID_BYTES_MAX))
    first, last = int(texts.ends[0]), int(texts.ends[-1])
    if bool((reading.data[first:last] >= _HIGH).any() or (reading.data[first:last] == 0).any()):
        for number in np.flatnonzero(given & ~wrong).tolist():
            wrong[number] = not _is_text(reading.data[texts.ends[number] : texts.ends[number + 1]].tobytes())
    sink.code[wrong] = code


def _is_text(held: bytes) -> bool:
    try:
        return "\0" not in held.decode()
    except UnicodeDecodeError:
        return False


def warm_up_arrow(rules: Rules) -> None:
    """Compile, or load from the cache, the kernels of this module and of the columns."""
    warm_up_columns()
    data, ends, one = np.zeros(FRONT + 2 * _DIGITS_MAX + PADDING, np.uint8)[FRONT:], np.empty(2, np.int64), np.array([0, 1])
    write_digits(np.ones(1, np.uint64), data, 0, ends)
    lists, marks = (one, one), (NOTHING, NOTHING)
    for item in ("<i4", "<i8"):
        names = NamesAt(read_only(np.zeros(2, item)), 0, 0)
        read_lists(data, lists, names, read_only(np.ones(1)), marks, True, make_row(1), make_sink(2, 1, 1), rules)
