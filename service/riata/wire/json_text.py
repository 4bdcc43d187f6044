"""JSON and NDJSON bodies to features in one compiled pass.

Theory of operation
    Every row is read by `read_example` from its bytes straight into records (`wire.rows`). It ends in one of three ways:
    accepted; refused, with a code and the name to blame; or handed over (HANDOVER) because it holds something that this
    lane leaves to `wire.strict_json`: an escape or a byte above 0x7F in a string (in a text: a \\u escape), or a number
    too close to a tie. Refused and handed-over rows are passed once more by `skip_value`, which finds their end and lets
    a syntax error win over any other reason, as a decoder that parses before it judges would.

    Readers return a position, or minus a code. The rest they say through `mark` (`wire.text_words` names its places).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, I64, U8
from riata.base.limits import EVENT_ID_BYTES_MAX, LABEL_ABS_MAX, NAME_BYTES_MAX, WEIGHT_MAX
from riata.maths.borrow import borrow
from riata.maths.hashing import FIELD_EQUALS, NUMBER, hash_name
from riata.maths.kernel import inline_kernel, kernel
from riata.wire.codes import (
    BAD_EVENT_ID, BAD_FEATURE, BAD_LABEL, BAD_NAME, BAD_TS, BAD_WEIGHT, BY_PREDICTION, DUPLICATE_KEY, HANDOVER,
    LABEL_NOT_ALLOWED, MISSING_FEATURES, MISSING_LABEL, NAME_TOO_LONG, NOT_OBJECT, OK, SYNTAX, TOO_DEEP, TOO_MANY_FEATURES,
    TOO_MANY_IN_ROW, TOO_MANY_ROWS, UNKNOWN_KEY,
)  # fmt: skip
from riata.wire.json_scan import (
    CLOSE_LIST, CLOSE_OBJECT, COLON, COMMA, HAS_DELETE, HAS_ESCAPE, HAS_NON_ASCII, LETTER_F, LETTER_N, LETTER_T, MINUS,
    NINE, OPEN_LIST, OPEN_OBJECT, QUOTE, ZERO, literal_end, number_end, scan_string, skip_space, skip_value,
)  # fmt: skip
from riata.wire.numbers import EXACT, HAND_OVER, parse_number
from riata.wire.rows import (
    AT, EQUALS, FIELD_START, FIELD_STOP, GHOST, ID_START, ID_STOP, IN_FEATURES, KEY, PLAIN, ROW_START, ROW_STOP, ROWS, Row, Rules, Sink,
    borrow_row, borrow_rules, borrow_sink, finish_row,
)  # fmt: skip
from riata.wire.text_words import (
    BLAME_INSIDE, BLAME_START, BLAME_STOP, COUNT, IDENTITY_START, IDENTITY_STOP, MARKS, SIDE, STOPPED, read_text,
)  # fmt: skip

EXAMPLE_KEYS: Final = ("features", "label", "weight", "event_id", "ts", "prediction_id")
FEATURES, LABEL, WEIGHT, EVENT_ID, TS, PREDICTION_ID = range(len(EXAMPLE_KEYS))
_KEY_BYTES = np.frombuffer("".join(EXAMPLE_KEYS).encode(), np.uint8)
_KEY_AT = np.cumsum([0, *(len(key) for key in EXAMPLE_KEYS)])
_LEFT_TO_SLOW_LANE: Final = HAS_ESCAPE | HAS_NON_ASCII


@inline_kernel
def fail(mark: I64, code: int, at: int) -> int:
    """Note where reading stopped; minus the code. Source: this module's theory of operation."""
    mark[STOPPED] = at
    return -code


@kernel
def known_key(data: U8, start: int, stop: int) -> int:
    """Which key of an example the bytes start:stop are.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int

    Returns            index in EXAMPLE_KEYS, or -1
    Cost               a few bytes
    Source             the HTTP contract
    """
    for k in range(len(_KEY_AT) - 1):
        if _KEY_AT[k + 1] - _KEY_AT[k] == stop - start:
            same = True
            for i in range(stop - start):
                same = same and data[start + i] == _KEY_BYTES[_KEY_AT[k] + i]
            if same:
                return k
    return -1


@inline_kernel
def name_fault(start: int, stop: int, holds: int) -> int:
    """Why the string start:stop cannot be part of a name, or OK. Source: NAME_BYTES_MAX and the rule of names."""
    if holds & _LEFT_TO_SLOW_LANE:
        return HANDOVER
    if holds & HAS_DELETE:
        return BAD_NAME
    return NAME_TOO_LONG if stop - start > NAME_BYTES_MAX else OK


@inline_kernel
def put_record(row: Row, mark: I64, fingerprint: np.uint64, value: float, kind: int, at: tuple[int, int]) -> bool:
    """Append one record whose first part is the field mark[BLAME_START:BLAME_STOP].

    Parameters
    ----------
    row : Row            written at mark[COUNT], which moves on
    mark : i64[MARKS]
    fingerprint : u64, value : float, kind : int
    at : int x 2         the bytes of the second part of the name; not used where the name is plain

    Returns              false where there is no room
    Cost                 one record
    Source               wire.rows, theory of operation
    """
    n = mark[COUNT]
    if n >= len(row.value):
        return False
    plain = kind & 3 == PLAIN
    row.fingerprint[n] = fingerprint
    row.value[n] = value
    row.kind[n] = kind
    row.span[n, 0] = mark[BLAME_START]
    row.span[n, 1] = mark[BLAME_START] if plain else mark[BLAME_STOP]
    row.span[n, 2] = mark[BLAME_START] if plain else at[0]
    row.span[n, 3] = mark[BLAME_STOP] if plain else at[1]
    mark[COUNT] = n + 1
    return True


@kernel
def read_words(data: U8, p: int, stop: int, row: Row, rules: Rules, mark: I64) -> int:
    """Read a string, or a list of strings, as indicators or as words of a text.

    Parameters
    ----------
    data : u8[...]
    p, stop : int      the opening quote or bracket; end of what may be read
    row : Row          records are added
    rules : Rules
    mark : i64[MARKS]  BLAME_START:BLAME_STOP is the field

    Returns            position after it, or minus a code
    Cost               one look at each byte, one hash for each value
    Source             the HTTP contract
    """
    field = hash_name(data, mark[BLAME_START], mark[BLAME_STOP], rules.key, NUMBER)
    split = False
    for known in rules.text:
        split = split or known == field
    if not put_record(row, mark, field, 0.0, PLAIN | KEY | GHOST, (0, 0)):
        return -TOO_MANY_IN_ROW
    listed = data[p] == OPEN_LIST
    if listed:
        p = skip_space(data, p + 1, stop)
        if p < stop and data[p] == CLOSE_LIST:
            return p + 1
    prefix = hash_name(data, mark[BLAME_START], mark[BLAME_STOP], rules.key, FIELD_EQUALS)
    while True:
        if p >= stop or data[p] != QUOTE:
            return fail(mark, BAD_FEATURE if p < stop else SYNTAX, p)
        if split:
            p = read_text(data, p + 1, stop, row, rules, mark)
            if p < 0:
                return p
        else:
            start = p + 1
            p, holds = scan_string(data, start, stop)
            if p < 0:
                return fail(mark, SYNTAX, -1 - p)
            fault = name_fault(start, p, holds)
            if fault != OK:
                return -fault
            if not put_record(row, mark, hash_name(data, start, p, prefix, NUMBER), 1.0, EQUALS, (start, p)):
                return -TOO_MANY_IN_ROW
            p += 1
        if not listed:
            return p
        p = skip_space(data, p, stop)
        if p < stop and data[p] == CLOSE_LIST:
            return p + 1
        if p >= stop or data[p] != COMMA:
            return fail(mark, SYNTAX, p)
        p = skip_space(data, p + 1, stop)


@inline_kernel
def read_feature(data: U8, p: int, stop: int, row: Row, rules: Rules, mark: I64) -> int:
    """Read the value at `p` of the field mark[BLAME_START:BLAME_STOP]. Source: the HTTP contract."""
    c = data[p]
    if c == QUOTE or c == OPEN_LIST:
        return read_words(data, p, stop, row, rules, mark)
    kind = PLAIN | KEY
    value = 0.0
    if c == MINUS or ZERO <= c <= NINE:
        end = number_end(data, p, stop)
        value, status = parse_number(data, p, end, True)
        if status != EXACT:
            return fail(mark, HANDOVER if status == HAND_OVER else SYNTAX, p)
    elif c == LETTER_T or c == LETTER_F or c == LETTER_N:
        end = literal_end(data, p, stop)
        if end < 0:
            return fail(mark, SYNTAX, p)
        value = 1.0 if c == LETTER_T else 0.0
        kind |= GHOST if c == LETTER_N else 0
    else:
        return fail(mark, BAD_FEATURE if c == OPEN_OBJECT else SYNTAX, p)
    field = hash_name(data, mark[BLAME_START], mark[BLAME_STOP], rules.key, NUMBER)
    if not put_record(row, mark, field, value, kind, (0, 0)):
        return -TOO_MANY_IN_ROW
    return end


@kernel
def read_features(data: U8, p: int, stop: int, row: Row, rules: Rules, mark: I64) -> int:
    """Read the object of features.

    Parameters
    ----------
    data : u8[...]
    p, stop : int      where the opening brace should be; end of what may be read
    row : Row          records are written
    rules : Rules
    mark : i64[MARKS]

    Returns            position after the closing brace, or minus a code
    Cost               one look at each byte, one hash for each value
    Source             the HTTP contract
    """
    if data[p] != OPEN_OBJECT:
        return fail(mark, MISSING_FEATURES, p)
    p = skip_space(data, p + 1, stop)
    if p < stop and data[p] == CLOSE_OBJECT:
        return p + 1
    mark[BLAME_INSIDE] = 1
    while True:
        if p >= stop or data[p] != QUOTE:
            return fail(mark, SYNTAX, p)
        start = p + 1
        p, holds = scan_string(data, start, stop)
        if p < 0:
            return fail(mark, SYNTAX, -1 - p)
        mark[BLAME_START], mark[BLAME_STOP] = start, p
        fault = BAD_NAME if p == start else name_fault(start, p, holds)
        if fault != OK:
            return -fault
        p = skip_space(data, p + 1, stop)
        if p >= stop or data[p] != COLON:
            return fail(mark, SYNTAX, p)
        p = skip_space(data, p + 1, stop)
        if p >= stop:
            return fail(mark, SYNTAX, p)
        p = read_feature(data, p, stop, row, rules, mark)
        if p < 0:
            return p
        p = skip_space(data, p, stop)
        if p < stop and data[p] == CLOSE_OBJECT:
            mark[BLAME_INSIDE] = 0
            return p + 1
        if p >= stop or data[p] != COMMA:
            return fail(mark, SYNTAX, p)
        p = skip_space(data, p + 1, stop)


@kernel
def read_number_member(data: U8, p: int, stop: int, rules: Rules, mark: I64, out: F64, place: int) -> int:
    """Read `label` (place 0) or `weight` (place 1) into `out`.

    Parameters
    ----------
    data : u8[...]
    p, stop : int      first byte of the value; end of what may be read, p < stop
    rules : Rules      labels and labelled
    mark : i64[MARKS]
    out : f64[2]       written at `place`
    place : int

    Returns            position after it, or minus a code
    Cost               one number
    Source             the HTTP contract
    """
    wrong = BAD_WEIGHT if place == 1 else BAD_LABEL
    if place == 0 and not rules.labelled:
        return fail(mark, LABEL_NOT_ALLOWED, p)
    c = data[p]
    if c == LETTER_T or c == LETTER_F:
        if place == 1 or rules.labels != 0:
            return fail(mark, wrong, p)
        out[0] = 1.0 if c == LETTER_T else 0.0
        end = literal_end(data, p, stop)
        return end if end >= 0 else fail(mark, SYNTAX, p)
    if not (c == MINUS or ZERO <= c <= NINE):
        return fail(mark, wrong, p)
    end = number_end(data, p, stop)
    value, status = parse_number(data, p, end, True)
    if status != EXACT:
        return fail(mark, HANDOVER if status == HAND_OVER else SYNTAX, p)
    if place == 1:
        good = 0.0 < value <= WEIGHT_MAX
    elif rules.labels == 0:
        good = value == 0.0 or value == 1.0
    elif rules.labels == 1:
        good = abs(value) == 1.0
    else:
        good = abs(value) <= LABEL_ABS_MAX
    if not good:
        return fail(mark, wrong, p)
    out[place] = (0.0 if value < 0.0 else 1.0) if place == 0 and rules.labels == 1 else value + 0.0  # no -0.0
    return end


@kernel
def digits_at(data: U8, p: int, count: int, stop: int) -> bool:
    """Say whether `count` decimal digits stand at `p`, before `stop`.

    Parameters
    ----------
    data : u8[...]     read only
    p, count, stop : int

    Returns            true where they do
    Cost               `count` bytes
    Source             RFC 3339, section 5.6
    """
    if p + count > stop:
        return False
    for i in range(p, p + count):
        if not ZERO <= data[i] <= NINE:
            return False
    return True


@kernel
def is_time(data: U8, p: int, stop: int) -> bool:
    """Say whether the bytes p:stop have the shape of an RFC 3339 time.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int

    Returns            true where they do; no calendar is asked
    Cost               one look at each byte
    Source             RFC 3339, section 5.6
    """
    if stop - p < 20 or not digits_at(data, p, 4, stop):  # 20 bytes: 2026-11-20T11:14:00Z
        return False
    for k, mark in ((4, 45), (7, 45), (13, 58), (16, 58)):  # two - and two :
        if data[p + k] != mark or not digits_at(data, p + k + 1, 2, stop):
            return False
    between = data[p + 10]
    if not (between == 0x54 or between == 0x74 or between == 0x20) or not digits_at(data, p + 11, 2, stop):  # T t space
        return False
    p += 19
    if data[p] == 0x2E:  # .
        if not digits_at(data, p + 1, 1, stop):
            return False
        p += 1
        while p < stop and ZERO <= data[p] <= NINE:
            p += 1
    if p < stop and (data[p] | 32) == 0x7A:  # z
        return p + 1 == stop
    if p >= stop or not (data[p] == 0x2B or data[p] == MINUS):  # +
        return False
    return p + 6 == stop and digits_at(data, p + 1, 2, stop) and data[p + 3] == COLON and digits_at(data, p + 4, 2, stop)


@kernel
def read_string_member(data: U8, p: int, stop: int, mark: I64, which: int) -> int:
    """Read `event_id` or `ts`.

    Parameters
    ----------
    data : u8[...]
    p, stop : int      first byte of the value; end of what may be read, p < stop
    mark : i64[MARKS]  the span of an event id is noted
    which : int        EVENT_ID or TS

    Returns            position after it, or minus a code
    Cost               one look at each byte
    Source             the HTTP contract
    """
    wrong = BAD_EVENT_ID if which == EVENT_ID else BAD_TS
    if data[p] != QUOTE:
        return fail(mark, wrong, p)
    end, holds = scan_string(data, p + 1, stop)
    if end < 0:
        return fail(mark, SYNTAX, -1 - end)
    if holds & _LEFT_TO_SLOW_LANE:
        return -HANDOVER
    if which == TS:
        return end + 1 if is_time(data, p + 1, end) else -BAD_TS
    if not 1 <= end - (p + 1) <= EVENT_ID_BYTES_MAX:
        return -BAD_EVENT_ID
    mark[IDENTITY_START], mark[IDENTITY_STOP] = p + 1, end
    return end + 1


@kernel
def read_member(data: U8, p: int, stop: int, row: Row, rules: Rules, mark: I64, out: F64, which: int) -> int:
    """Read the value of one key of an example.

    Parameters
    ----------
    data : u8[...]
    p, stop : int      first byte of the value; end of what may be read, p < stop
    row : Row, rules : Rules, mark : i64[MARKS], out : f64[2]
    which : int        index in EXAMPLE_KEYS

    Returns            position after it, or minus a code
    Cost               one look at each byte
    Source             the HTTP contract
    """
    if which == FEATURES:
        return read_features(data, p, stop, row, rules, mark)
    if which == LABEL or which == WEIGHT:
        return read_number_member(data, p, stop, rules, mark, out, which - LABEL)
    if which == PREDICTION_ID:
        return fail(mark, BY_PREDICTION, p)
    return read_string_member(data, p, stop, mark, which)


@kernel
def read_example(data: U8, p: int, stop: int, row: Row, rules: Rules, mark: I64, out: F64) -> int:
    """Read one example object into records.

    Parameters
    ----------
    data : u8[...]     the body, and the side area behind it
    p, stop : int      where the opening brace should be; end of what may be read
    row : Row          records are written, mark[COUNT] of them
    rules : Rules
    mark : i64[MARKS]
    out : f64[2]       label and weight; left alone where absent

    Returns            position after the closing brace, or minus a code
    Cost               one look at each byte, one hash for each value
    Source             the HTTP contract
    """
    if p >= stop or data[p] != OPEN_OBJECT:
        return fail(mark, NOT_OBJECT, p)
    seen, given = 0, 0  # one bit for each key of EXAMPLE_KEYS; null is seen but not given
    p = skip_space(data, p + 1, stop)
    closed = p < stop and data[p] == CLOSE_OBJECT
    while not closed:
        if p >= stop or data[p] != QUOTE:
            return fail(mark, SYNTAX, p)
        start = p + 1
        p, holds = scan_string(data, start, stop)
        if p < 0:
            return fail(mark, SYNTAX, -1 - p)
        if holds & _LEFT_TO_SLOW_LANE:
            return -HANDOVER
        mark[BLAME_START], mark[BLAME_STOP] = start, p
        which = known_key(data, start, p)
        if which < 0 or seen >> which & 1:
            return -(UNKNOWN_KEY if which < 0 else DUPLICATE_KEY)
        seen |= 1 << which
        p = skip_space(data, p + 1, stop)
        if p >= stop or data[p] != COLON:
            return fail(mark, SYNTAX, p)
        p = skip_space(data, p + 1, stop)
        if p >= stop:
            return fail(mark, SYNTAX, p)
        if data[p] == LETTER_N:
            p = literal_end(data, p, stop)
        else:
            given |= 1 << which
            p = read_member(data, p, stop, row, rules, mark, out, which)
        if p < 0:
            return p if given >> which & 1 else -SYNTAX
        p = skip_space(data, p, stop)
        closed = p < stop and data[p] == CLOSE_OBJECT
        if not closed:
            if p >= stop or data[p] != COMMA:
                return fail(mark, SYNTAX, p)
            p = skip_space(data, p + 1, stop)
    mark[BLAME_START], mark[BLAME_STOP] = p, p
    if not given >> FEATURES & 1:
        return -MISSING_FEATURES
    if rules.labelled and not given >> LABEL & 1:
        return -MISSING_LABEL
    return p + 1


@kernel
def take_row(
    data: U8, start: int, stop: int, row: Row, sink: Sink, rules: Rules, mark: I64, number: int, depth: int
) -> int:  # fmt: skip
    """Read, finish and file one row, whatever becomes of it.

    Parameters
    ----------
    data : u8[...]
    start, stop : int  first byte of the row; end of what may be read
    row : Row, sink : Sink, rules : Rules, mark : i64[MARKS]
    number : int       which row this is
    depth : int        0 where nothing but white space may follow it before `stop`, 1 inside an array

    Returns            position after the row; sink.code[number] says what became of it
    Cost               one look at each byte of a good row, two of another
    Source             this module's theory of operation
    """
    side = mark[SIDE]
    mark[COUNT] = 0
    mark[BLAME_START:MARKS] = start
    mark[BLAME_INSIDE] = 0
    out = np.array([np.nan, 1.0])
    end = read_example(data, start, stop, row, rules, mark, out)
    code = -end if end < 0 else OK
    if code == OK and depth == 0 and skip_space(data, end, stop) != stop:
        code = SYNTAX
    if code == OK:
        code, blame = finish_row(row, mark[COUNT], sink, rules, number)
        if code != OK:
            first = 2 if row.kind[blame] & 3 == PLAIN else 0  # the field is the name itself, or the prefix
            mark[BLAME_START], mark[BLAME_STOP] = row.span[blame, first], row.span[blame, first + 1]
            mark[BLAME_INSIDE] = 1
    if code != OK:
        mark[SIDE] = side
        passed, end = skip_value(data, start, stop, depth)
        if passed == OK and depth == 0:
            end = skip_space(data, end, stop)
            passed = OK if end == stop else SYNTAX
        if passed != OK:
            code = passed
            mark[STOPPED] = end
            mark[BLAME_STOP] = mark[BLAME_START]
    sink.code[number] = code
    place = sink.place[number]
    place[ROW_START], place[ROW_STOP], place[AT] = start, end, mark[STOPPED]
    place[FIELD_START], place[FIELD_STOP], place[IN_FEATURES] = mark[BLAME_START], mark[BLAME_STOP], mark[BLAME_INSIDE]
    place[ID_START], place[ID_STOP] = mark[IDENTITY_START], mark[IDENTITY_STOP]
    sink.label[number], sink.weight[number] = out[0], out[1]
    return end


@kernel
def read_ndjson(data: U8, ends: I64, row: Row, sink: Sink, rules: Rules) -> int:
    """Read one example a line; lines of white space are no rows.

    Parameters
    ----------
    data : u8[...]     the body, and the side area from ends[-1]
    ends : i64[lines + 1]  line k is data[ends[k]:ends[k + 1] - 1]
    row : Row, sink : Sink, rules : Rules

    Returns            OK, TOO_MANY_FEATURES or TOO_MANY_ROWS
    Cost               one look at each byte
    Source             this module's theory of operation
    """
    data, row, sink, rules = borrow(data), borrow_row(row), borrow_sink(sink), borrow_rules(rules)
    mark = row.mark
    mark[SIDE] = ends[-1]
    number = 0
    for k in range(len(ends) - 1):
        stop = ends[k + 1] - 1
        start = skip_space(data, ends[k], stop)
        if start == stop:
            continue
        if number == len(sink.code):
            return TOO_MANY_ROWS
        end = take_row(data, start, stop, row, sink, rules, mark, number, 0)
        if sink.code[number] == TOO_MANY_FEATURES:
            return TOO_MANY_FEATURES
        # A line is a row by itself: nothing about its end matters to the next.
        sink.place[number, ROW_STOP] = max(end, stop)
        number += 1
        sink.count[ROWS] = number
    return OK


@kernel
def read_json(data: U8, ends: I64, row: Row, sink: Sink, rules: Rules) -> int:
    """Read one example, or an array of them.

    Parameters
    ----------
    data : u8[...]     the body, and the side area from ends[1]
    ends : i64[2]      the body is data[0:ends[1] - 1]
    row : Row, sink : Sink, rules : Rules

    Returns            OK; TOO_MANY_FEATURES or TOO_MANY_ROWS; SYNTAX or TOO_DEEP, and then sink.place[count[ROWS], AT] says where
    Cost               one look at each byte
    Source             this module's theory of operation
    """
    data, row, sink, rules = borrow(data), borrow_row(row), borrow_sink(sink), borrow_rules(rules)
    mark = row.mark
    mark[SIDE] = ends[1]
    stop = ends[1] - 1
    p = skip_space(data, ends[0], stop)
    listed = p < stop and data[p] == OPEN_LIST
    if listed:
        p = skip_space(data, p + 1, stop)
        if p < stop and data[p] == CLOSE_LIST:
            sink.place[0, AT] = p + 1
            return OK if skip_space(data, p + 1, stop) == stop else SYNTAX
    number = 0
    while True:
        if number == len(sink.code):
            return TOO_MANY_ROWS
        p = take_row(data, p, stop, row, sink, rules, mark, number, int(listed))
        code = sink.code[number]
        if code == SYNTAX or code == TOO_DEEP or code == TOO_MANY_FEATURES:
            return int(code)
        number += 1
        sink.count[ROWS] = number
        if not listed:
            return OK
        p = skip_space(data, p, stop)
        closed = p < stop and data[p] == CLOSE_LIST
        after = skip_space(data, p + 1, stop)
        if closed and after == stop:
            return OK
        if closed or p >= stop or data[p] != COMMA:
            # The fault is noted at the last row read, so the caller looks there.
            sink.count[ROWS] = number - 1
            sink.place[number - 1, AT] = after if closed else p
            return SYNTAX
        p = after
