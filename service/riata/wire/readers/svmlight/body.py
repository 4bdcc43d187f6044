"""The text format of SVMlight and LIBSVM to features in one compiled pass.

    label index:value index:value ... # comment

Theory of operation
    Words are separated by spaces or tabs. `#` and everything after it is skipped, whatever its bytes are. A row to predict may
    carry a label, as files do; it is not read. An index is a decimal number from 0 to 2^63 - 1 in its only canonical form,
    because it is the feature's name: `3` here is `"3"` in JSON and `| 3` in VW text. Indices come in any order, without
    repetitions. Query ids are refused: to drop them silently would lose what ranking needs. A blank line, or one that is only
    a comment, is not a row. A carriage return before the newline is dropped.

    Lines with a number next to a tie are left to `reference_svmlight`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.jit.kernel import kernel
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import leading_digits, load_word
from riata.maths.hashing import NUMBER, hash_name
from riata.wire.codes import (
    BAD_INDEX,
    BAD_NUMBER,
    DUPLICATE_INDEX,
    DUPLICATE_KEY,
    HANDOVER,
    MISSING_LABEL,
    OK,
    QID_NOT_SUPPORTED,
    SYNTAX,
    TOO_MANY_FEATURES,
    TOO_MANY_IN_ROW,
    TOO_MANY_ROWS,
)  # fmt: skip
from riata.wire.rows import AT, KEY, PLAIN, ROWS, BatchBuilder, RecordScratch, Rules, borrow_row, borrow_rules, borrow_sink
from riata.wire.scan.delimiters import Text, position, take_in
from riata.wire.scan.lines import COLON, blame, close_row, is_space, line_span, open_row, skip_spaces, take_label, word_end
from riata.wire.scan.numbers import HAND_OVER, NOT_A_NUMBER, parse_prefix, take_digits
from riata.wire.scan.simple_numbers import fast_number
from riata.wire.scan.tokens import svmlight_tokens

HASH: Final = 35
_WORD_BYTES: Final = 8
_INDEX_MAX = np.uint64(2**63 - 1)
_ZERO: Final = 48
_NOTHING = np.uint64(0)


@kernel
def read_svmlight(text: Text, row: RecordScratch, sink: BatchBuilder, rules: Rules) -> int:
    """Read a body of SVMlight text.

    Parameters
    ----------
    text : Text        the body; its buffer is written
    row : RecordScratch  scratch
    sink : BatchBuilder  one row for each line that is neither blank nor only a comment
    rules : Rules

    Returns            OK; or TOO_MANY_ROWS or TOO_MANY_FEATURES, which end the reading
    Cost               two reads of each byte, one hash for each feature
    Source             this module's theory of operation
    """
    data, ends, row, sink, rules = borrow(text.data), borrow(text.ends), borrow_row(row), borrow_sink(sink), borrow_rules(rules)
    number, k, known, taken = 0, 0, 0, 0
    while True:
        if k == known:
            known, taken = take_in(text, known, taken)
            if k == known:
                return OK
        start, stop = line_span(data, ends[k], ends[k + 1] - 1)
        k += 1
        if start == stop or data[start] == HASH:
            continue
        if number >= len(sink.code):
            return TOO_MANY_ROWS
        open_row(sink, number, start, stop)
        n = svmlight_tokens(data, start, stop, row, rules.key)
        if n >= 0:
            fault = take_label(data, start, position(row.position, 0), sink, rules, number)
            n = n if fault == OK else -fault
        else:
            comment = stop
            if holds_hash(data, start, stop):
                comment = start
                while data[comment] != HASH:
                    comment += 1
            n = read_pairs(data, start, comment, row, sink, rules, number)
        code = close_row(row, n, sink, rules, number)
        if code == TOO_MANY_FEATURES:
            return TOO_MANY_FEATURES
        if code == DUPLICATE_KEY:
            sink.code[number] = DUPLICATE_INDEX
        number += 1
        sink.count[ROWS] = number


@kernel
def holds_hash(data: U8, start: int, stop: int) -> bool:
    """Return whether there is a `#` among the bytes start:stop.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int

    Returns            true if there is
    Cost               one read of each byte, many at a time, because it does not stop early
    Source             this module's theory of operation
    """
    found = False
    for p in range(start, stop):
        found |= data[p] == HASH
    return bool(found)


@kernel
def read_pairs(data: U8, start: int, stop: int, row: RecordScratch, sink: BatchBuilder, rules: Rules, number: int) -> int:
    """Read the label and the features of one line.

    Parameters
    ----------
    data : u8[...]     the body
    start, stop : int  first byte that is not a space; the comment, or the end of the line
    row : RecordScratch  records are written
    sink : BatchBuilder  label[number] is written, and where the class or the field at fault is
    rules : Rules      key, labels and labelled
    number : int

    Returns            how many records, or minus a code
    Cost               two reads of each byte, one hash for each feature
    Source             this module's theory of operation
    """
    place = sink.place[number]
    p = start
    end = word_end(data, p, stop)
    has_colon = False
    for q in range(p, end):
        has_colon |= data[q] == COLON
    if not has_colon:
        fault = take_label(data, p, end, sink, rules, number)
        if fault != OK:
            return -fault
        p = skip_spaces(data, end, stop)
    elif rules.labelled:
        return -MISSING_LABEL
    data, row = borrow(data), borrow_row(row)
    fingerprint, value, kind, span = row.fingerprint, row.value, row.kind, row.span
    n, code, colon = 0, OK, p
    while p < stop:
        after, colon, given, code = read_pair(data, p, stop)
        if code == OK and n >= len(value):
            code = TOO_MANY_IN_ROW
        if code != OK:
            break
        fingerprint[n] = hash_name(data, p, colon, rules.key, NUMBER)
        value[n] = given
        kind[n] = PLAIN | KEY  # KEY, so that an index that comes twice is detected
        span[n, 0], span[n, 1], span[n, 2], span[n, 3] = p, p, p, colon
        n += 1
        p = skip_spaces(data, after, stop)
    if code == OK:
        return n
    place[AT] = p
    return blame(place, p, colon if code in (BAD_INDEX, BAD_NUMBER) else p, code)


@kernel
def read_pair(data: U8, start: int, stop: int) -> tuple[int, int, float, int]:
    """Read one `index:value`.

    Parameters
    ----------
    data : u8[...]     the body
    start, stop : int  its first byte; end of the line

    Returns
    -------
    after : int        where it ends; undefined if it is refused
    colon : int        where its index ends
    value : float
    code : int         OK, or why it is refused

    Cost               two reads of each byte of the index, one of the others
    Source             this module's theory of operation
    """
    data = borrow(data)
    colon = start
    usual = False
    if start + _WORD_BYTES <= stop:
        _, digits = leading_digits(load_word(data, start))
        usual = 0 < digits < _WORD_BYTES and data[start + digits] == COLON and (digits == 1 or data[start] != _ZERO)
        colon += digits if usual else 0
    while colon < stop and not (data[colon] == COLON or is_space(data[colon])):
        colon += 1
    after, value, code = colon, 0.0, OK
    if colon == stop or data[colon] != COLON:
        code = SYNTAX
    elif not usual and not is_index(data, start, colon):
        code = BAD_INDEX
        if colon - start == 3 and data[start] == 0x71 and data[start + 1] == 0x69 and data[start + 2] == 0x64:  # qid
            code = QID_NOT_SUPPORTED
    else:
        value, status, after = fast_number(data, colon + 1)
        if after < 0 or after > stop:
            value, status, after = parse_prefix(data, colon + 1, stop, False)
        if status == NOT_A_NUMBER or (after < stop and not is_space(data[after])):
            code = BAD_NUMBER
        elif status == HAND_OVER:
            code = HANDOVER
    return after, colon, value, code


@kernel
def is_index(data: U8, start: int, stop: int) -> bool:
    """Return whether the bytes start:stop are a decimal number from 0 to 2^63 - 1 without leading zeros.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int

    Returns            true if they are
    Cost               one read of each byte
    Source             this module's theory of operation
    """
    digits, _, passed, _, end = take_digits(data, start, stop, _NOTHING, 0)
    if end != stop or start == stop or passed > 0:
        return False
    return bool(digits <= _INDEX_MAX and (stop - start == 1 or data[start] != _ZERO))
