"""Reads the keys of an example and their simple values: label, weight, event id and time.

Positions, codes and `mark` are as in `wire.readers.json.body`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, I64, U8
from riata.base.limits import EVENT_ID_BYTES_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.wire.codes import BAD_EVENT_ID, BAD_LABEL, BAD_TS, BAD_WEIGHT, HANDOVER, INVALID_UTF8, LABEL_NOT_ALLOWED, OK, SYNTAX
from riata.wire.labels import CLASSES, is_plain_class, is_weight, label_of
from riata.wire.readers.json.grammar import (
    COLON,
    HAS_ESCAPE,
    HAS_NON_ASCII,
    LETTER_F,
    LETTER_T,
    MINUS,
    NINE,
    QUOTE,
    ZERO,
    literal_end,
    number_end,
    scan_string,
)
from riata.wire.readers.json.texts import CLASS_FROM, CLASS_TO, IDENTITY_START, IDENTITY_STOP, TIME_SEEN, fail, plain_string
from riata.wire.rows import Rules
from riata.wire.scan.numbers import EXACT, HAND_OVER, parse_number
from riata.wire.scan.unicode import string_code

EXAMPLE_KEYS: Final = ("features", "label", "weight", "event_id", "ts", "prediction_id")
FEATURES, LABEL, WEIGHT, EVENT_ID, TS, PREDICTION_ID = range(len(EXAMPLE_KEYS))
_KEY_BYTES = np.frombuffer("".join(EXAMPLE_KEYS).encode(), np.uint8)
_KEY_AT = np.cumsum([0, *(len(key) for key in EXAMPLE_KEYS)])


@kernel
def known_key(data: U8, start: int, stop: int) -> int:
    """Find which key of an example the bytes start:stop are.

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
def read_class(data: U8, p: int, stop: int, mark: I64, out: F64) -> int:
    """Read the label at the quote p, the name of a class: position after it, or minus a code. The label is set to 0, and the span
    of the name is written. Source: the HTTP contract.
    """
    end, holds = scan_string(data, p + 1, stop)
    if end < 0:
        return fail(mark, SYNTAX, -1 - end)
    start, last = plain_string(data, p + 1, end, holds, mark)
    if not is_plain_class(data, start, last):
        return fail(mark, BAD_LABEL, p)
    mark[CLASS_FROM], mark[CLASS_TO], out[0] = start, last, 0.0
    return end + 1


@kernel
def read_number_member(data: U8, p: int, stop: int, rules: Rules, mark: I64, out: F64, place: int) -> int:
    """Read `label` (place 0), which may be the name of a class, or `weight` (place 1) into `out`.

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
    if c in (LETTER_T, LETTER_F):
        if place == 1 or rules.labels != 0:
            return fail(mark, wrong, p)
        out[0] = 1.0 if c == LETTER_T else 0.0
        end = literal_end(data, p, stop)
        return end if end >= 0 else fail(mark, SYNTAX, p)
    if c == QUOTE and place == 0 and rules.labels == CLASSES:
        return read_class(data, p, stop, mark, out)
    if not (c == MINUS or ZERO <= c <= NINE):
        return fail(mark, wrong, p)
    end = number_end(data, p, stop)
    value, status = parse_number(data, p, end, True)
    if status != EXACT:
        return fail(mark, HANDOVER if status == HAND_OVER else SYNTAX, p)
    found = label_of(value, rules) if place == 0 else value if is_weight(value) else np.nan
    if found != found:
        return fail(mark, wrong, p)
    out[place] = found
    return end


@kernel
def digits_at(data: U8, p: int, count: int, stop: int) -> bool:
    """Return whether there are `count` decimal digits at `p`, before `stop`.

    Parameters
    ----------
    data : u8[...]     read only
    p, count, stop : int

    Returns            true if there are
    Cost               `count` bytes
    Source             RFC 3339, section 5.6
    """
    if p + count > stop:
        return False
    good = True
    for i in range(p, p + count):
        good = good and ZERO <= data[i] <= NINE
    return good


@kernel
def is_time(data: U8, p: int, stop: int) -> bool:
    """Return whether the bytes p:stop have the shape of an RFC 3339 time.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int

    Returns            true if they have; the calendar is not checked
    Cost               one read of each byte
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
    mark : i64[MARKS]  the span of an event id, or where the time is, is written
    which : int        EVENT_ID or TS

    Returns            position after it, or minus a code
    Cost               one read of each byte
    Source             the HTTP contract
    """
    wrong = BAD_EVENT_ID if which == EVENT_ID else BAD_TS
    if data[p] != QUOTE:
        return fail(mark, wrong, p)
    end, holds = scan_string(data, p + 1, stop)
    if end < 0:
        return fail(mark, SYNTAX, -1 - end)
    start, last = plain_string(data, p + 1, end, holds, mark)
    if which == TS:
        mark[TIME_SEEN] = p
        return end + 1 if is_time(data, start, last) else -BAD_TS
    code = OK if 1 <= last - start <= EVENT_ID_BYTES_MAX else BAD_EVENT_ID
    if code == OK and holds & HAS_ESCAPE:
        for i in range(start, last):
            code = code if data[i] != 0 else BAD_EVENT_ID
    if holds & HAS_NON_ASCII and string_code(data, start, last) == INVALID_UTF8:
        code = INVALID_UTF8
    if code != OK:
        return -code
    mark[IDENTITY_START], mark[IDENTITY_STOP] = start, last
    return end + 1
