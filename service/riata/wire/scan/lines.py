"""Shared by the line formats (VW text, svmlight): blank lines, spaces, ASCII, labels, and how the result of a row is stored."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U8
from riata.jit.kernel import inline_kernel, kernel
from riata.wire.codes import BAD_LABEL, HANDOVER, OK
from riata.wire.labels import CLASSES, is_plain_class, label_of
from riata.wire.rows import (
    AT,
    CLASS_START,
    CLASS_STOP,
    FIELD_START,
    FIELD_STOP,
    ID_START,
    ID_STOP,
    IN_FEATURES,
    PLAIN,
    ROW_START,
    ROW_STOP,
    BatchBuilder,
    RecordScratch,
    Rules,
)
from riata.wire.scan.assemble import finish_row
from riata.wire.scan.numbers import EXACT, HAND_OVER, NOT_A_NUMBER, parse_number
from riata.wire.scan.tokens import settle

SPACE: Final = 32
TAB: Final = 9
RETURN: Final = 13
COLON: Final = 58
DELETE: Final = 127
_ZERO, _NINE, _MINUS, _SIGNED = 48, 9, 45, 2  # a digit, and a sign and a digit
_HIGH_BIT = np.uint8(0x80)
_NO_BITS = np.uint8(0)


@inline_kernel
def is_space(c: int) -> bool:
    """True for a space or a tab, which separate the fields of a line. Source: the documentation of both formats."""
    return c in (SPACE, TAB)


@inline_kernel
def skip_spaces(data: U8, p: int, stop: int) -> int:
    """First position from `p` that is not a space or tab. Source: the documentation of both formats."""
    while p < stop and (data[p] == SPACE or data[p] == TAB):
        p += 1
    return p


@inline_kernel
def word_end(data: U8, p: int, stop: int) -> int:
    """First position from `p` that is a space or tab. Source: the documentation of both formats."""
    while p < stop and not (data[p] == SPACE or data[p] == TAB):
        p += 1
    return p


@kernel
def is_ascii(data: U8, start: int, stop: int) -> bool:
    """Return whether the bytes start:stop are all below 0x80.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int

    Returns            true if they are
    Cost               one read of each byte, many at a time
    Source             the definition of UTF-8
    """
    every = _NO_BITS
    for p in range(start, stop):
        every |= data[p]
    return bool((every & _HIGH_BIT) == _NO_BITS)


@kernel
def line_span(data: U8, start: int, stop: int) -> tuple[int, int]:
    """Trim a line: a trailing carriage return, and the white space before its first word.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int  the line, without its newline

    Returns            (start, stop) of the rest; equal if the line is blank
    Cost               a few bytes
    Source             the documentation of both formats
    """
    if stop > start and data[stop - 1] == RETURN:
        stop -= 1
    return skip_spaces(data, start, stop), stop


@kernel
def read_label(data: U8, start: int, stop: int, rules: Rules) -> tuple[float, int]:
    """Read a label according to the model's setting.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int  the label, a decimal number or the name of a class
    rules : Rules      labels

    Returns            (label, OK), (0, BAD_LABEL) or (0, HANDOVER); a label of -1/+1 becomes 0 or 1, a name NaN
    Cost               one number
    Source             the HTTP contract
    """
    digit = int(data[stop - 1]) - _ZERO
    if 0 <= digit <= _NINE and (stop - start == 1 or (stop - start == _SIGNED and data[start] == _MINUS)):  # the common case
        value, status = float(digit if stop - start == 1 else -digit), EXACT
    else:
        value, status = parse_number(data, start, stop, False)
    if status == HAND_OVER:
        return 0.0, HANDOVER
    label = label_of(value, rules)
    if status == NOT_A_NUMBER and rules.labels == CLASSES and is_plain_class(data, start, stop):
        return np.nan, OK
    if status == NOT_A_NUMBER or label != label:
        return 0.0, BAD_LABEL
    return label, OK


@inline_kernel
def take_label(data: U8, start: int, stop: int, sink: BatchBuilder, rules: Rules, number: int) -> int:
    """Read the label start:stop of row `number`, if it is required: OK, or why it is refused. Source: as `read_label`."""
    if not rules.labelled:
        return OK
    label, code = read_label(data, start, stop, rules)
    if label != label:
        sink.place[number, CLASS_START], sink.place[number, CLASS_STOP] = start, stop
        label = 0.0
    sink.label[number] = label
    return code


@inline_kernel
def blame(place: I64, start: int, stop: int, code: int) -> int:
    """Store the span of the bytes at fault; returns minus the code. Source: the columns of BatchBuilder.place."""
    place[FIELD_START] = start
    place[FIELD_STOP] = stop
    return -code


@inline_kernel
def open_row(sink: BatchBuilder, number: int, start: int, stop: int) -> None:
    """Store where row `number` is, no field at fault, and the default label and weight. Source: columns of BatchBuilder.place."""
    place = sink.place[number]
    place[ROW_START] = start
    place[ROW_STOP] = stop
    place[AT] = start
    place[FIELD_START] = start
    place[FIELD_STOP] = start
    place[ID_START], place[ID_STOP], place[IN_FEATURES], place[CLASS_START], place[CLASS_STOP] = 0, 0, 0, 0, 0
    sink.label[number], sink.weight[number] = np.nan, 1.0


@inline_kernel
def close_row(row: RecordScratch, n: int, sink: BatchBuilder, rules: Rules, number: int) -> int:
    """Finish row `number` and store its code, whether its reading succeeded or not.

    Parameters
    ----------
    row : RecordScratch  n records; scratch is overwritten
    n : int              how many, or minus the code of a failed reading
    sink : BatchBuilder  code[number], and for a good row what `finish_row` adds
    rules : Rules
    number : int

    Returns              the code stored
    Cost                 as `finish_row`
    Source               wire.rows, theory of operation
    """
    code = -n if n < 0 else OK
    if n >= 0:
        code, record = finish_row(row, n, sink, rules, number)
        if code != OK:
            settle(row)
            first = row.span[record, 0] if row.kind[record] & 3 != PLAIN else row.span[record, 2]
            blame(sink.place[number], first, row.span[record, 3], code)
    row.owed[0] = 0
    sink.code[number] = code
    return code
