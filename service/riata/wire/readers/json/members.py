"""Reads the keys of an example and their simple values: label, weight, event id, time and subject.

Positions, codes and `mark` are as in `wire.readers.json.body`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, I64, U8
from riata.base.limits import EVENT_ID_BYTES_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.wire.batch import NO_TIME
from riata.wire.codes import (
    BAD_EVENT_ID,
    BAD_LABEL,
    BAD_SUBJECT,
    BAD_TS,
    BAD_WEIGHT,
    HANDOVER,
    INVALID_UTF8,
    LABEL_NOT_ALLOWED,
    OK,
    SYNTAX,
)
from riata.wire.labels import CLASSES, is_plain_class, is_weight, label_of
from riata.wire.readers.json.grammar import (
    COLON,
    DOT,
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
from riata.wire.readers.json.texts import (
    CLASS_FROM,
    CLASS_TO,
    IDENTITY_START,
    IDENTITY_STOP,
    SUBJECT_FROM,
    SUBJECT_TO,
    TIME_READ,
    TIME_SEEN,
    fail,
    plain_string,
)
from riata.wire.rows import Rules
from riata.wire.scan.numbers import EXACT, HAND_OVER, parse_number
from riata.wire.scan.unicode import string_code

EXAMPLE_KEYS: Final = ("features", "label", "weight", "event_id", "ts", "prediction_id", "subject")
FEATURES, LABEL, WEIGHT, EVENT_ID, TS, PREDICTION_ID, SUBJECT = range(len(EXAMPLE_KEYS))
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


@inline_kernel
def two_digits(data: U8, p: int) -> int:
    """The number that the two digits at `p` say. Source: RFC 3339, section 5.6."""
    return 10 * int(data[p]) + int(data[p + 1]) - 11 * ZERO


@kernel
def unix_ms(data: U8, p: int, stop: int) -> int:
    """Read a time. A leap second is the last second before it.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      a text for which `is_time` is true

    Returns            unix time, ms, rounded down; NO_TIME if there is no such day, hour or offset
    Cost               one read of each byte
    Source             RFC 3339, sections 5.6 and 5.7; days: Hinnant 2021, chrono-Compatible Low-Level Date Algorithms
    """
    year, month, day = 100 * two_digits(data, p) + two_digits(data, p + 2), two_digits(data, p + 5), two_digits(data, p + 8)
    hour, minute, second = two_digits(data, p + 11), two_digits(data, p + 14), two_digits(data, p + 17)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = 28 + int(leap) if month == 2 else 30 + (month + month // 8) % 2
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= days or hour > 23 or minute > 59 or second > 60:
        return NO_TIME
    p, ms, unit = p + 19, 0, 100
    if data[p] == DOT:
        p += 1
        while ZERO <= data[p] <= NINE:  # a time ends with its offset
            ms, unit, p = ms + unit * (int(data[p]) - ZERO), unit // 10, p + 1
    offset = 0
    if p + 1 < stop:
        hours, minutes = two_digits(data, p + 1), two_digits(data, p + 4)
        if hours > 23 or minutes > 59:
            return NO_TIME
        offset = (60 * hours + minutes) * (-1 if data[p] == MINUS else 1)
    # Days since 1970 of a calendar whose years begin in March, so that leap days are the last ones.
    year -= int(month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    number = 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468
    return ((24 * number + hour) * 60 + minute - offset) * 60_000 + 1000 * min(second, 59) + ms


@kernel
def read_string_member(data: U8, p: int, stop: int, mark: I64, which: int) -> int:
    """Read `event_id`, `ts` or `subject`.

    Parameters
    ----------
    data : u8[...]
    p, stop : int      first byte of the value; end of what may be read, p < stop
    mark : i64[MARKS]  the span of an event id or a subject, or the time and where it is, is written
    which : int        EVENT_ID, TS or SUBJECT

    Returns            position after it, or minus a code
    Cost               one read of each byte
    Source             the HTTP contract
    """
    wrong = BAD_EVENT_ID if which == EVENT_ID else BAD_SUBJECT if which == SUBJECT else BAD_TS
    if data[p] != QUOTE:
        return fail(mark, wrong, p)
    end, holds = scan_string(data, p + 1, stop)
    if end < 0:
        return fail(mark, SYNTAX, -1 - end)
    start, last = plain_string(data, p + 1, end, holds, mark)
    if which == TS:
        time = unix_ms(data, start, last) if is_time(data, start, last) else NO_TIME
        mark[TIME_SEEN], mark[TIME_READ] = p, time
        return end + 1 if time != NO_TIME else -BAD_TS
    code = OK if 1 <= last - start <= EVENT_ID_BYTES_MAX else wrong
    if code == OK and holds & HAS_ESCAPE:
        for i in range(start, last):
            code = code if data[i] != 0 else wrong
    if holds & HAS_NON_ASCII and string_code(data, start, last) == INVALID_UTF8:
        code = INVALID_UTF8
    if code != OK:
        return -code
    if which == SUBJECT:
        mark[SUBJECT_FROM], mark[SUBJECT_TO] = start, last
    else:
        mark[IDENTITY_START], mark[IDENTITY_STOP] = start, last
    return end + 1
