"""Reads members `"name":number` of a JSON object, eight at a time (SIMD), from the positions of their delimiters.

Such a member has three delimiters: the quotes around its name, and the comma or the brace after its number. So eight members are
every third of 24 positions. The bytes around those positions are compared for all eight at once: a quote, a colon and perhaps a
space; after a comma, perhaps a space again, and then the quote at the next position. Names are hashed and numbers assembled as in
`wire.scan.tokens`. From the first group of eight with any other member on, the object is left to `wire.readers.json.fast`.

Eight bytes must be readable before the body, and PADDING after it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U8, U32
from riata.base.limits import NAME_BYTES_MAX
from riata.jit.kernel import inline_kernel
from riata.jit.raw.memory import peek, poke
from riata.jit.raw.unowned import borrow
from riata.jit.simd.f64x8 import WIDTH, flags, store
from riata.jit.simd.u64x8 import Words, either, positions, put, words_at
from riata.maths.hashing import NUMBER, hash_usual
from riata.wire.readers.json.grammar import CLOSE_OBJECT, COLON, COMMA, QUOTE, SPACE
from riata.wire.rows import KEY, PLAIN, RecordScratch
from riata.wire.scan.delimiters import position
from riata.wire.scan.simple_numbers import number_between
from riata.wire.scan.tokens import hash_of_words, number_of_words, owe_spans

PAIR_MARKS: Final = 3
_1, _2, _8, _16, _24 = (np.uint64(k) for k in (1, 2, 8, 16, 24))
_BYTE, _TWO_BYTES = np.uint64(0xFF), np.uint64(0xFFFF)
_NAME_MAX = np.uint64(NAME_BYTES_MAX)
_QUOTE, _SPACE, _COMMA = np.uint64(QUOTE), np.uint64(SPACE), np.uint64(COMMA)
_QUOTE_COLON = np.uint64(QUOTE | COLON << 8)
_SPACE_QUOTE = np.uint64(SPACE | QUOTE << 8)


@inline_kernel
def members_there(data: U8, at: U32, k: int, head: Words) -> int:
    """How many members, up to WIDTH, begin with position k; the last may be the last of its object. -1 if one of them is not
    as this module expects. The first is known to have its quote; `head` has the bytes from the second quotes on. Source:
    RFC 8259, section 4."""
    second, end = positions(at, k + 1, PAIR_MARKS), positions(at, k + 2, PAIR_MARKS)
    behind = words_at(data, at, k + 2, PAIR_MARKS, 0)
    gap, follows = positions(at, k + PAIR_MARKS, PAIR_MARKS) - end, (behind >> _8) & _TWO_BYTES
    goes_on = ((behind & _BYTE) == _COMMA) & (
        (((follows & _BYTE) == _QUOTE) & (gap == _1)) | ((follows == _SPACE_QUOTE) & (gap == _2))
    )
    named = (head & _TWO_BYTES) == _QUOTE_COLON
    named = named & ((second - positions(at, k, PAIR_MARKS) - _2) < _NAME_MAX)
    count, on = 0, flags(goes_on)
    while count < WIDTH and on >> count & 1:
        count += 1
    if count < WIDTH:
        if peek(data, position(at, k + PAIR_MARKS * count + 2)) != CLOSE_OBJECT:
            return -1
        count += 1
    meant = (1 << count) - 1
    return count if flags(named) & meant == meant else -1


@inline_kernel
def pair_group(data: U8, k: int, row: RecordScratch, n: int, key: np.uint64) -> int:
    """Read up to WIDTH members from position k on, as records from n on. Returns how many, or -1 if one of them is left.

    Source: as `members_there`, and maths.hashing, wire.scan.simple_numbers.
    """
    at, fingerprints, values = borrow(row.position), borrow(row.fingerprint), borrow(row.value)
    head = words_at(data, at, k + 1, PAIR_MARKS, 0)
    count = members_there(data, at, k, head)
    if count < 0:
        return -1
    meant = (1 << count) - 1
    size = positions(at, k + 1, PAIR_MARKS) - positions(at, k, PAIR_MARKS) - _1
    first = words_at(data, at, k, PAIR_MARKS, 1)
    second = words_at(data, at, k + 1, PAIR_MARKS, -8) if flags(size > _8) & meant != 0 else first
    put(fingerprints, n, hash_of_words(size, first, second, key))
    spaced = ((head >> _16) & _BYTE) == _SPACE
    length = positions(at, k + 2, PAIR_MARKS) - positions(at, k + 1, PAIR_MARKS) - either(spaced, _2 + _1, _2)
    last = words_at(data, at, k + 2, PAIR_MARKS, -8)
    value, good = number_of_words(head >> either(spaced, _24, _16), last, length)
    store(values, n, value)
    odd, long = meant & ~flags(good), flags(size > _16) & meant
    if odd | long != 0:
        for i in range(count):
            start, stop, end = position(at, k), position(at, k + 1), position(at, k + 2)
            if long >> i & 1:
                poke(fingerprints, n + i, hash_usual(data, start + 1, stop, key, NUMBER))
            if odd >> i & 1:
                begin = stop + 2 + int(peek(data, stop + 2) == SPACE)
                number, is_number = number_between(data, begin, end, True)
                if not is_number:
                    return -1
                poke(values, n + i, number)
            k += PAIR_MARKS
    return count


@inline_kernel
def json_pairs(data: U8, k: int, row: RecordScratch, key: np.uint64) -> tuple[int, int, int]:
    """Read the members of an object that is not empty, as long as they are as this module expects.

    Parameters
    ----------
    data : u8[...]     read only
    k : int            index in `row.position` of the first position of the first member
    row : RecordScratch  `position` lists what json_marks finds; records are written, and their spans are owed
    key : u64          hash key of names

    Returns            (position of the closing brace, its index in `row.position`, records), or (-1, index of the member that is
                       left, records before it)
    Cost               about twenty operations for each feature
    Source             as `members_there`
    """
    n, begin, at, room = 0, k, borrow(row.position), len(row.value) - WIDTH
    going = peek(data, position(at, k)) == QUOTE
    after = -1
    while going and n <= room:
        count = pair_group(data, k, row, n, key)
        if count < 0:
            break
        n += count
        k += PAIR_MARKS * count
        end = position(at, k - 1)
        if peek(data, end) == CLOSE_OBJECT:
            after, going = end, False
    owe_spans(row, n, PLAIN | KEY, begin, -1)
    return after, (k - 1 if after >= 0 else k), n
