"""The fast path for VW text and svmlight: reads common lines from the positions of their delimiters.

A line is common if its bytes are ASCII, spaces separate its words, namespaces have no scale, no name is empty, and every value is
a decimal number. Any other line is left, as a whole, to the readers of `wire.vw_text` and `wire.svmlight`, which also report its
errors. So there is no second grammar here: what the fast path accepts, they accept with the same result.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.base.limits import NAME_BYTES_MAX
from riata.jit.kernel import kernel
from riata.jit.raw.memory import peek, poke
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import leading_digits, load_word
from riata.maths.hashing import FIELD_NAMESPACE, NUMBER, hash_usual
from riata.wire.delimiters import position
from riata.wire.lines import COLON, DELETE, SPACE
from riata.wire.rows import KEY, NAMESPACE, PLAIN, RecordScratch, Rules
from riata.wire.simple_numbers import number_between

BAR: Final = 124
_ZERO: Final = 48
_WORD_BYTES: Final = 8
LEFT: Final = -1000  # less than minus any code


@kernel
def fast_vw(data: U8, bar: int, stop: int, row: RecordScratch, rules: Rules) -> int:
    """Read everything from the first bar on.

    Parameters
    ----------
    data : u8[...]     the body
    bar, stop : int    the first bar; end of the line
    row : RecordScratch  `position` lists what vw_marks finds from the line's first byte on; records are written
    rules : Rules      key

    Returns            how many records, or LEFT
    Cost               about twenty operations for each feature
    Source             wire.vw_text, theory of operation
    """
    data, at = borrow(data), borrow(row.position)
    fingerprints, values, kinds, span = borrow(row.fingerprint), borrow(row.value), borrow(row.kind), borrow(row.span)
    k = 0
    while position(at, k) < bar:
        if not SPACE <= peek(data, position(at, k)) < DELETE:
            return LEFT
        k += 1
    n, p, key, room, start, named, kind = 0, bar, rules.key, len(values), bar, bar, PLAIN
    while p < stop:
        end = position(at, k)
        k += 1
        if end == p:  # nothing before the delimiter: an extra space, or the next namespace
            c = peek(data, p)
            p += 1
            if c == BAR:
                start, named, key, kind = p, position(at, k), rules.key, PLAIN
                if named > p:
                    if named - p > NAME_BYTES_MAX or (named < stop and peek(data, named) != SPACE):
                        return LEFT
                    key, kind = hash_usual(data, p, named, rules.key, FIELD_NAMESPACE), NAMESPACE
                    p = named
                elif named < p:
                    return LEFT
            elif c != SPACE:
                return LEFT
            continue
        after, value, good = end, 1.0, True
        if end < p or end - p > NAME_BYTES_MAX or n >= room:
            return LEFT
        if peek(data, end) == COLON:
            after = position(at, k)
            k += 1
            value, good = number_between(data, end + 1, after, False)
        if not good or after > stop:
            return LEFT
        poke(fingerprints, n, hash_usual(data, p, end, key, NUMBER))
        poke(values, n, value)
        poke(kinds, n, np.uint8(kind))
        span[n, 0], span[n, 1], span[n, 2], span[n, 3] = start, named, p, end
        n += 1
        p = after
        if p < stop:
            c = peek(data, p)
            if c == SPACE:
                p += 1
            elif c == BAR:
                k -= 1
            else:
                return LEFT
    return n


@kernel
def fast_svmlight(data: U8, p: int, stop: int, row: RecordScratch, k: int, rules: Rules) -> int:
    """Read the pairs of a line without a comment.

    Parameters
    ----------
    data : u8[...]     the body
    p, stop : int      first byte after the label; end of the line
    row : RecordScratch  `position` lists what svmlight_marks finds from the line's first byte on; records are written
    k : int            first position of `p` or after it
    rules : Rules      key

    Returns            how many records, or LEFT
    Cost               about twenty operations for each feature
    Source             wire.svmlight, theory of operation
    """
    data, at = borrow(data), borrow(row.position)
    fingerprints, values, kinds, span = borrow(row.fingerprint), borrow(row.value), borrow(row.kind), borrow(row.span)
    n, room = 0, len(values)
    while p < stop:
        colon = position(at, k)
        if colon == p and peek(data, p) == SPACE:
            p, k = p + 1, k + 1
            continue
        after = position(at, k + 1)
        k += 2
        _, digits = leading_digits(load_word(data, p))
        usual = (p + digits == colon) & (0 < digits < _WORD_BYTES) & ((digits == 1) | (peek(data, p) != _ZERO))
        if not usual or n >= room or after > stop or peek(data, colon) != COLON:
            return LEFT
        value, good = number_between(data, colon + 1, after, False)
        if not good or (after < stop and peek(data, after) != SPACE):
            return LEFT
        poke(fingerprints, n, hash_usual(data, p, colon, rules.key, NUMBER))
        poke(values, n, value)
        poke(kinds, n, np.uint8(PLAIN | KEY))
        span[n, 0], span[n, 1], span[n, 2], span[n, 3] = p, p, p, colon
        n += 1
        p = after + 1
    return n
