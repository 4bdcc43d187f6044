"""Short decimal numbers, eight bytes at a time: the usual ones, at a third of the cost of `wire.numbers`, to the same bits.

What is taken here is a number of both grammars; an exponent, leading zeros, a bare point, a long number and every mistake
are left to `wire.numbers`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.maths.kernel import inline_kernel
from riata.maths.words import leading_digits, load_word
from riata.wire.numbers import EXACT, round_decimal

PLAIN_NUMBER_REACH: Final = 34  # 7 digits, the point, 3 words, and the byte after them, which is the caller's to look at
_WORD_BYTES: Final = 8
_WORDS_BEHIND_POINT: Final = 3
_DIGITS_MAX: Final = 19  # 10^19 - 1 < 2^64
_EXACT_INTEGER = np.uint64(2**53)  # every integer up to here is a double
_POWERS_OF_TEN = np.array([10.0**k for k in range(_DIGITS_MAX + 1)])  # exact, all of them
_WHOLE_POWERS_OF_TEN = np.array([10**k for k in range(_WORD_BYTES + 1)], np.uint64)
_MINUS, _DOT, _ZERO, _E_UPPER, _E_LOWER = 45, 46, 48, 69, 101


@inline_kernel
def plain_number(data: U8, p: int) -> tuple[int, float]:
    """Read digits, or digits `.` digits, 19 at most and 7 before the point: (position after them, value), or (-1, 0.0).

    For both grammars; a sign, an exponent and whatever is longer are left to `parse_prefix`. PLAIN_NUMBER_REACH bytes must be
    there from `p` on. Source: as for `parse_number`.
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
def usual_number(data: U8, p: int) -> tuple[float, int, int]:
    """Read a minus, if any, and a `plain_number`: what `parse_prefix` returns, or an end of -1 where that has to be asked.

    The end may lie behind the bytes that the caller meant; then too. Source: as for `parse_number`.
    """
    end, value = -1, 0.0
    if p + 1 + PLAIN_NUMBER_REACH <= len(data):
        negative = data[p] == _MINUS
        end, value = plain_number(data, p + int(negative))
        value = -value if negative else value
        if end >= 0 and (data[end] == _E_LOWER or data[end] == _E_UPPER):
            end = -1
    return value, EXACT, end
