"""The text format of SVMlight and LIBSVM to features in one compiled pass.

    label index:value index:value ... # comment

Theory of operation
    Words are parted by spaces or tabs; `#` and what follows it is passed over, whatever its bytes are. A row to predict may
    carry a label, as files do; it is not looked at. An index is a decimal number from 0 to 2^63 - 1 written the one way
    there is, because it is the feature's name: `3` here is `"3"` in JSON and `| 3` in VW text. Indices come in any order,
    none of them twice. Query ids are refused: to drop them in silence would lose what ranking needs. A blank line, or one
    of comment alone, is no row; a carriage return before the newline is dropped.

    Lines with a number next to a tie are left to `slow_svmlight`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U8
from riata.maths.hashing import NUMBER, hash_name
from riata.maths.kernel import inline_kernel, kernel
from riata.wire.codes import (
    BAD_INDEX, BAD_NUMBER, DUPLICATE_INDEX, DUPLICATE_KEY, HANDOVER, MISSING_LABEL, OK, QID_NOT_SUPPORTED, SYNTAX,
    TOO_MANY_FEATURES, TOO_MANY_IN_ROW, TOO_MANY_ROWS,
)  # fmt: skip
from riata.wire.lines import COLON, blame, close_row, line_span, open_row, read_label, skip_spaces, word_end
from riata.wire.numbers import HAND_OVER, NOT_A_NUMBER, parse_number, take_digits
from riata.wire.rows import AT, KEY, PLAIN, ROWS, Row, Rules, Sink
from riata.wire.slow_lines import slow_svmlight as slow_svmlight

HASH: Final = 35
_INDEX_MAX = np.uint64(2**63 - 1)
_ZERO: Final = 48
_NOTHING = np.uint64(0)


@kernel
def read_svmlight(data: U8, ends: I64, row: Row, sink: Sink, rules: Rules) -> int:
    """Read a body of SVMlight text.

    Parameters
    ----------
    data : u8[...]     the body
    ends : i64[k + 1]  line i is data[ends[i]:ends[i + 1] - 1]
    row : Row          scratch
    sink : Sink        one row for each line that is neither blank nor all comment
    rules : Rules

    Returns            OK; or TOO_MANY_ROWS or TOO_MANY_FEATURES, which end the reading
    Cost               two looks at each byte, one hash for each feature
    Source             this module's theory of operation
    """
    number = 0
    for k in range(len(ends) - 1):
        start, stop = line_span(data, ends[k], ends[k + 1] - 1)
        if start == stop or data[start] == HASH:
            continue
        if number >= len(sink.code):
            return TOO_MANY_ROWS
        open_row(sink, number, start, stop)
        comment = start
        while comment < stop and data[comment] != HASH:
            comment += 1
        n = read_pairs(data, start, comment, row, sink, rules, number)
        code = close_row(row, n, sink, rules, number)
        if code == TOO_MANY_FEATURES:
            return TOO_MANY_FEATURES
        if code == DUPLICATE_KEY:
            sink.code[number] = DUPLICATE_INDEX
        number += 1
        sink.count[ROWS] = number
    return OK


@inline_kernel
def colon_in(data: U8, p: int, stop: int) -> int:
    """First position from `p` that holds a colon, or `stop`. Source: this module's theory of operation."""
    while p < stop and data[p] != COLON:
        p += 1
    return p


@kernel
def read_pairs(data: U8, start: int, stop: int, row: Row, sink: Sink, rules: Rules, number: int) -> int:
    """Read the label and the features of one line.

    Parameters
    ----------
    data : u8[...]     the body
    start, stop : int  first byte that is no space; the comment, or the end of the line
    row : Row          records are written
    sink : Sink        label[number] is written, and who is to blame
    rules : Rules      key, labels and labelled
    number : int

    Returns            how many records, or minus a code
    Cost               two looks at each byte, one hash for each feature
    Source             this module's theory of operation
    """
    place = sink.place[number]
    p = start
    end = word_end(data, p, stop)
    if colon_in(data, p, end) == end:
        if rules.labelled:
            sink.label[number], fault = read_label(data, p, end, rules)
            if fault != OK:
                return -fault
        p = skip_spaces(data, end, stop)
    elif rules.labelled:
        return -MISSING_LABEL
    # The arrays are taken out of their tuple once: to do so for every feature costs more than to read the feature.
    fingerprint, value, kind, span = row.fingerprint, row.value, row.kind, row.span
    n, code, colon = 0, OK, p
    while p < stop:
        end = word_end(data, p, stop)
        colon = colon_in(data, p, end)
        number, code = read_pair(data, p, colon, end)
        if n >= len(value):
            code = TOO_MANY_IN_ROW
        if code != OK:
            break
        fingerprint[n] = hash_name(data, p, colon, rules.key, NUMBER)
        value[n] = number
        kind[n] = PLAIN | KEY  # KEY, so that an index that comes twice is seen
        span[n, 0], span[n, 1], span[n, 2], span[n, 3] = p, p, p, colon
        n += 1
        p = skip_spaces(data, end, stop)
    if code == OK:
        return n
    place[AT] = p
    return blame(place, p, colon if code == BAD_INDEX or code == BAD_NUMBER else p, code)


@kernel
def read_pair(data: U8, start: int, colon: int, stop: int) -> tuple[float, int]:
    """Read one `index:value`.

    Parameters
    ----------
    data : u8[...]             the body
    start, colon, stop : int   the word and its colon; colon == stop where there is none

    Returns            (value, OK), or (0, why it is refused)
    Cost               one look at each byte
    Source             this module's theory of operation
    """
    code = OK
    number, status = 0.0, NOT_A_NUMBER
    if colon == stop:
        code = SYNTAX
    elif not is_index(data, start, colon):
        code = BAD_INDEX
        if colon - start == 3 and data[start] == 0x71 and data[start + 1] == 0x69 and data[start + 2] == 0x64:  # qid
            code = QID_NOT_SUPPORTED
    else:
        number, status = parse_number(data, colon + 1, stop, False)
        if status == HAND_OVER:
            code = HANDOVER
        elif status == NOT_A_NUMBER:
            code = BAD_NUMBER
    return number, code


@kernel
def is_index(data: U8, start: int, stop: int) -> bool:
    """Say whether the bytes start:stop are a decimal number from 0 to 2^63 - 1 without leading zeros.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int

    Returns            true where they are
    Cost               one look at each byte
    Source             this module's theory of operation
    """
    digits, _, passed, _, end = take_digits(data, start, stop, _NOTHING, 0)
    if end != stop or start == stop or passed > 0:
        return False
    return digits <= _INDEX_MAX and (stop - start == 1 or data[start] != _ZERO)
