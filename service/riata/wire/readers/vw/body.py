"""The text format of Vowpal Wabbit to features in one compiled pass.

    [label [importance [base]]] ['tag]|namespace[:scale] feature[:value] ... |namespace ...

Theory of operation
    Before the first bar, words are separated by spaces or tabs. The last of them is a tag if it touches the bar or begins
    with a quote. Tags repeat, so they are not event ids and are skipped. The others are the label, the importance
    weight (1 if absent) and a base, an initial prediction, which must be 0. A row to predict may carry label and
    importance, as files do; they are not read.

    A word that touches a bar is a namespace. Its scale multiplies the numbers in it. With a space after the bar, the namespace
    has no name. A feature is a name, or a name and a number, or a name and a word:

        |user age:41        user^age          41 times the scale
        |user member        user^member       the scale
        |user city:paris    user^city:paris   1: an indicator, to which no scale applies
        | age:41 city:paris   age, city=paris   the features with these names in JSON
        |user :7 :8         user^0, user^1    nameless features are numbered within their namespace

    A value that begins like a number, or is an infinity or NaN, and is not a decimal number, is refused and not taken for a
    word. Features that come twice are summed. A carriage return before the newline is dropped, and a blank line is not a
    row. Names hold no other control characters. The only quoting is that of the tag.

    Names are in normal form C. Numbers of more than 19 digits next to a tie are left to `reference_vw`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U8
from riata.base.limits import WEIGHT_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.memory import peek
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import load_word
from riata.maths.hashing import FIELD_NAMESPACE, NUMBER, hash_name
from riata.wire.codes import (
    BAD_WEIGHT,
    BASE_NOT_SUPPORTED,
    HANDOVER,
    INVALID_UTF8,
    MISSING_LABEL,
    OK,
    SYNTAX,
    TOO_MANY_FEATURES,
    TOO_MANY_IN_ROW,
    TOO_MANY_ROWS,
)  # fmt: skip
from riata.wire.labels import label_of
from riata.wire.readers.vw.fast import LEFT, fast_vw
from riata.wire.readers.vw.features import BAR, read_feature, read_namespace
from riata.wire.rows import (
    AT,
    EQUALS,
    NAMESPACE,
    PLAIN,
    ROWS,
    SHADOWED,
    BatchBuilder,
    RecordScratch,
    Rules,
    borrow_row,
    borrow_rules,
    borrow_sink,
)
from riata.wire.scan.delimiters import VW, Text, mark_row, take_in
from riata.wire.scan.lines import (
    DELETE,
    SPACE,
    blame,
    close_row,
    is_ascii,
    is_space,
    line_span,
    open_row,
    skip_spaces,
    take_label,
    word_end,
)
from riata.wire.scan.numbers import HAND_OVER, NOT_A_NUMBER, parse_number
from riata.wire.scan.tokens import vw_tokens
from riata.wire.scan.unicode import string_code

QUOTE: Final = 39
SIDE: Final = 1  # place of `mark`: first free byte of the side area after the body, for names of nameless features
_WORDS_MAX: Final = 3  # label, importance, base
_WORD_BYTES: Final = 8
_ZERO, _NINE = 48, 9
_3, _BYTE, _MINUS = np.uint64(3), np.uint64(255), np.uint64(45)
_TWO_BEHIND, _SPACE_AND_BAR = np.uint64(0xFFFF00), np.uint64(0x7C2000)


@kernel
def read_vw(text: Text, row: RecordScratch, sink: BatchBuilder, rules: Rules) -> int:
    """Read a body of VW text.

    Parameters
    ----------
    text : Text        the body; its buffer is written
    row : RecordScratch  scratch
    sink : BatchBuilder  one row for each line that is not blank
    rules : Rules

    Returns            OK; or TOO_MANY_ROWS or TOO_MANY_FEATURES, which end the reading
    Cost               two reads of each byte, one hash for each feature
    Source             this module's theory of operation
    """
    data, ends, row, sink, rules = borrow(text.data), borrow(text.ends), borrow_row(row), borrow_sink(sink), borrow_rules(rules)
    number, k, known, taken, is_crossed = 0, 0, 0, 0, len(rules.crosses) > 0
    row.mark[SIDE] = text.size + 1
    while True:
        if k == known:
            known, taken = take_in(text, known, taken)
            if k == known:
                return OK
        start, stop = line_span(data, ends[k], ends[k + 1] - 1)
        k += 1
        if start == stop:
            continue
        if number >= len(sink.code):
            return TOO_MANY_ROWS
        open_row(sink, number, start, stop)
        bar = file_digit(data, start, sink, rules, number)
        is_filed = plain = bar > start
        if not is_filed:
            bar, plain = start, True
            while bar < stop and data[bar] != BAR:
                plain &= SPACE <= peek(data, bar) < DELETE
                bar += 1
        n = vw_tokens(data, bar, stop, row, VW, rules.key) if plain and bar < stop and not is_crossed else LEFT
        if n < 0:
            marks = mark_row(data, start, stop, VW, row.position)
            n = fast_vw(data, bar, stop, row, rules) if marks != 0 else LEFT
            if n >= 0 and marks < 0 and string_code(data, start, stop) != OK:
                n = LEFT
        if n >= 0 and not is_filed:
            code = read_front(data, start, bar, sink, rules, number)
            n = code if code < 0 else n
        if n == LEFT:
            n = read_any(data, start, bar, stop, row, sink, rules, number)
        if close_row(row, n, sink, rules, number) == TOO_MANY_FEATURES:
            return TOO_MANY_FEATURES
        number += 1
        sink.count[ROWS] = number


@kernel
def read_any(data: U8, start: int, bar: int, stop: int, row: RecordScratch, sink: BatchBuilder, rules: Rules, number: int) -> int:
    """Read any line.

    Parameters
    ----------
    data : u8[...]     the body
    start, bar, stop : int   first byte of the line; its first bar; its end
    row : RecordScratch  records are written
    sink : BatchBuilder  label[number] and weight[number] are written, and the field at fault
    rules : Rules
    number : int

    Returns            how many records, or minus a code
    Cost               two reads of each byte, one hash for each feature
    Source             this module's theory of operation
    """
    if not is_ascii(data, start, stop) and string_code(data, start, stop) == INVALID_UTF8:
        return -INVALID_UTF8
    n = read_front(data, start, bar, sink, rules, number)
    return n if n < 0 else read_namespaces(data, bar, stop, row, rules, sink.place[number])


@inline_kernel
def file_digit(data: U8, start: int, sink: BatchBuilder, rules: Rules, number: int) -> int:
    """Read what is before the first bar if that is one digit, with an optional minus, and a space. Returns the bar's position.

    Returns `start` if it is anything else, or not a label. The sign has no branch: in many files it is random, and mispredicted.
    Source: this module's theory of operation; `read_front` reads the same.
    """
    if start + _WORD_BYTES > len(data):
        return start
    word = load_word(data, start)
    negative = np.uint64((word & _BYTE) == _MINUS)
    word >>= negative << _3
    sign = int(np.int64(negative))
    digit = int(np.int64(word & _BYTE)) - _ZERO
    if not 0 <= digit <= _NINE or word & _TWO_BEHIND != _SPACE_AND_BAR:
        return start
    if rules.labelled:
        label = label_of(float(digit - 2 * sign * digit), rules)
        if label != label:
            return start
        sink.label[number] = label
    return start + sign + 2


@inline_kernel
def read_front(data: U8, start: int, bar: int, sink: BatchBuilder, rules: Rules, number: int) -> int:
    """Read what is before the first bar.

    Parameters
    ----------
    data : u8[...]     the body
    start, bar : int   first byte of the line; its first bar, or its end if there is none
    sink : BatchBuilder  label[number] and weight[number] are written
    rules : Rules      labels and labelled
    number : int

    Returns            0, or minus a code
    Cost               at most three numbers
    Source             this module's theory of operation
    """
    place = sink.place[number]
    place[AT] = bar
    if data[bar] != BAR:  # also readable at the end of the line: a newline or a carriage return
        return -SYNTAX
    last = bar
    while last > start and is_space(data[last - 1]):
        last -= 1
    stop = last
    while last > start and not is_space(data[last - 1]):
        last -= 1
    if last < stop and stop != bar and data[last] != QUOTE:
        last = stop  # the last word is not a tag
    words = 0
    p = skip_spaces(data, start, last)
    while p < last:
        end = word_end(data, p, last)
        code = OK
        if words == 0:
            code = take_label(data, p, end, sink, rules, number)
        elif words == 1 and rules.labelled:
            value, status = parse_number(data, p, end, False)
            sink.weight[number] = value
            if status == HAND_OVER:
                code = HANDOVER
            elif status == NOT_A_NUMBER or not 0.0 < value <= WEIGHT_MAX:
                code = BAD_WEIGHT
        elif words == 2:
            value, status = parse_number(data, p, end, False)
            if status == NOT_A_NUMBER or value != 0.0:
                code = BASE_NOT_SUPPORTED
        elif words == _WORDS_MAX:
            place[AT] = p
            code = SYNTAX
        if code != OK:
            return -code
        words += 1
        p = skip_spaces(data, end, last)
    return -MISSING_LABEL if rules.labelled and words == 0 else 0


@inline_kernel
def number_name(data: U8, at: int, number: int) -> tuple[int, int, int]:
    """Write the name of a nameless feature, its number, to the side area: (start, stop, next free byte). Source: place values."""
    size, rest = 1, number
    while rest > _NINE:
        rest //= 10
        size += 1
    for i in range(size):
        data[at + size - 1 - i] = _ZERO + number % 10
        number //= 10
    return at, at + size, at + size


@inline_kernel
def put_field(data: U8, start: int, stop: int, row: RecordScratch, n: int, rules: Rules) -> int:
    """Write record n, which tells the field of those after it, start:stop of the body; n + 1. Source: wire.rows, CROSSED."""
    row.fingerprint[n], row.value[n] = hash_name(data, start, stop, rules.key, NUMBER), 0.0
    row.kind[n] = PLAIN | SHADOWED
    row.span[n, 0], row.span[n, 1], row.span[n, 2], row.span[n, 3] = start, stop, start, stop
    return n + 1


@kernel
def read_namespaces(data: U8, p: int, stop: int, row: RecordScratch, rules: Rules, place: I64) -> int:
    """Read everything from the first bar on.

    Parameters
    ----------
    data : u8[...]     the body
    p, stop : int      the first bar; end of the line
    row : RecordScratch  records are written
    rules : Rules      key and crosses
    place : i64[PLACES]   the field at fault is written

    Returns            how many records, or minus a code
    Cost               one read of each byte, one hash for each feature
    Source             this module's theory of operation
    """
    data, row, place = borrow(data), borrow_row(row), borrow(place)
    fingerprint, value, kind, span = row.fingerprint, row.value, row.kind, row.span
    n, code = 0, OK
    while p < stop and code == OK:
        start, nameless = p + 1, 0
        p, named, scale, code = read_namespace(data, start, stop)
        if code != OK:
            blame(place, start, named, code)
            break
        if len(rules.crosses) > 0 and named > start:
            if n >= len(value):
                code = TOO_MANY_IN_ROW
                break
            n = put_field(data, start, named, row, n, rules)
        key = rules.key if named == start else hash_name(data, start, named, rules.key, FIELD_NAMESPACE)
        p = skip_spaces(data, p, stop)
        while p < stop and data[p] != BAR:
            if n >= len(value):
                code = TOO_MANY_IN_ROW
                break
            after, end, number, fresh, code = read_feature(data, p, stop, key)
            if code != OK:
                blame(place, p, end, code)
                break
            if end == p:
                p, end, row.mark[SIDE] = number_name(data, row.mark[SIDE], nameless)
                fresh = hash_name(data, p, end, key, NUMBER)
                nameless += 1
            is_named = named > start
            if len(rules.crosses) > 0 and number != number and not is_named and n + 1 < len(value):
                n = put_field(data, p, end, row, n, rules)
            fingerprint[n] = fresh
            if number == number:
                value[n] = number * scale
                kind[n] = NAMESPACE if is_named else PLAIN
                span[n, 0], span[n, 1], span[n, 2], span[n, 3] = start, named, p, end
            else:
                value[n] = 1.0
                kind[n] = NAMESPACE if is_named else EQUALS
                span[n, 0], span[n, 1] = (start, named) if is_named else (p, end)
                span[n, 2], span[n, 3] = p if is_named else end + 1, after
            n += 1
            p = skip_spaces(data, after, stop)
    return n if code == OK else -code
