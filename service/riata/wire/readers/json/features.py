"""Reads the object of features in JSON: numbers, indicators and texts become records.

Positions, codes and `mark` are as in `wire.readers.json.body`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U8
from riata.base.limits import NAME_BYTES_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.maths.hashing import FIELD_EQUALS, FIELD_NAMESPACE, NUMBER, hash_name
from riata.wire.codes import BAD_FEATURE, BAD_NAME, HANDOVER, MISSING_FEATURES, NAME_TOO_LONG, OK, SYNTAX, TOO_MANY_IN_ROW
from riata.wire.readers.json.grammar import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    LETTER_F,
    LETTER_N,
    LETTER_T,
    MINUS,
    NINE,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    ZERO,
    literal_end,
    number_end,
    scan_string,
    short_number,
    skip_space,
)
from riata.wire.readers.json.texts import BLAME_INSIDE, BLAME_START, BLAME_STOP, COUNT, SIDE, fail, plain_string, read_text
from riata.wire.rows import EQUALS, KEY, NAMESPACE, PLAIN, SHADOWED, RecordScratch, Rules, borrow_row
from riata.wire.scan.delimiters import PADDING
from riata.wire.scan.numbers import EXACT, HAND_OVER, parse_number
from riata.wire.scan.unicode import name_code

# Where the name of its namespace is, for a feature that is in none. If it were written where it is passed on, numba would compile
# what it is passed to once more, for literals.
NO_NAMESPACE: Final = (0, 0)


@inline_kernel
def name_fault(data: U8, start: int, stop: int, holds: int) -> int:
    """Why the string start:stop cannot be part of a name, or OK. Source: NAME_BYTES_MAX and the rule of names."""
    if holds != 0:
        return name_code(data, start, stop)
    return NAME_TOO_LONG if stop - start > NAME_BYTES_MAX else OK


@inline_kernel
def put_record(
    row: RecordScratch, mark: I64, fingerprint: np.uint64, value: float, kind: int, prefix: tuple[int, int], name: tuple[int, int]
) -> bool:  # fmt: skip
    """Append one record with these spans of its name; false if there is no room. Source: wire.rows."""
    n = mark[COUNT]
    if n >= len(row.value):
        return False
    row.fingerprint[n] = fingerprint
    row.value[n] = value
    row.kind[n] = kind
    row.span[n, 0], row.span[n, 1], row.span[n, 2], row.span[n, 3] = prefix[0], prefix[1], name[0], name[1]
    mark[COUNT] = n + 1
    return True


@inline_kernel
def put_key(
    row: RecordScratch, mark: I64, fingerprint: np.uint64, value: float, kind: int, space: tuple[int, int]
) -> bool:  # fmt: skip
    """Append the record of the key mark[BLAME_START:BLAME_STOP] of the namespace `space`, empty for none. Source: wire.rows."""
    start, stop = mark[BLAME_START], mark[BLAME_STOP]
    if space[0] < space[1]:
        return put_record(row, mark, fingerprint, value, kind | NAMESPACE, space, (start, stop))
    return put_record(row, mark, fingerprint, value, kind, (start, start), (start, stop))


@inline_kernel
def join_name(data: U8, start: int, stop: int, mark: I64) -> tuple[int, int]:
    """Write key:value to the side area, the key being mark[BLAME_START:BLAME_STOP]: its span, or (-1, -1) if there is no room.

    Source: wire.readers.vw.body, which has such names in the body.
    """
    begin = at = mark[SIDE]
    end = at + mark[BLAME_STOP] - mark[BLAME_START] + 1 + stop - start
    if end + PADDING > len(data):
        return -1, -1
    for p in range(mark[BLAME_START], mark[BLAME_STOP]):
        data[at] = data[p]
        at += 1
    data[at] = COLON
    for p in range(start, stop):
        at += 1
        data[at] = data[p]
    mark[SIDE] = end
    return begin, end


@kernel
def read_words(
    data: U8, p: int, stop: int, space: tuple[int, int], key: np.uint64, row: RecordScratch, rules: Rules, mark: I64
) -> int:  # fmt: skip
    """Read a string, or a list of strings, as indicators or as words of a text.

    Parameters
    ----------
    data : u8[...]     the side area is written
    p, stop : int      the opening quote or bracket; end of what may be read
    space : int x 2    the namespace, empty for none: a namespace has no texts
    key : u64          the model's key, or the hash of the namespace
    row : RecordScratch  records are added
    rules : Rules
    mark : i64[MARKS]  BLAME_START:BLAME_STOP is the field

    Returns            position after it, or minus a code
    Cost               one read of each byte, one hash for each value
    Source             the HTTP contract
    """
    field = hash_name(data, mark[BLAME_START], mark[BLAME_STOP], key, NUMBER)
    inside = space[0] < space[1]
    split = False
    for known in rules.text:
        split = split or (known == field and not inside)
    if not put_key(row, mark, field, 0.0, KEY | SHADOWED, space):
        return -TOO_MANY_IN_ROW
    listed = data[p] == OPEN_LIST
    if listed:
        p = skip_space(data, p + 1, stop)
        if p < stop and data[p] == CLOSE_LIST:
            return p + 1
    prefix = hash_name(data, mark[BLAME_START], mark[BLAME_STOP], key, FIELD_EQUALS)
    while True:
        if p >= stop or data[p] != QUOTE:
            return fail(mark, BAD_FEATURE if p < stop else SYNTAX, p)
        if split:
            p = read_text(data, p + 1, stop, row, rules, mark)
            if p < 0:
                return p
        else:
            first = p + 1
            p, holds = scan_string(data, first, stop)
            if p < 0:
                return fail(mark, SYNTAX, -1 - p)
            start, end = plain_string(data, first, p, holds, mark)
            fault = name_fault(data, start, end, holds)
            if fault != OK:
                return -fault
            fingerprint = hash_name(data, start, end, prefix, NUMBER)
            if inside:
                start, end = join_name(data, start, end, mark)
                if start < 0:
                    return fail(mark, HANDOVER, p)
                good = put_record(row, mark, fingerprint, 1.0, NAMESPACE, space, (start, end))
            else:
                whole = (int(mark[BLAME_START]), int(mark[BLAME_STOP]))
                good = put_record(row, mark, fingerprint, 1.0, EQUALS, whole, (start, end))
            if not good:
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


@kernel
def read_scalar(data: U8, p: int, stop: int, mark: I64) -> tuple[int, float, int]:
    """Read a number, true, false or null.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      first byte of it; end of what may be read, p < stop
    mark : i64[MARKS]  says where reading stopped

    Returns            (position after it, value, kind of the record); otherwise the position is minus a code
    Cost               one read of each byte
    Source             the HTTP contract
    """
    c = data[p]
    if c == MINUS or ZERO <= c <= NINE:
        negative = c == MINUS
        end, value = short_number(data, p + int(negative), stop)
        value = -value if negative else value
        if end < 0:
            end = number_end(data, p, stop)
            value, status = parse_number(data, p, end, True)
            if status != EXACT:
                return fail(mark, HANDOVER if status == HAND_OVER else SYNTAX, p), 0.0, 0
        return end, value, PLAIN | KEY
    if c in (LETTER_T, LETTER_F, LETTER_N):
        end = literal_end(data, p, stop)
        if end < 0:
            return fail(mark, SYNTAX, p), 0.0, 0
        return end, 1.0 if c == LETTER_T else 0.0, PLAIN | KEY | (SHADOWED if c == LETTER_N else 0)
    return fail(mark, BAD_FEATURE if c == OPEN_OBJECT else SYNTAX, p), 0.0, 0


@kernel
def read_key(data: U8, p: int, stop: int, mark: I64) -> int:
    """Read the name of a feature or of a namespace, and the colon after it.

    Parameters
    ----------
    data : u8[...]     the side area may be written
    p, stop : int      where the quote before the name should be; end of what may be read
    mark : i64[MARKS]  BLAME_START:BLAME_STOP is written: the name

    Returns            where the value begins, or minus a code
    Cost               one read of each byte
    Source             the HTTP contract
    """
    data, mark = borrow(data), borrow(mark)
    if p >= stop or data[p] != QUOTE:
        return fail(mark, SYNTAX, p)
    first = p + 1
    p, holds = scan_string(data, first, stop)
    if p < 0:
        return fail(mark, SYNTAX, -1 - p)
    start, end = plain_string(data, first, p, holds, mark)
    mark[BLAME_START], mark[BLAME_STOP] = start, end
    fault = BAD_NAME if start == end else name_fault(data, start, end, holds)
    if fault != OK:
        return -fault
    p = skip_space(data, p + 1, stop)
    if p >= stop or data[p] != COLON:
        return fail(mark, SYNTAX, p)
    p = skip_space(data, p + 1, stop)
    return fail(mark, SYNTAX, p) if p >= stop else p


@kernel
def read_value(
    data: U8, p: int, stop: int, space: tuple[int, int], key: np.uint64, row: RecordScratch, rules: Rules, mark: I64
) -> int:  # fmt: skip
    """Read the value of the feature mark[BLAME_START:BLAME_STOP], which is no object.

    Parameters
    ----------
    data : u8[...]     the side area may be written
    p, stop : int      first byte of the value; end of what may be read
    space : int x 2    the namespace, empty for none
    key : u64          the model's key, or the hash of the namespace
    row : RecordScratch  records are added
    rules : Rules
    mark : i64[MARKS]

    Returns            position after the value, or minus a code
    Cost               one read of each byte, one hash for each value
    Source             the HTTP contract
    """
    # Borrowed again: the compiler then sees that there are no references to count, and drops the checks.
    data, row, mark = borrow(data), borrow_row(row), borrow(mark)
    if data[p] == QUOTE or data[p] == OPEN_LIST:
        return read_words(data, p, stop, space, key, row, rules, mark)
    p, value, kind = read_scalar(data, p, stop, mark)
    if p >= 0:
        fingerprint = hash_name(data, mark[BLAME_START], mark[BLAME_STOP], key, NUMBER)
        if not put_key(row, mark, fingerprint, value, kind, space):
            return -TOO_MANY_IN_ROW
    return p


@kernel
def read_feature(data: U8, p: int, stop: int, row: RecordScratch, rules: Rules, mark: I64) -> int:
    """Read one feature of any kind, or a namespace: an object of features that are no objects.

    Parameters
    ----------
    data : u8[...]     the side area may be written
    p, stop : int      where the quote before its name should be; end of what may be read
    row : RecordScratch  records are added
    rules : Rules
    mark : i64[MARKS]

    Returns            position after its value, or minus a code
    Cost               one read of each byte, one hash for each value
    Source             the HTTP contract
    """
    data, row, mark = borrow(data), borrow_row(row), borrow(mark)
    p = read_key(data, p, stop, mark)
    if p < 0:
        return p
    if data[p] != OPEN_OBJECT:
        return read_value(data, p, stop, NO_NAMESPACE, rules.key, row, rules, mark)
    space = (int(mark[BLAME_START]), int(mark[BLAME_STOP]))
    if not put_key(row, mark, hash_name(data, space[0], space[1], rules.key, NUMBER), 0.0, KEY | SHADOWED, (0, 0)):
        return -TOO_MANY_IN_ROW
    key = hash_name(data, space[0], space[1], rules.key, FIELD_NAMESPACE)
    p = skip_space(data, p + 1, stop)
    if p < stop and data[p] == CLOSE_OBJECT:
        return p + 1
    while True:
        p = read_key(data, p, stop, mark)
        if p >= 0:
            p = read_value(data, p, stop, space, key, row, rules, mark)
        if p < 0:
            return p
        p = skip_space(data, p, stop)
        if p < stop and data[p] == CLOSE_OBJECT:
            return p + 1
        if p >= stop or data[p] != COMMA:
            return fail(mark, SYNTAX, p)
        p = skip_space(data, p + 1, stop)


@kernel
def read_features(data: U8, p: int, stop: int, row: RecordScratch, rules: Rules, mark: I64) -> int:
    """Read the object of features.

    Parameters
    ----------
    data : u8[...]
    p, stop : int      where the opening brace should be; end of what may be read
    row : RecordScratch  records are written
    rules : Rules
    mark : i64[MARKS]

    Returns            position after the closing brace, or minus a code
    Cost               one read of each byte, one hash for each value
    Source             the HTTP contract
    """
    if data[p] != OPEN_OBJECT:
        return fail(mark, MISSING_FEATURES, p)
    p = skip_space(data, p + 1, stop)
    if p < stop and data[p] == CLOSE_OBJECT:
        return p + 1
    mark[BLAME_INSIDE] = 1
    while True:
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
