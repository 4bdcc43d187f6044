"""Reads lines of words separated by single spaces, each a name, or a name, a colon and a number: eight words at a time (SIMD).

Theory of operation
    Such a line is a list of ends. A word begins after the end of the previous one. Its name ends at its colon or, without a
    colon, with the word. `mark_tokens` finds both for 64 bytes at once. With a bit for every space and every colon,

        the delimiter after a colon     is where adding the colons, shifted up by one, to the bits of non-delimiters carries to
        ends of names                   are colons, and spaces that are not the delimiter after a colon

    and a delimiter after a colon that is itself a colon means that the line is not of this kind. The rest has no branch for each
    word: names are hashed and numbers converted in eight lanes (`jit.simd.u64x8`). A name above 16 bytes, or a number above
    8, is read separately. Anything else leaves the line to the readers of the full grammar.

    The position of a name in the body is needed only if the name is new, or at fault. So `span` is not written until then: such
    spans are "owed", and `settle` writes them.

Eight bytes must be readable before the body, and PADDING after it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, U8, U32, U64
from riata.base.limits import NAME_BYTES_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.memory import BLOCK, SPILLED, colon_marks, high_marks, poke, space_marks
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import ONES, TOPS
from riata.jit.simd.f64x8 import WIDTH, Lanes, Mask, flags, spread, store, where
from riata.jit.simd.u64x8 import Words, either, numbers, ones_of, positions, put, tens, words_at
from riata.maths.hashing import FIELD_NAMESPACE, M1, M2, NUMBER, hash_usual
from riata.wire.codes import OK
from riata.wire.rows import KEY, NAMESPACE, PLAIN, RecordScratch
from riata.wire.scan.delimiters import PADDING, SVMLIGHT, list_marks, marks_of, position
from riata.wire.scan.simple_numbers import join_digits, number_between
from riata.wire.scan.unicode import string_code

_ROOM: Final = BLOCK + SPILLED + WIDTH
_EVERY_LANE: Final = 2**WIDTH - 1
_WORD_BYTES: Final = 8
_0, _1, _3, _7, _8, _15, _16 = (np.uint64(k) for k in (0, 1, 3, 7, 8, 15, 16))
_32, _63 = np.uint64(32), np.uint64(63)
_ALL, _TOP, _BYTE = np.uint64(2**64 - 1), np.uint64(2**63), np.uint64(255)
_ZEROS = np.uint64(0x3030303030303030)
_POINTS = np.uint64(0x1E1E1E1E1E1E1E1E)  # "." ^ "0"
_BEYOND_NINE = np.uint64(0x7676767676767676)
_MINUS, _DOT = np.uint64(45), np.uint64(46)
_FRONT, _ZERO_IN_FRONT = np.uint64(0xF0FF), np.uint64(0x3030)  # a zero, followed by a digit: digits have 3 in their upper half


@inline_kernel
def mark_tokens(data: U8, p: int, stop: int, form: int, ends: U32, named: U32) -> int:
    """Find the words of the bytes p:stop.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      the line, or the rest of it
    form : int         VW or SVMLIGHT
    ends : u32[...]    written: where each word ends
    named : u32[...]   written: where its name ends; as long as `ends`

    Returns            how many words, without empty ones at the end; WIDTH words of one byte after the line follow in the lists.
                       Minus that if a byte is above 0x7F. 0 if there are other delimiters, a second colon in a word, or too
                       little room or padding
    Cost               about thirty operations for each 64 bytes
    Source             this module's theory of operation; carries as Langdale and Lemire 2019, section 3.1.1, use them
    """
    n, k, carry, wrong, high, first = 0, 0, _0, _0, _0, p
    if stop + PADDING > len(data):
        return 0
    while p <= stop:
        if max(n, k) + _ROOM > len(ends):
            return 0
        spaces, colons, marks, above = space_marks(data, p), colon_marks(data, p), marks_of(data, p, form), high_marks(data, p)
        if stop - p < BLOCK:
            end = _1 << np.uint64(stop - p)
            spaces, colons, marks = (spaces & (end - _1)) | end, colons & (end - _1), marks & (end - _1)
            above &= end - _1
        gaps = ~(spaces | colons)
        carried = ((colons << _1) | carry) + gaps
        carry = np.uint64(carried < gaps) | (colons >> _63)
        behind = carried & ~gaps
        wrong |= (behind & colons) | (marks & gaps)
        high |= above
        k = list_marks(named, k, p, colons | (spaces & ~behind))
        n = list_marks(ends, n, p, spaces)
        p += BLOCK
    if wrong != _0 or k != n:
        return 0
    while n > 0 and position(ends, n - 1) == (position(ends, n - 2) + 1 if n > 1 else first):
        n -= 1
    for k in range(WIDTH):
        poke(ends, n + k, np.uint32(stop + 2 * k + 2))
        poke(named, n + k, np.uint32(stop + 2 * k + 2))
    return n if high == _0 else -n


@inline_kernel
def mixed(h: Words) -> Words:
    """One step of the feature hash. Source: maths.hashing."""
    h = h * M1
    return h ^ (h >> _32)


@inline_kernel
def hash_of_words(size: Words, first: Words, second: Words, key: np.uint64) -> Words:
    """Fingerprints of names of 1 to 16 bytes, from their first eight bytes and their last eight. Source: maths.hashing."""
    h = (size * M1) ^ key
    long = size > _8
    first = first & (_ALL >> either(long, _0, (_8 - size) << _3))
    h = either(long, mixed(h ^ first), h)
    first = either(long, second >> (((_16 - size) << _3) & _63), first)
    h = mixed(h ^ first) * M2
    return h ^ (h >> _32)


@inline_kernel
def digits_of_words(head: Words, last: Words, size: Words) -> tuple[Lanes, Mask]:
    """Numbers of up to 8 bytes without a sign: (values, whether each is one), as `number_of_8` defines them.

    head : their first bytes;   last : their last eight bytes;   size : their lengths. Source: wire.scan.simple_numbers.
    """
    good = (size - _1) < _8
    word = (last ^ _ZEROS) & (_ALL << either(good, (_8 - size) << _3, _0))
    other = word ^ _POINTS
    point = (other - ONES) & (other ^ _ALL) & TOPS
    above = (_0 - point) ^ point  # the bits of the bytes after the point; none if there is no point
    below: Words = above ^ _ALL
    word = either(point != _0, ((word << _8) & below) | (word & above), word)
    # Only digits, and no point at the end; none at the beginning, and no zero in front of a digit.
    good = good & (((((word + _BEYOND_NINE) | word) & TOPS) | (point & _TOP)) == _0)
    good = good & ((head & _BYTE) != _DOT) & (((head ^ _ZERO_IN_FRONT) & _FRONT) != _0)
    return numbers(join_digits(word)) / tens(ones_of(above) >> _3), good


@inline_kernel
def number_of_words(head: Words, last: Words, size: Words) -> tuple[Lanes, Mask]:
    """`digits_of_words` for numbers of which some have a minus. Source: as there."""
    negative = (head & _BYTE) == _MINUS
    value, good = digits_of_words(either(negative, head >> _8, head), last, size - either(negative, _1, _0))
    return where(negative, value * -1.0, value), good


@inline_kernel
def hash_tokens(data: U8, ends: U32, named: U32, n: int, key: np.uint64, fingerprints: U64) -> bool:
    """Hash the names of the words 1 to n, the first being word 0.

    Parameters
    ----------
    data : u8[...]             the body
    ends, named : u32[...]     as `mark_tokens` writes them; read only
    n : int                    how many; WIDTH more may be written
    key : u64                  hash key of names
    fingerprints : u64[...]    written

    Returns                    whether every name has 1 to NAME_BYTES_MAX bytes
    Cost                       about five operations for each name of up to 8 bytes, eight for one of up to 16
    Source                     maths.hashing
    """
    for g in range(0, n, WIDTH):
        size = positions(named, g + 1, 1) - positions(ends, g, 1) - _1
        first = words_at(data, ends, g, 1, 1)
        second = words_at(data, named, g + 1, 1, -_WORD_BYTES) if flags(size > _8) != 0 else first
        put(fingerprints, g, hash_of_words(size, first, second, key))
        odd = flags((size - _1) > _15)
        if odd != 0:
            for i in range(g, min(g + WIDTH, n)):
                start, stop = position(ends, i) + 1, position(named, i + 1)
                if not 0 < stop - start <= NAME_BYTES_MAX:
                    return False
                if odd >> (i - g) & 1:
                    poke(fingerprints, i, hash_usual(data, start, stop, key, NUMBER))
    return True


@inline_kernel
def token_values(data: U8, ends: U32, named: U32, n: int, values: F64) -> bool:
    """Read the numbers of the words 1 to n; a word without a colon has the value 1.

    Parameters
    ----------
    data : u8[...]             the body
    ends, named : u32[...]     as `mark_tokens` writes them; read only
    n : int                    how many; WIDTH more may be written
    values : f64[...]          written

    Returns                    whether every number is one, and exact
    Cost                       about ten operations for each number of up to 8 bytes
    Source                     wire.scan.simple_numbers
    """
    for g in range(0, n, WIDTH):
        start, stop = positions(named, g + 1, 1), positions(ends, g + 1, 1)
        bare = start == stop
        if flags(bare) == _EVERY_LANE:
            store(values, g, spread(1.0))
            continue
        size, last = stop - start - _1, words_at(data, ends, g + 1, 1, -_WORD_BYTES)
        long = flags(size > _8) & ~flags(bare) != 0
        head = words_at(data, named, g + 1, 1, 1) if long else last >> (((_8 - size) << _3) & _63)
        if flags((head & _BYTE) == _MINUS) != 0:  # one branch for eight numbers, almost always the same way in a file
            value, good = number_of_words(head, last, size)
        else:
            value, good = digits_of_words(head, last, size)
        store(values, g, where(bare, 1.0, value))
        odd = _EVERY_LANE ^ flags(good | bare)
        if odd != 0:
            for i in range(g, min(g + WIDTH, n)):
                if odd >> (i - g) & 1:
                    number, is_number = number_between(data, position(named, i + 1) + 1, position(ends, i + 1), False)
                    if not is_number:
                        return False
                    poke(values, i, number)
    return True


@inline_kernel
def are_indices(data: U8, ends: U32, named: U32, n: int) -> bool:
    """Return whether each of the words 1 to n has a colon, and before it at most 8 digits without a leading zero, or a 0.

    Source: wire.readers.svmlight.body, theory of operation; digits as in `number_of_words`.
    """
    for g in range(0, n, WIDTH):
        stop = positions(named, g + 1, 1)
        size = stop - positions(ends, g, 1) - _1
        gap = ((_8 - size) << _3) & _63
        word = (words_at(data, named, g + 1, 1, -_WORD_BYTES) ^ _ZEROS) & (_ALL << gap)
        good = ((size - _1) < _8) & (stop != positions(ends, g + 1, 1)) & ((((word + _BEYOND_NINE) | word) & TOPS) == _0)
        good = good & ((((word >> gap) & _BYTE) != _0) | (size == _1))
        meant = (1 << min(WIDTH, n - g)) - 1
        if flags(good) & meant != meant:
            return False
    return True


@inline_kernel
def owe_spans(row: RecordScratch, n: int, kind: int, start: int, stop: int) -> None:
    """Record that the spans of the n records, all of one kind, are owed: `settle` will write them.

    The records are words under the prefix start:stop; or, if `stop` is -1, members of JSON, the first of which has its first
    quote at position[start]. Source: this module's theory of operation.
    """
    kinds, owed = borrow(row.kind), borrow(row.owed)
    for i in range(n):
        poke(kinds, i, np.uint8(kind))
    owed[0], owed[1], owed[2] = n, start, stop


@kernel
def settle(row: RecordScratch) -> None:
    """Write the spans that are owed.

    Parameters
    ----------
    row : RecordScratch  `owed`, `position` and `named` are read; `span` and `owed` are written

    Returns            nothing
    Cost               four numbers for each record
    Source             this module's theory of operation
    """
    at, named, span, owed = borrow(row.position), borrow(row.named), borrow(row.span), borrow(row.owed)
    n, first, last = owed[0], owed[1], owed[2]
    for i in range(n):
        if last >= 0:
            span[i, 0], span[i, 1] = first, last
            span[i, 2], span[i, 3] = position(at, i) + 1, position(named, i + 1)
        else:
            start, stop = position(at, first + 3 * i) + 1, position(at, first + 3 * i + 1)
            span[i, 0], span[i, 1], span[i, 2], span[i, 3] = start, start, start, stop
    owed[0] = 0


@inline_kernel
def svmlight_tokens(data: U8, start: int, stop: int, row: RecordScratch, key: np.uint64) -> int:
    """Read the pairs of a line of SVMlight text after its first word, which is not a pair and ends at position[0].

    Returns how many records were written, or -1 if the line is left; their spans are owed.

    key : u64      the model's key. Source: wire.readers.svmlight.body, theory of operation
    """
    ends, named = row.position, row.named
    n = mark_tokens(data, start, stop, SVMLIGHT, ends, named) - 1
    if n < 0 or n + WIDTH > len(row.value) or position(named, 0) != position(ends, 0):
        return -1
    if not are_indices(data, ends, named, n):
        return -1
    if not hash_tokens(data, ends, named, n, key, row.fingerprint) or not token_values(data, ends, named, n, row.value):
        return -1
    owe_spans(row, n, PLAIN | KEY, 0, 0)
    return n


@inline_kernel
def vw_tokens(data: U8, bar: int, stop: int, row: RecordScratch, form: int, top: np.uint64) -> int:
    """Read a line of VW text with one bar, at `bar`. Returns how many records were written, or -1 if the line is left.

    Their spans are owed.

    top : u64      the model's key. Source: wire.readers.vw.body, theory of operation
    """
    ends, named = row.position, row.named
    n = mark_tokens(data, bar + 1, stop, form, ends, named)
    if n < 0 and string_code(data, bar, stop) != OK:
        return -1
    n = abs(n) - 1
    if n < 0:
        return 0 if bar + 1 == stop else -1
    if n + WIDTH > len(row.value):
        return -1
    space, end = position(named, 0), position(ends, 0)
    if space != end or end - bar > NAME_BYTES_MAX:
        return -1
    key, kind = top, PLAIN
    if end > bar + 1:
        key, kind = hash_usual(data, bar + 1, end, top, FIELD_NAMESPACE), NAMESPACE
    if not hash_tokens(data, ends, named, n, key, row.fingerprint) or not token_values(data, ends, named, n, row.value):
        return -1
    owe_spans(row, n, kind, bar + 1, end)
    return n
