"""The fast path for JSON: reads common examples from the positions of their delimiters.

An example is common if white space is one space and only after a colon or a comma, and no key of the example has an escape. Any
other example is left, as a whole, to `wire.readers.json.body`, which also reports its errors. A feature that is neither a number
nor a string without escapes, commas and braces is left to `read_feature`, and reading continues from the delimiter after it. So
there is no second grammar here: what the fast path accepts, the general reader accepts with the same result. Bytes above 0x7F
are parts of strings here; the caller checks them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U8, U32
from riata.base.limits import NAME_BYTES_MAX
from riata.jit.kernel import inline_kernel
from riata.jit.raw.memory import peek, poke
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import load_word
from riata.maths.hashing import FIELD_EQUALS, NUMBER, hash_usual
from riata.wire.readers.json.features import read_feature
from riata.wire.readers.json.grammar import CLOSE_OBJECT, COLON, COMMA, OPEN_OBJECT, QUOTE, SPACE
from riata.wire.readers.json.members import (
    FEATURES,
    LABEL,
    PREDICTION_ID,
    WEIGHT,
    known_key,
    read_number_member,
    read_string_member,
)
from riata.wire.readers.json.pairs import json_pairs
from riata.wire.readers.json.texts import COUNT
from riata.wire.rows import EQUALS, KEY, PLAIN, SHADOWED, RecordScratch, Rules
from riata.wire.scan.delimiters import position
from riata.wire.scan.simple_numbers import number_between
from riata.wire.scan.tokens import settle

_FEATURES_WORD = np.uint64(int.from_bytes(b"features", "little"))
_WORD_BYTES: Final = 8
_NUMBER_MARKS, _STRING_MARKS = 3, 5  # delimiters of a member: of its key, of its value, and the one that ends it


@inline_kernel
def next_member(data: U8, after: int) -> int:
    """Where the member after the comma at `after` begins; one space is allowed. Source: RFC 8259, section 2."""
    return after + 1 + int(peek(data, after + 1) == SPACE)


@inline_kernel
def marks_after(positions: U32, k: int, after: int) -> int:
    """Index of the first position from `after` on, or of the zero behind the last. Source: wire.scan.delimiters."""
    while 0 < position(positions, k) < after:
        k += 1
    return k


@inline_kernel
def fast_features(
    data: U8, k: int, end_of_row: int, row: RecordScratch, rules: Rules, mark: I64
) -> tuple[int, int, int]:  # fmt: skip
    """Read the members of a features object that is not empty, from the one at which `json_pairs` stopped.

    Parameters
    ----------
    data : u8[...]     read only
    k : int            index in `row.position` of the first position of the next member
    end_of_row : int   end of what may be read
    row : RecordScratch  `position` lists what json_marks finds; records are written
    rules : Rules      key; if strings may be texts, they are left to `read_feature`
    mark : i64[MARKS]  COUNT records are before it

    Returns            (position of the closing brace, its index in `row.position`, records), or (-1, 0, 0) if the object is
                       not a common one
    Cost               about twenty operations for each feature
    Source             RFC 8259; wire.readers.json.features for what a member means
    """
    data, at = borrow(data), borrow(row.position)
    fingerprints, values, kinds, span = borrow(row.fingerprint), borrow(row.value), borrow(row.kind), borrow(row.span)
    key, words, room, n, p = rules.key, len(rules.text) > 0, len(values) - 2, mark[COUNT], position(at, k)
    while True:
        # The positions are not trusted: each must be where this member needs it.
        end, after, stop = position(at, k + 1), position(at, k + 2), position(at, k + 3)
        begin = end + 2 + int(peek(data, end + 2) == SPACE)
        if peek(at, k) != p or n > room:
            return -1, 0, 0
        common = peek(data, p) == QUOTE and peek(data, end) == QUOTE and 0 < end - p - 1 <= NAME_BYTES_MAX
        common = common and peek(data, end + 1) == COLON
        is_string, value = False, 0.0
        if common:
            is_string = after == begin and peek(data, after) == QUOTE
            if is_string:
                common = not words and peek(data, stop) == QUOTE and stop - begin - 1 <= NAME_BYTES_MAX
                common = common and position(at, k + 4) == stop + 1
            else:
                value, common = number_between(data, begin, after, True)
        if not common:
            mark[COUNT] = n
            after = read_feature(data, p, end_of_row, row, rules, mark)
            n, k = mark[COUNT], marks_after(at, k, after) + 1
            if after < 0 or peek(at, k - 1) != after:
                return -1, 0, 0
        elif is_string:
            span[n, 0], span[n, 1], span[n, 2], span[n, 3] = p + 1, p + 1, p + 1, end
            poke(fingerprints, n, hash_usual(data, p + 1, end, key, NUMBER))
            poke(values, n, 0.0)
            poke(kinds, n, np.uint8(PLAIN | KEY | SHADOWED))
            field = hash_usual(data, p + 1, end, key, FIELD_EQUALS)
            n, after, k = n + 1, stop + 1, k + _STRING_MARKS
            poke(fingerprints, n, hash_usual(data, begin + 1, stop, field, NUMBER))
            poke(values, n, 1.0)
            poke(kinds, n, np.uint8(EQUALS))
            span[n, 0], span[n, 1], span[n, 2], span[n, 3] = p + 1, end, begin + 1, stop
            n += 1
        else:
            span[n, 0], span[n, 1], span[n, 2], span[n, 3] = p + 1, p + 1, p + 1, end
            poke(fingerprints, n, hash_usual(data, p + 1, end, key, NUMBER))
            poke(values, n, value)
            poke(kinds, n, np.uint8(PLAIN | KEY))
            n, k = n + 1, k + _NUMBER_MARKS
        c = peek(data, after)
        if c == CLOSE_OBJECT:
            return after, k - 1, n
        if c != COMMA:
            return -1, 0, 0
        p = next_member(data, after)


@inline_kernel
def fast_example(data: U8, start: int, stop: int, row: RecordScratch, rules: Rules, mark: I64) -> int:
    """Read one example object into records.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int  expected position of the opening brace; end of what may be read
    row : RecordScratch  `position` lists what json_marks finds from `start` on; mark[COUNT] records and `pair` are written
    rules : Rules
    mark : i64[...]    what `read_string_member` notes is written

    Returns            position after the closing brace; -1 if the example is not a common one, and what was written is invalid
    Cost               as `fast_features`
    Source             the HTTP contract
    """
    data, at = borrow(data), borrow(row.position)
    if peek(data, start) != OPEN_OBJECT:
        return -1
    seen, k, p = 0, 0, start + 1
    while True:
        end = position(at, k + 1)
        if peek(at, k) != p or peek(data, p) != QUOTE or end <= p or peek(data, end) != QUOTE or peek(data, end + 1) != COLON:
            return -1
        begin = end + 2 + int(peek(data, end + 2) == SPACE)
        which = FEATURES
        if end - p - 1 != _WORD_BYTES or load_word(data, p + 1) != _FEATURES_WORD:
            which = known_key(data, p + 1, end)
        if which < 0 or which == PREDICTION_ID or seen >> which & 1:
            return -1
        seen |= 1 << which
        after = position(at, k + 2)
        if which == FEATURES:
            if peek(data, begin) != OPEN_OBJECT:
                return -1
            k += 2
            if peek(data, begin + 1) == CLOSE_OBJECT:
                after = begin + 1
            elif peek(at, k) != begin + 1:
                return -1
            else:
                after, k, mark[COUNT] = json_pairs(data, k, row, rules.key)
                if after < 0:
                    if mark[COUNT] > 0:
                        settle(row)
                    after, k, mark[COUNT] = fast_features(data, k, stop, row, rules, mark)
            if after < 0 or peek(at, k) != after:
                return -1
            after, k = after + 1, k + 1
            if peek(at, k) != after:
                return -1
        elif which in (LABEL, WEIGHT) and peek(data, begin) != QUOTE:
            if read_number_member(data, begin, after, rules, mark, row.pair, which - LABEL) != after:
                return -1
            k += 2
        else:
            if which in (LABEL, WEIGHT):
                after = read_number_member(data, begin, stop, rules, mark, row.pair, which - LABEL)
            else:
                after = read_string_member(data, begin, stop, mark, which)
            if after < 0:
                return -1
            k = marks_after(at, k + 2, after)
            if peek(at, k) != after:
                return -1
        k += 1
        c = peek(data, after)
        if c == CLOSE_OBJECT:
            break
        if c != COMMA:
            return -1
        p = next_member(data, after)
    wanted = 1 << FEATURES | (1 << LABEL if rules.labelled else 0)
    return after + 1 if seen & wanted == wanted else -1
