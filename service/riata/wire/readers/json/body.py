"""JSON and NDJSON bodies to features in one compiled pass.

Theory of operation
    Every row goes from its bytes straight into records (`wire.rows`). `fast_example` goes from delimiter to delimiter; what it
    does not expect in a feature it leaves to `read_feature`, which knows every kind, and any other example to `read_example`.
    Strings with escapes are written without them to the side area after the body. A row with bytes above 0x7F is checked as a
    whole, 8 plain bytes at a time, and if that is not enough string by string.

    A row ends in one of three ways: accepted; refused, with a code and the name at fault; or handed over (HANDOVER) to the
    reference reader: a number of more than 19 digits too close to a tie, or a text of the old rule of words. `skip_value` then
    scans refused rows again. It finds their end, and gives a syntax error, and after it bytes that are not UTF-8, precedence over
    any other reason, as a decoder that parses before it validates would.

    Readers return a position, or minus a code. They report the rest through `mark` (`wire.readers.json.texts` names its places).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, I64, U8
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.wire.codes import (
    BY_PREDICTION,
    DUPLICATE_KEY,
    INVALID_UTF8,
    MISSING_FEATURES,
    MISSING_LABEL,
    NOT_OBJECT,
    OK,
    SYNTAX,
    TOO_DEEP,
    TOO_MANY_FEATURES,
    TOO_MANY_ROWS,
    UNKNOWN_KEY,
)
from riata.wire.readers.json.fast import fast_example
from riata.wire.readers.json.features import read_features
from riata.wire.readers.json.grammar import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    LETTER_N,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    literal_end,
    scan_string,
    skip_space,
)
from riata.wire.readers.json.members import (
    FEATURES,
    LABEL,
    PREDICTION_ID,
    WEIGHT,
    known_key,
    read_number_member,
    read_string_member,
)
from riata.wire.readers.json.texts import (
    BLAME_INSIDE,
    BLAME_START,
    BLAME_STOP,
    CHECKED,
    CLASS_FROM,
    CLASS_TO,
    COUNT,
    IDENTITY_START,
    IDENTITY_STOP,
    MARKS,
    SIDE,
    STOPPED,
    SUBJECT_FROM,
    SUBJECT_TO,
    TIME_READ,
    TIME_SEEN,
    WINDOW,
    fail,
    plain_string,
)
from riata.wire.readers.json.values import skip_value
from riata.wire.rows import (
    AT,
    CLASS_START,
    CLASS_STOP,
    FIELD_START,
    FIELD_STOP,
    FOUND,
    ID_START,
    ID_STOP,
    IN_FEATURES,
    PLAIN,
    ROW_START,
    ROW_STOP,
    ROWS,
    SUBJECT_START,
    SUBJECT_STOP,
    TIME_AT,
    TIME_MS,
    BatchBuilder,
    RecordScratch,
    Rules,
    borrow_row,
    borrow_rules,
    borrow_sink,
)
from riata.wire.scan.assemble import finish_row
from riata.wire.scan.delimiters import JSON, Text, mark_row, take_in
from riata.wire.scan.lines import is_ascii
from riata.wire.scan.tokens import settle
from riata.wire.scan.unicode import string_code

_WINDOW_MIN: Final = 4096


@kernel
def read_member(data: U8, p: int, stop: int, row: RecordScratch, rules: Rules, mark: I64, out: F64, which: int) -> int:
    """Read the value of one key of an example.

    Parameters
    ----------
    data : u8[...]
    p, stop : int      first byte of the value; end of what may be read, p < stop
    row : RecordScratch, rules : Rules, mark : i64[MARKS], out : f64[2]
    which : int        index in EXAMPLE_KEYS

    Returns            position after it, or minus a code
    Cost               one read of each byte
    Source             the HTTP contract
    """
    if which == FEATURES:
        return read_features(data, p, stop, row, rules, mark)
    if which in (LABEL, WEIGHT):
        return read_number_member(data, p, stop, rules, mark, out, which - LABEL)
    if which == PREDICTION_ID:
        return fail(mark, BY_PREDICTION, p)
    return read_string_member(data, p, stop, mark, which)


@kernel
def read_example(data: U8, p: int, stop: int, row: RecordScratch, rules: Rules, mark: I64, out: F64) -> int:
    """Read one example object into records.

    Parameters
    ----------
    data : u8[...]     the body, and the side area after it
    p, stop : int      where the opening brace should be; end of what may be read
    row : RecordScratch  records are written, mark[COUNT] of them
    rules : Rules
    mark : i64[MARKS]
    out : f64[2]       label and weight; unchanged if absent

    Returns            position after the closing brace, or minus a code
    Cost               one read of each byte, one hash for each value
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
        start, end = plain_string(data, start, p, holds, mark)
        mark[BLAME_START], mark[BLAME_STOP] = start, end
        which = known_key(data, start, end)
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


@inline_kernel
def take_row(
    data: U8, start: int, stop: int, row: RecordScratch, sink: BatchBuilder, rules: Rules, mark: I64, number: int, depth: int
) -> int:  # fmt: skip
    """Read, finish and store one row, with its result or the reason for its refusal.

    Parameters
    ----------
    data : u8[...]
    start, stop : int  first byte of the row; end of what may be read
    row : RecordScratch, sink : BatchBuilder  , rules : Rules, mark : i64[MARKS]
    number : int       number of the row
    depth : int        0 if only white space may follow it before `stop`, 1 inside an array

    Returns            position after the row; sink.code[number] has its code
    Cost               one read of each byte of a good row, two of another
    Source             this module's theory of operation
    """
    side, listed = mark[SIDE], sink.count[FOUND]
    mark[COUNT] = 0
    mark[BLAME_START:MARKS] = start
    mark[BLAME_INSIDE] = 0
    out = row.pair
    out[0], out[1] = np.nan, 1.0
    end = -1
    marks = mark_row(data, start, stop if depth == 0 else min(stop, start + mark[WINDOW]), JSON, row.position)
    if marks != 0:
        mark[CHECKED] = start if marks < 0 else -1
        end = fast_example(data, start, stop, row, rules, mark)
        if end >= 0 and marks < 0 and string_code(data, mark[CHECKED], end) != OK:
            end = -1
    if end < 0:
        row.owed[0] = 0
        mark[COUNT], mark[SIDE], mark[CHECKED] = 0, side, -1
        mark[BLAME_START:MARKS] = start
        mark[BLAME_INSIDE] = 0
        out[0], out[1] = np.nan, 1.0
        end = read_example(data, start, stop, row, rules, mark, out)
    mark[WINDOW] = 2 * max(end - start, _WINDOW_MIN)
    code = -end if end < 0 else OK
    if code == OK and depth == 0 and skip_space(data, end, stop) != stop:
        code = SYNTAX
    if code == OK:
        code, blame = finish_row(row, mark[COUNT], sink, rules, number)
        if code != OK:
            settle(row)
            first = 2 if row.kind[blame] & 3 == PLAIN else 0  # the field is the name itself, or the prefix
            mark[BLAME_START], mark[BLAME_STOP] = row.span[blame, first], row.span[blame, first + 1]
            mark[BLAME_INSIDE] = 1
    if code == OK and sink.count[FOUND] == listed and max(mark[IDENTITY_STOP], mark[CLASS_TO], mark[SUBJECT_TO]) <= side:
        mark[SIDE] = side  # nothing there is needed any more
    if code != OK:
        passed, end = skip_value(data, start, stop, depth)
        if passed == OK and depth == 0:
            end = skip_space(data, end, stop)
            passed = OK if end == stop else SYNTAX
        if passed == OK and not is_ascii(data, start, end) and string_code(data, start, end) == INVALID_UTF8:
            passed = INVALID_UTF8
        if passed != OK:
            code = passed
            mark[STOPPED] = end
            mark[BLAME_STOP] = mark[BLAME_START]
    row.owed[0] = 0
    sink.code[number] = code
    place = sink.place[number]
    place[ROW_START], place[ROW_STOP], place[AT] = start, end, mark[STOPPED]
    place[FIELD_START], place[FIELD_STOP], place[IN_FEATURES] = mark[BLAME_START], mark[BLAME_STOP], mark[BLAME_INSIDE]
    place[ID_START], place[ID_STOP] = mark[IDENTITY_START], mark[IDENTITY_STOP]
    place[CLASS_START], place[CLASS_STOP] = mark[CLASS_FROM], mark[CLASS_TO]
    place[SUBJECT_START], place[SUBJECT_STOP] = mark[SUBJECT_FROM], mark[SUBJECT_TO]
    place[TIME_AT], place[TIME_MS] = mark[TIME_SEEN], mark[TIME_READ]
    sink.label[number], sink.weight[number] = out[0], out[1]
    return end


@kernel
def read_json(text: Text, row: RecordScratch, sink: BatchBuilder, rules: Rules, by_line: bool) -> int:
    """Read examples: one on each line, lines of white space not counted; or a document of one, or an array of them.

    Parameters
    ----------
    text : Text        the body; its buffer is written: lines are taken in, a document is there; and the side area after it
    row : RecordScratch, sink : BatchBuilder  , rules : Rules
    by_line : bool     whether rows are lines

    Returns            OK; TOO_MANY_FEATURES or TOO_MANY_ROWS; of a document SYNTAX or TOO_DEEP, at sink.place[count[ROWS], AT]
    Cost               one read of each byte
    Source             this module's theory of operation
    """
    data, ends, row, sink, rules = borrow(text.data), borrow(text.ends), borrow_row(row), borrow_sink(sink), borrow_rules(rules)
    mark = row.mark
    mark[SIDE], mark[WINDOW] = text.size + 1, _WINDOW_MIN
    number, k, known, taken, p, stop, depth = 0, 0, 0, 0, 0, text.size, 0
    if not by_line:
        p = skip_space(data, 0, stop)
        depth = int(p < stop and data[p] == OPEN_LIST)
        p = skip_space(data, p + depth, stop)
        if depth == 1 and p < stop and data[p] == CLOSE_LIST:
            sink.place[0, AT] = p + 1
            return OK if skip_space(data, p + 1, stop) == stop else SYNTAX
    while True:
        if by_line:
            if k == known:
                known, taken = take_in(text, known, taken)
                if k == known:
                    return OK
            stop = ends[k + 1] - 1
            p = skip_space(data, ends[k], stop)
            k += 1
            if p == stop:
                continue
        if number == len(sink.code):
            return TOO_MANY_ROWS
        p = take_row(data, p, stop, row, sink, rules, mark, number, depth)
        code = sink.code[number]
        if code == TOO_MANY_FEATURES or (code in (SYNTAX, TOO_DEEP) and not by_line):
            return int(code)
        number += 1
        sink.count[ROWS] = number
        if by_line:
            # Each line is a row of its own: the next one does not depend on where this one ends.
            sink.place[number - 1, ROW_STOP] = max(p, stop)
            continue
        if depth == 0:
            return OK
        p = skip_space(data, p, stop)
        closed = p < stop and data[p] == CLOSE_LIST
        after = skip_space(data, p + 1, stop)
        if closed and after == stop:
            return OK
        if closed or p >= stop or data[p] != COMMA:
            # The fault is recorded in the last row read: the caller reads place[count[ROWS], AT].
            sink.count[ROWS] = number - 1
            sink.place[number - 1, AT] = after if closed else p
            return SYNTAX
        p = after
