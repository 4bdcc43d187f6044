"""Reads the parts of a feature of VW text; `wire.readers.vw.body` describes what they mean."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.base.limits import NAME_BYTES_MAX, VALUE_ABS_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import ONES, TOPS, first_byte, load_word
from riata.maths.hashing import FIELD_EQUALS, NUMBER, hash_name
from riata.wire.codes import BAD_NAME, BAD_NUMBER, HANDOVER, NAME_TOO_LONG, OK, OUT_OF_RANGE
from riata.wire.scan.lines import COLON, DELETE, SPACE, TAB
from riata.wire.scan.numbers import HAND_OVER, NOT_A_NUMBER, parse_number, parse_prefix
from riata.wire.scan.simple_numbers import fast_number
from riata.wire.scan.unicode import name_code

BAR: Final = 124
_NOT_FINITE_BYTES = tuple(np.frombuffer(word, np.uint8) for word in (b"nan", b"inf", b"infinity"))
_WORD_BYTES: Final = 8
_COLONS = np.uint64(0x3A3A3A3A3A3A3A3A)
_BARS = np.uint64(0x7C7C7C7C7C7C7C7C)
_ABOVE_SPACES = np.uint64(0x2121212121212121)
_I, _N = 0x69, 0x6E  # first letters of those words, in lower case


@inline_kernel
def is_end(c: int) -> bool:
    """True for a byte that ends a feature. Source: wire.readers.vw.body, theory of operation."""
    return c in (SPACE, TAB, BAR)


@inline_kernel
def in_no_name(word: np.uint64, other: np.uint64) -> np.uint64:
    """Mask of the bytes of `word` that are a bar, a space or below, 0x7F or above, or those of `other`.

    Only its lowest bit is exact. Source: as for `riata.jit.simd.bytes8.not_plain`.
    """
    bar, same = word ^ _BARS, word ^ other
    below = ((bar - ONES) & ~bar) | ((same - ONES) & ~same) | ((word - _ABOVE_SPACES) & ~word)
    return (below | (word + ONES) | word) & TOPS


@kernel
def take_name(data: U8, p: int, stop: int, colon: bool) -> tuple[int, int]:
    """Find the end of a part of a name, and check the part.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      its first byte; end of the line
    colon : bool       whether a colon ends it too

    Returns            (position of the byte that ends it, OK, BAD_NAME, NAME_TOO_LONG, NOT_NFC or INVALID_UTF8)
    Cost               one read of each byte
    Source             wire.readers.vw.body, theory of operation
    """
    data = borrow(data)
    start = p
    code, high = OK, False
    ends, other = np.uint64(0), _COLONS if colon else _BARS
    while ends == np.uint64(0) and p + _WORD_BYTES <= stop:  # then p is the first byte that the loop below has to check
        ends = in_no_name(load_word(data, p), other)
        p += first_byte(ends)
    while p < stop:
        c = data[p]
        if is_end(c) or (colon and c == COLON):
            break
        if c < SPACE or c == DELETE:
            code = BAD_NAME
        high |= c > DELETE
        p += 1
    if high:
        code = name_code(data, start, p)
    elif code == OK and p - start > NAME_BYTES_MAX:
        code = NAME_TOO_LONG
    return p, code


@kernel
def is_word(data: U8, start: int, stop: int) -> bool:
    """Return whether a value is a word, and neither a number nor something meant as one.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int  the value

    Returns            true if it does not begin like a number, holds no colon, and is neither an infinity nor NaN
    Cost               one read of each byte
    Source             wire.readers.vw.body, theory of operation
    """
    if start == stop:
        return False
    c = data[start]
    if 48 <= c <= 57 or c == 43 or c == 45 or c == 46:  # 0-9 + - .
        return False
    for p in range(start, stop):
        if data[p] == COLON:
            return False
    if (c | 32) != _I and (c | 32) != _N:
        return True
    return not (
        same_word(data, start, stop, _NOT_FINITE_BYTES[0])
        or same_word(data, start, stop, _NOT_FINITE_BYTES[1])
        or same_word(data, start, stop, _NOT_FINITE_BYTES[2])
    )


@kernel
def same_word(data: U8, start: int, stop: int, word: U8) -> bool:
    """Return whether the bytes start:stop are `word`, ignoring case.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int
    word : u8[...]     lower-case letters

    Returns            true if they are
    Cost               one read of each byte of the word
    Source             ASCII
    """
    same = stop - start == len(word)
    for i in range(min(len(word), stop - start)):
        same = same and (data[start + i] | 32) == word[i]
    return bool(same)


@kernel
def read_namespace(data: U8, start: int, stop: int) -> tuple[int, int, float, int]:
    """Read the name and the scale of a namespace.

    Parameters
    ----------
    data : u8[...]     the body
    start, stop : int  first byte after the bar; end of the line

    Returns
    -------
    after : int        where its features begin
    named : int        where its name ends; `start` if it has no name
    scale : float      1 if there is none
    code : int         OK, or why it is refused

    Cost               one read of each byte
    Source             wire.readers.vw.body, theory of operation
    """
    p, code = take_name(data, start, stop, True)
    if code != OK or p >= stop or data[p] != COLON:
        return p, p, 1.0, code
    after, _ = take_name(data, p + 1, stop, False)
    scale, status = parse_number(data, p + 1, after, False)
    if p == start:
        code = BAD_NAME
    elif status == HAND_OVER:
        code = HANDOVER
    elif status == NOT_A_NUMBER:
        code = BAD_NUMBER
    elif not abs(scale) <= VALUE_ABS_MAX:
        code = OUT_OF_RANGE
    return after, p, scale, code


@kernel
def read_feature(data: U8, start: int, stop: int, key: np.uint64) -> tuple[int, int, float, np.uint64, int]:
    """Read one feature.

    Parameters
    ----------
    data : u8[...]     the body
    start, stop : int  its first byte; end of the line
    key : u64          the model's key, or the hash of the namespace

    Returns
    -------
    after : int        where it ends
    named : int        where its name ends
    number : float     its value, 1 if it has none; NaN if it is a word
    fingerprint : u64
    code : int         OK, or why it is refused

    Cost               one or two hashes
    Source             wire.readers.vw.body, theory of operation
    """
    data = borrow(data)
    p, code = take_name(data, start, stop, True)
    after, number, fingerprint = p, 1.0, key
    if code == OK and p < stop and data[p] == COLON:
        number, status, after = fast_number(data, p + 1)
        if after < 0 or after > stop:
            number, status, after = parse_prefix(data, p + 1, stop, False)
        fault = OK
        if status == NOT_A_NUMBER or (after < stop and not is_end(data[after])):
            status = NOT_A_NUMBER
            after, fault = take_name(data, p + 1, stop, False)
        if status == HAND_OVER:
            code = HANDOVER
        elif status == NOT_A_NUMBER:
            number = np.nan
            code = BAD_NUMBER if not is_word(data, p + 1, after) else BAD_NAME if p == start else fault
            fingerprint = hash_name(data, p + 1, after, hash_name(data, start, p, key, FIELD_EQUALS), NUMBER)
    if number == number:
        fingerprint = hash_name(data, start, p, key, NUMBER)
    return after, p, number, fingerprint, code
