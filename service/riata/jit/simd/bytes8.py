"""Eight bytes at once: unaligned loads of 64-bit words from arrays of bytes, and tests of the bytes of a word.

A word is read as little endian on every machine: its lowest byte is the first in memory. Tests of bytes return masks with the
top bit set in each byte that matches. Only the lowest set bit is exact, because borrows and carries propagate upwards.
"""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from riata.base.arrays import U8
from riata.jit.kernel import inline_kernel

ONES = np.uint64(0x0101010101010101)
TOPS = np.uint64(0x8080808080808080)
_SPACES = np.uint64(0x2020202020202020)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_ZEROS = np.uint64(0x3030303030303030)
_BEYOND_NINE = np.uint64(0x7676767676767676)  # 0x80 - 10: sets the top bit of bytes of 10 and more
_8, _16, _32, _64 = np.uint64(8), np.uint64(16), np.uint64(32), np.uint64(64)
_10 = np.uint64(10)
_PAIRS = np.uint64(0x000000FF000000FF)
_HUNDRED_AND_MILLION = np.uint64(100 + (1_000_000 << 32))
_ONE_AND_TEN_THOUSAND = np.uint64(1 + (10_000 << 32))
_LOW = np.uint64(0xFFFFFFFF)


def _slow_load(data: U8, at: int) -> np.uint64:
    return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))


def _slow_trailing_zeros(word: np.uint64) -> np.uint64:
    return np.uint64(64 if word == 0 else (int(word) & -int(word)).bit_length() - 1)


@intrinsic  # type: ignore[untyped-decorator]
def _load(_typing_context: Any, data: Any, at: Any) -> Any:
    if not (isinstance(data, types.Array) and data.dtype == types.uint8 and data.layout == "C"):
        raise numba.TypingError("words are loaded from contiguous bytes")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(data)(context, builder, args[0])
        index = context.cast(builder, args[1], signature.args[1], types.intp)
        pointer = builder.gep(view.data, [index])
        word = builder.load(builder.bitcast(pointer, context.get_value_type(types.uint64).as_pointer()))
        word.align = 1
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(data, at), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _trailing_zeros(_typing_context: Any, word: Any) -> Any:  # noqa: ARG001  numba wants the names of the arguments
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], cgutils.false_bit)

    return types.uint64(types.uint64), codegen


# load_word(data, at): bytes at:at + 8, all of which must exist; nothing checks that.
load_word = _slow_load if numba.config.DISABLE_JIT else _load
# trailing_zeros(word): zero bits below the lowest one; 64 for 0.
trailing_zeros = _slow_trailing_zeros if numba.config.DISABLE_JIT else _trailing_zeros


@inline_kernel
def first_byte(mask: np.uint64) -> int:
    """Index of the byte that has the lowest set bit of `mask`; 8 if there is none. Source: little endian order."""
    return int(np.int64(trailing_zeros(mask) >> np.uint64(3)))


@inline_kernel
def not_plain(word: np.uint64) -> np.uint64:
    """Mask of bytes that are not plain ASCII inside a JSON string: quote, backslash, below space, 0x7F and above.

    Source: Mycroft 1987, "x - 1 and not x" finds a zero byte; the same subtraction finds bytes below a bound.
    """
    quote, slash = word ^ _QUOTES, word ^ _BACKSLASHES
    below = ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash) | ((word - _SPACES) & ~word)
    return (below | (word + ONES) | word) & TOPS


@inline_kernel
def leading_digits(word: np.uint64) -> tuple[np.uint64, int]:
    """The number given by the leading decimal digits of `word`, and the number of digits, 0 to 8.

    Source: three multiplications join digits to pairs, fours and eights (Lemire, "Quickly parsing eight digits", 2018).
    """
    digits = word ^ _ZEROS
    count = first_byte(((digits + _BEYOND_NINE) | digits) & TOPS)
    # Shifted up so that the last digit is in the last byte; in two steps, as a shift by 64 is undefined.
    digits = (digits << (np.uint64(8 * (8 - count)) >> np.uint64(1))) << (np.uint64(8 * (8 - count)) >> np.uint64(1))
    digits = digits * _10 + (digits >> _8)
    high = (digits & _PAIRS) * _HUNDRED_AND_MILLION
    return ((high + ((digits >> _16) & _PAIRS) * _ONE_AND_TEN_THOUSAND) >> _32) & _LOW, count
