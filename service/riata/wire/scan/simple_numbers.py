"""Short decimal numbers, eight bytes at a time: common numbers at a third of the cost of `wire.scan.numbers`, with the same bits.

The numbers accepted here are valid in both grammars. An exponent, leading zeros, a bare point, a long number and every mistake
are left to `wire.scan.numbers`.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np

from riata.base.arrays import U8, U64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.memory import peek
from riata.jit.simd.bytes8 import ONES, TOPS, leading_digits, load_word, trailing_zeros
from riata.wire.scan.numbers import EXACT, parse_number, round_decimal

SIMPLE_NUMBER_REACH: Final = 34  # 7 digits, the point, 3 words, and the byte after them, which the caller checks
_WORD_BYTES: Final = 8
_WORDS_BEHIND_POINT: Final = 3
_DIGITS_MAX: Final = 19  # 10^19 - 1 < 2^64
_EXACT_INTEGER = np.uint64(2**53)  # every integer up to here is a double
_POWERS_OF_TEN = np.array([10.0**k for k in range(_DIGITS_MAX + 1)])  # exact, all of them
_WHOLE_POWERS_OF_TEN = np.array([10**k for k in range(_WORD_BYTES + 1)], np.uint64)
_MINUS, _DOT, _ZERO, _E_UPPER, _E_LOWER = 45, 46, 48, 69, 101


@inline_kernel
def simple_number(data: U8, p: int) -> tuple[int, float]:
    """Read digits, or digits `.` digits, 19 at most and 7 before the point: (position after them, value), or (-1, 0.0).

    For both grammars; a sign, an exponent and anything longer are left to `parse_prefix`. SIMPLE_NUMBER_REACH bytes must be
    readable from `p` on. Source: as for `parse_number`.
    """
    digits, count = leading_digits(load_word(data, p))
    good = 0 < count < _WORD_BYTES and (count == 1 or data[p] != _ZERO)
    end, places, more = p + count, 0, 0
    if good and data[end] == _DOT:
        for _ in range(_WORDS_BEHIND_POINT):
            part, more = leading_digits(load_word(data, end + 1 + places))
            digits = digits * _WHOLE_POWERS_OF_TEN[more] + part
            places += more
            if more < _WORD_BYTES:
                break
        good = places > 0 and count + places <= _DIGITS_MAX
        end += 1 + places
    value, sure = 0.0, good
    if good and digits <= _EXACT_INTEGER:
        value = float(np.int64(digits)) / _POWERS_OF_TEN[places]
    elif good:
        value, sure = round_decimal(digits, -places)
    return (end if sure else -1), value


@inline_kernel
def fast_number(data: U8, p: int) -> tuple[float, int, int]:
    """Read an optional minus and a `simple_number`: what `parse_prefix` returns, or an end of -1 if that must be called.

    If the end is after the bytes that the caller meant, `parse_prefix` must be called, too. Source: as for `parse_number`.
    """
    end, value = -1, 0.0
    if p + 1 + SIMPLE_NUMBER_REACH <= len(data):
        negative = data[p] == _MINUS
        end, value = simple_number(data, p + int(negative))
        value = -value if negative else value
        if end >= 0 and (data[end] == _E_LOWER or data[end] == _E_UPPER):
            end = -1
    return value, EXACT, end


_ZEROS = np.uint64(0x3030303030303030)
_POINTS = np.uint64(0x1E1E1E1E1E1E1E1E)  # "." ^ "0"
_BEYOND_NINE = np.uint64(0x7676767676767676)
_0, _1, _7, _8, _16, _32 = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(8), np.uint64(16), np.uint64(32)
W = TypeVar("W", np.uint64, U64)
_10, _255, _LOW = np.uint64(10), np.uint64(255), np.uint64(0xFFFFFFFF)
_PAIRS = np.uint64(0x000000FF000000FF)
_HUNDRED_AND_MILLION = np.uint64(100 + (1_000_000 << 32))
_ONE_AND_TEN_THOUSAND = np.uint64(1 + (10_000 << 32))
_HUNDRED_MILLION = np.uint64(100_000_000)


@inline_kernel
def join_digits(word: W) -> W:
    """The number whose eight digits, each 0 to 9, are the bytes of a word; elementwise for several words.

    Source: Lemire 2018, as `leading_digits`.
    """
    pairs = word * _10 + (word >> _8)
    return (((pairs & _PAIRS) * _HUNDRED_AND_MILLION + ((pairs >> _16) & _PAIRS) * _ONE_AND_TEN_THOUSAND) >> _32) & _LOW


@inline_kernel
def number_of_8(data: U8, start: int, stop: int) -> tuple[float, bool]:
    """Read the bytes start:stop, 1 to 8 of them, as digits with at most one point inside: (value, whether they are that).

    No sign, and no zero in front of another digit; for both grammars. PADDING bytes must be readable from `stop` on.
    Source: the digits are moved to the end of one word, the point is removed, and one division rounds (Clinger 1990).
    """
    size = stop - start
    word = (load_word(data, start) ^ _ZEROS) << (np.uint64(8 * (8 - size)) & np.uint64(63))
    other = word ^ _POINTS
    point = (other - ONES) & ~other & TOPS
    has = point != _0
    low = ((point & (~point + _1)) >> _7) - _1  # the bits below the point
    word = ((word & low) << _8) | (word & ~((low << _8) | _255)) if has else word
    places = 7 - int(np.int64(trailing_zeros(point) >> np.uint64(3))) if has else 0
    first, second = peek(data, start), peek(data, start + 1)
    good = (((word + _BEYOND_NINE) | word) & TOPS) == _0
    good = good & (first != _DOT) & (has == (places > 0)) & ((first != _ZERO) | (second == _DOT) | (size == 1))
    return float(np.int64(join_digits(word))) / peek(_POWERS_OF_TEN, places), good


@inline_kernel
def number_of_16(data: U8, start: int, stop: int) -> tuple[float, bool]:
    """`number_of_8` for 9 to 16 bytes, whose digits are a number of at most 2^53. Source: as there, with two words."""
    high = (load_word(data, start) ^ _ZEROS) << (np.uint64(8 * (16 - (stop - start))) & np.uint64(63))
    low = load_word(data, stop - _WORD_BYTES) ^ _ZEROS
    other = low ^ _POINTS
    point = (other - ONES) & ~other & TOPS
    places = 0
    has = point != _0
    if has:
        below = ((point & (~point + _1)) >> _7) - _1
        low = ((low & below) << _8) | (low & ~((below << _8) | _255)) | (high >> np.uint64(56))
        high <<= _8
        places = 7 - int(np.int64(trailing_zeros(point) >> np.uint64(3)))
    else:
        other = high ^ _POINTS
        point = (other - ONES) & ~other & TOPS
        if point != _0:
            below = ((point & (~point + _1)) >> _7) - _1
            high = ((high & below) << _8) | (high & ~((below << _8) | _255))
            places = 15 - int(np.int64(trailing_zeros(point) >> np.uint64(3)))
    first, second = peek(data, start), peek(data, start + 1)
    good = ((((low + _BEYOND_NINE) | low) | ((high + _BEYOND_NINE) | high)) & TOPS) == _0
    good = good & (first != _DOT) & (has == (0 < places < _WORD_BYTES)) & ((first != _ZERO) | (second == _DOT))
    digits = join_digits(high) * _HUNDRED_MILLION + join_digits(low)
    return float(np.int64(digits)) / peek(_POWERS_OF_TEN, places), good & (digits <= _EXACT_INTEGER)


@kernel
def any_number(data: U8, start: int, stop: int, json: bool) -> tuple[float, bool]:
    """Read the bytes start:stop as `parse_number` does, common numbers faster.

    Parameters
    ----------
    data : u8[...]     read only
    start, stop : int  the number, all of it
    json : bool        which grammar

    Returns            (value, whether it is a number and exact)
    Cost               one read of each byte
    Source             as `parse_number`
    """
    value, _, end = fast_number(data, start)
    if end == stop:
        return value, True
    value, status = parse_number(data, start, stop, json)
    return value, status == EXACT


@inline_kernel
def number_between(data: U8, start: int, stop: int, json: bool) -> tuple[float, bool]:
    """Read the bytes start:stop as `parse_number` does: (value, whether it is a number and exact).

    PADDING bytes must be readable from `stop` on, and 8 before it. Source: as for `parse_number`.
    """
    negative = peek(data, start) == _MINUS
    first = start + int(negative)
    size = stop - first
    if 0 < size <= _WORD_BYTES:
        value, good = number_of_8(data, first, stop)
    elif _WORD_BYTES < size <= 2 * _WORD_BYTES:
        value, good = number_of_16(data, first, stop)
    else:
        value, good = 0.0, False
    if good:
        return (-value if negative else value), True
    if size <= 0:
        return 0.0, False
    return any_number(data, start, stop, json)
