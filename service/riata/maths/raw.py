"""Memory without questions: elements by plain address, and 64 bytes compared at once.

An index of an array is checked by numba for being negative, and that costs more than the access itself in a loop that does
little else. `peek` and `poke` check nothing: the caller knows that the element is there.

Masks of 64 bytes have one bit for each byte, the lowest for the first in memory. The comparison is written for a vector of
64 bytes, and the compiler makes of it what the machine has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from riata.base.arrays import U8, U32

BLOCK: Final = 64  # bytes that are compared at once
SPILLED: Final = 8  # positions written at once
_OUTSIDE_SPACES, _ABOVE = 0x5E, 0x7F  # c - 32 > 94, unsigned: below a space, or 0x7F and above
_SPACE, _QUOTE, _COMMA, _COLON, _HASH, _BACKSLASH, _BAR, _CLOSE, _NEWLINE = 32, 34, 44, 58, 35, 92, 124, 125, 10


def _slow_peek(array: Any, at: int) -> Any:
    return array[at]


def _slow_poke(array: Any, at: int, value: Any) -> None:
    array[at] = value


def _slow_ones(word: np.uint64) -> int:
    return int(word).bit_count()


def _slow_spill(positions: U32, at: int, base: int, mask: np.uint64) -> np.uint64:
    rest = int(mask)
    for k in range(SPILLED):
        low = (rest & -rest).bit_length() - 1 if rest else 64
        positions[at + k] = base + low
        rest &= rest - 1 if rest else 0
    return np.uint64(rest)


def _slow_marks(meant: Callable[[int], bool]) -> Callable[[U8, int], np.uint64]:
    def marks(data: U8, at: int) -> np.uint64:
        return np.uint64(sum(1 << i for i in range(BLOCK) if meant(int(data[at + i]))))

    return marks


def _pointer(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:
    if not (isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"):
        raise numba.TypingError("plain access is for contiguous arrays of one dimension")
    return builder.gep(context.make_array(array)(context, builder, value).data, [index])


@intrinsic  # type: ignore[untyped-decorator]
def _peek(_typing_context: Any, array: Any, _at: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, array, args[0], args[1]))

    return array.dtype(array, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _poke(_typing_context: Any, array: Any, _at: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        item = context.cast(builder, args[2], value, array.dtype)
        builder.store(context.get_value_as_data(builder, array.dtype, item), _pointer(context, builder, array, args[0], args[1]))
        return context.get_dummy_value()

    return types.void(array, types.int64, value), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _ones(_typing_context: Any, _word: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _spill(_typing_context: Any, positions: Any, _at: Any, _base: Any, _mask: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        wide, narrow = cgutils.ir.IntType(64), cgutils.ir.IntType(32)
        first = _pointer(context, builder, positions, args[0], args[1])
        base, mask = builder.trunc(args[2], narrow), args[3]
        for k in range(SPILLED):
            low = builder.trunc(builder.cttz(mask, cgutils.false_bit), narrow)
            builder.store(builder.add(base, low), builder.gep(first, [wide(k)]))
            mask = builder.and_(mask, builder.sub(mask, wide(1)))
        return mask

    return types.uint64(positions, types.int64, types.int64, types.uint64), codegen


def _fast_marks(build: Callable[[Any, Any, Callable[[int], Any]], Any]) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def marks(_typing_context: Any, data: Any, _at: Any) -> Any:
        def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            block = cgutils.ir.VectorType(cgutils.ir.IntType(8), BLOCK)
            pointer = _pointer(context, builder, data, args[0], args[1])
            held = builder.load(builder.bitcast(pointer, block.as_pointer()))
            held.align = 1
            mask = builder.bitcast(
                build(builder, held, lambda c: cgutils.ir.Constant(block, [c] * BLOCK)), cgutils.ir.IntType(BLOCK)
            )
            return mask if sys.byteorder == "little" else builder.bitreverse(mask)

        return types.uint64(data, types.int64), codegen

    return marks


def _any(builder: Any, held: Any, splat: Callable[[int], Any], low: Any, wanted: tuple[int, ...]) -> Any:
    for c in wanted:
        low = builder.or_(low, builder.icmp_unsigned("==", held, splat(c)))
    return low


def _no_name(builder: Any, held: Any, splat: Callable[[int], Any], also: int) -> Any:
    """Spaces, what is below them, 0x7F and above, colons, and one byte more."""
    outside = builder.icmp_unsigned(">=", builder.sub(held, splat(_SPACE + 1)), splat(_ABOVE - _SPACE - 1))
    return _any(builder, held, splat, outside, (_COLON, also))


def _in_json(builder: Any, held: Any, splat: Callable[[int], Any]) -> Any:
    outside = builder.icmp_unsigned(">", builder.sub(held, splat(_SPACE)), splat(_OUTSIDE_SPACES))
    return _any(builder, held, splat, outside, (_QUOTE, _BACKSLASH, _COMMA, _CLOSE))


_PLAIN: Final = numba.config.DISABLE_JIT
# peek(array, at), poke(array, at, value): one element of a contiguous array, which must be there; nothing checks that.
peek = _slow_peek if _PLAIN else _peek
poke = _slow_poke if _PLAIN else _poke
# ones(word): how many bits are set.
ones = _slow_ones if _PLAIN else _ones
# spill(positions, at, base, mask): base + each of the lowest SPILLED set bits into positions[at:], which have room for all
# SPILLED whether or not there are as many; returns the mask without them.
spill = _slow_spill if _PLAIN else _spill
# Masks of the block that begins at `at`, all of which must be there.
newline_marks = (
    _slow_marks(lambda c: c == _NEWLINE) if _PLAIN else _fast_marks(lambda b, v, s: b.icmp_unsigned("==", v, s(_NEWLINE)))
)
vw_marks = (
    _slow_marks(lambda c: c <= _SPACE or c >= _ABOVE or c in (_COLON, _BAR))
    if _PLAIN
    else _fast_marks(lambda b, v, s: _no_name(b, v, s, _BAR))
)
svmlight_marks = (
    _slow_marks(lambda c: c <= _SPACE or c >= _ABOVE or c in (_COLON, _HASH))
    if _PLAIN
    else _fast_marks(lambda b, v, s: _no_name(b, v, s, _HASH))
)
json_marks = (
    _slow_marks(lambda c: c < _SPACE or c >= _ABOVE or c in (_QUOTE, _BACKSLASH, _COMMA, _CLOSE))
    if _PLAIN
    else _fast_marks(_in_json)
)
