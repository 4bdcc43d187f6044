"""The fast path for JSON: reads common examples from the positions of their delimiters.

An example is common if it holds no escape and no byte above 0x7E; if white space is one space and only after a colon or a comma;
if no name or string holds a comma or a closing brace; and if every feature is a number, or a string that is not a text. Any
other example is left, as a whole, to `wire.readers.json.body`, which also reports its errors. So there is no second grammar
here: what the fast path accepts, the general reader accepts with the same result.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U8
from riata.base.limits import EVENT_ID_BYTES_MAX, NAME_BYTES_MAX
from riata.jit.kernel import inline_kernel
from riata.jit.raw.memory import peek, poke
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import load_word
from riata.maths.hashing import FIELD_EQUALS, NUMBER, hash_usual
from riata.wire.readers.json.grammar import CLOSE_OBJECT, COLON, COMMA, OPEN_OBJECT, QUOTE, SPACE
from riata.wire.readers.json.members import EVENT_ID, FEATURES, LABEL, WEIGHT, known_key, read_number_member
from riata.wire.readers.json.pairs import json_pairs
from riata.wire.readers.json.texts import COUNT, IDENTITY_START, IDENTITY_STOP
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
def fast_features(data: U8, k: int, n: int, row: RecordScratch, rules: Rules) -> tuple[int, int, int]:
    """Read the members of a features object that is not empty, from the one at which `json_pairs` stopped.

    Parameters
    ----------
    data : u8[...]     read only
    k : int            index in `row.position` of the first position of the next member
    n : int            records before it
    row : RecordScratch  `position` lists what json_marks finds; records are written
    rules : Rules      key; if strings may be texts, they are left to the general reader

    Returns            (position of the closing brace, its index in `row.position`, records), or (-1, 0, 0) if the object is
                       not a common one
    Cost               about twenty operations for each feature
    Source             RFC 8259; wire.readers.json.features for what a member means
    """
    data, at = borrow(data), borrow(row.position)
    fingerprints, values, kinds, span = borrow(row.fingerprint), borrow(row.value), borrow(row.kind), borrow(row.span)
    key, words, room, p = rules.key, len(rules.text) > 0, len(values) - 2, position(at, k)
    while True:
        end = position(at, k + 1)
        size = end - p - 1
        # The positions are not trusted: each must be where this member needs it.
        if peek(at, k) != p or peek(data, p) != QUOTE or peek(data, end) != QUOTE or not 0 < size <= NAME_BYTES_MAX:
            return -1, 0, 0
        begin = end + 2 + int(peek(data, end + 2) == SPACE)
        after = position(at, k + 2)
        if peek(data, end + 1) != COLON or n > room:
            return -1, 0, 0
        span[n, 0], span[n, 1], span[n, 2], span[n, 3] = p + 1, p + 1, p + 1, end
        poke(fingerprints, n, hash_usual(data, p + 1, end, key, NUMBER))
        if after == begin and peek(data, after) == QUOTE:
            stop = position(at, k + 3)
            after = position(at, k + 4)
            if words or after != stop + 1 or peek(data, stop) != QUOTE or not 0 <= stop - begin - 1 <= NAME_BYTES_MAX:
                return -1, 0, 0
            poke(values, n, 0.0)
            poke(kinds, n, np.uint8(PLAIN | KEY | SHADOWED))
            n += 1
            field = hash_usual(data, p + 1, end, key, FIELD_EQUALS)
            poke(fingerprints, n, hash_usual(data, begin + 1, stop, field, NUMBER))
            poke(values, n, 1.0)
            poke(kinds, n, np.uint8(EQUALS))
            span[n, 0], span[n, 1], span[n, 2], span[n, 3] = p + 1, end, begin + 1, stop
            k += _STRING_MARKS
        else:
            value, good = number_between(data, begin, after, True)
            if not good:
                return -1, 0, 0
            poke(values, n, value)
            poke(kinds, n, np.uint8(PLAIN | KEY))
            k += _NUMBER_MARKS
        n += 1
        c = peek(data, after)
        if c == CLOSE_OBJECT:
            return after, k - 1, n
        if c != COMMA:
            return -1, 0, 0
        p = next_member(data, after)


@inline_kernel
def fast_example(data: U8, start: int, row: RecordScratch, rules: Rules, mark: I64) -> int:
    """Read one example object into records.

    Parameters
    ----------
    data : u8[...]     read only
    start : int        expected position of the opening brace
    row : RecordScratch  `position` lists what json_marks finds from `start` on; mark[COUNT] records and `pair` are written
    rules : Rules
    mark : i64[...]    the span of an event id is written

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
        if which < 0 or seen >> which & 1:
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
                    after, k, mark[COUNT] = fast_features(data, k, mark[COUNT], row, rules)
            if after < 0 or peek(at, k) != after:
                return -1
            after, k = after + 1, k + 1
            if peek(at, k) != after:
                return -1
        elif which in (LABEL, WEIGHT):
            if read_number_member(data, begin, after, rules, mark, row.pair, which - LABEL) != after:
                return -1
            k += 2
        elif which == EVENT_ID:
            stop = position(at, k + 3)
            if after != begin or peek(data, after) != QUOTE or peek(data, stop) != QUOTE:
                return -1
            if not 1 <= stop - begin - 1 <= EVENT_ID_BYTES_MAX or peek(at, k + 4) != stop + 1:
                return -1
            mark[IDENTITY_START], mark[IDENTITY_STOP] = begin + 1, stop
            after = stop + 1
            k += 4
        else:
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
