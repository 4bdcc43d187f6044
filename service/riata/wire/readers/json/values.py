"""Whole values of JSON, skipped: this decides whether a row that is refused for another reason is well-formed."""

from __future__ import annotations

from riata.base.arrays import U8
from riata.base.limits import JSON_DEPTH_MAX
from riata.jit.kernel import kernel
from riata.wire.codes import OK, SYNTAX, TOO_DEEP
from riata.wire.readers.json.grammar import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    MINUS,
    NINE,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    ZERO,
    literal_end,
    number_end,
    scan_string,
    skip_space,
)
from riata.wire.scan.numbers import NOT_A_NUMBER, parse_number


@kernel
def skip_key(data: U8, p: int, stop: int) -> int:
    """Skip a key and its colon.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      where the opening quote should be; end of what may be read

    Returns            position after the colon, or -1 - position of the fault
    Cost               one read of each byte
    Source             RFC 8259, section 4
    """
    if p >= stop or data[p] != QUOTE:
        return -1 - p
    p, _ = scan_string(data, p + 1, stop)
    if p < 0:
        return p
    p = skip_space(data, p + 1, stop)
    if p >= stop or data[p] != COLON:
        return -1 - p
    return p + 1


@kernel
def skip_scalar(data: U8, p: int, stop: int) -> int:
    """Skip a string, number, `true`, `false` or `null`.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      first byte of it; end of what may be read, p < stop

    Returns            position after it, or -1 - position of the fault
    Cost               one read of each byte
    Source             RFC 8259, section 3
    """
    if data[p] == QUOTE:
        end, _ = scan_string(data, p + 1, stop)
        return end + 1 if end >= 0 else end
    if data[p] == MINUS or ZERO <= data[p] <= NINE:
        end = number_end(data, p, stop)
        _, status = parse_number(data, p, end, True)
        return -1 - p if status == NOT_A_NUMBER else end
    return literal_end(data, p, stop)


@kernel
def skip_value(data: U8, p: int, stop: int, depth: int) -> tuple[int, int]:
    """Skip one value of any kind. This decides whether a row that is refused for another reason is well-formed.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      first byte of it; end of what may be read
    depth : int        how many arrays and objects it is already in

    Returns            (OK, position after it), (SYNTAX, position) or (TOO_DEEP, position)
    Cost               one read of each byte, no recursion
    Source             RFC 8259; the kind of every open bracket is one bit of `objects`
    """
    objects, level = 0, 0
    while True:
        p = skip_space(data, p, stop)
        if p >= stop:
            return SYNTAX, p
        if data[p] == OPEN_OBJECT or data[p] == OPEN_LIST:
            if depth + level >= JSON_DEPTH_MAX:
                return TOO_DEEP, p
            is_object = data[p] == OPEN_OBJECT
            level, objects = level + 1, objects << 1 | int(is_object)
            p = skip_space(data, p + 1, stop)
            if p >= stop or data[p] != (CLOSE_OBJECT if is_object else CLOSE_LIST):
                p = skip_key(data, p, stop) if is_object else p
                if p < 0:
                    return SYNTAX, -1 - p
                continue
            # An empty one: continue with the closing below.
        else:
            p = skip_scalar(data, p, stop)
            if p < 0:
                return SYNTAX, -1 - p
        while level > 0:
            p = skip_space(data, p, stop)
            if p < stop and data[p] == (CLOSE_OBJECT if objects & 1 else CLOSE_LIST):
                level, objects, p = level - 1, objects >> 1, p + 1
                continue
            if p >= stop or data[p] != COMMA:
                return SYNTAX, p
            break
        if level == 0:
            return OK, p
        p = skip_space(data, p + 1, stop)
        if objects & 1:
            p = skip_key(data, p, stop)
            if p < 0:
                return SYNTAX, -1 - p
