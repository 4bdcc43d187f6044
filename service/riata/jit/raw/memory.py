"""Unchecked memory access: elements by index without bounds or sign checks, and 64 bytes compared at once.

numba checks whether an array index is negative, which costs more than the access itself in a tight loop. `peek` and `poke`
check nothing: the caller guarantees that the element exists.

Masks of 64 bytes have one bit for each byte; the lowest bit is for the first byte in memory. The comparison is written for a
vector of 64 bytes, and the compiler maps it to the vectors that the machine has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from riata.base.arrays import U8, U32, U64
from riata.jit.simd.f64x8 import everywhere

BLOCK: Final = 64  # bytes that are compared at once
SPILLED: Final = 16  # positions written at once
LINE_KEYS: Final = 16  # u32 of a cache line
LINE_WORDS: Final = 8  # u64 of a cache line
_DELETE, _HIGH = 0x7F, 0x80
_SPACE, _COLON, _HASH, _BAR, _NEWLINE = 32, 58, 35, 124, 10


def _slow_peek(array: Any, at: int) -> Any:
    return array[at]


def _slow_poke(array: Any, at: int, value: Any) -> None:
    array[at] = value


def _slow_ones(word: np.uint64) -> int:
    return int(word).bit_count()


def _slow_spill(positions: U32, at: int, base: int, mask: np.uint64) -> np.uint64:
    rest = int(mask)
    for k in range(SPILLED):
        if not rest:
            break
        positions[at + k] = base + (rest & -rest).bit_length() - 1
        rest &= rest - 1
    return np.uint64(rest)


def _slow_in_line(table: U64, at: int, word: np.uint64) -> bool:
    return bool((table[at : at + LINE_WORDS] == word).any())


def _slow_marks(meant: Callable[[int], bool]) -> Callable[[U8, int], np.uint64]:
    def marks(data: U8, at: int) -> np.uint64:
        return np.uint64(sum(1 << i for i in range(BLOCK) if meant(int(data[at + i]))))

    return marks


def element(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:
    """Pointer to an element: of an array, or of the result of `jit.raw.unowned.bare`."""
    if isinstance(array, types.CPointer):
        return builder.gep(value, [index])
    if not (isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"):
        raise numba.TypingError("plain access is for contiguous arrays of one dimension")
    return builder.gep(context.make_array(array)(context, builder, value).data, [index])


@intrinsic  # type: ignore[untyped-decorator]
def _peek(_typing_context: Any, array: Any, _at: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load(element(context, builder, array, args[0], args[1]))

    return array.dtype(array, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _poke(_typing_context: Any, array: Any, _at: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        item = context.cast(builder, args[2], value, array.dtype)
        builder.store(context.get_value_as_data(builder, array.dtype, item), element(context, builder, array, args[0], args[1]))
        return context.get_dummy_value()

    return types.void(array, types.int64, value), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _ones(_typing_context: Any, _word: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


def _spill_by_bits(builder: Any, first: Any, base: Any, mask: Any) -> Any:
    """Write half of the positions, then the other half if there are more."""
    wide, narrow = cgutils.ir.IntType(64), cgutils.ir.IntType(32)
    left = cgutils.alloca_once_value(builder, mask)

    def some(begin: int) -> None:
        rest = builder.load(left)
        for k in range(begin, begin + SPILLED // 2):
            low = builder.trunc(builder.cttz(rest, cgutils.false_bit), narrow)
            builder.store(builder.add(base, low), builder.gep(first, [wide(k)]))
            rest = builder.and_(rest, builder.sub(rest, wide(1)))
        builder.store(rest, left)

    some(0)
    with builder.if_then(builder.icmp_unsigned("!=", builder.load(left), wide(0))):
        some(SPILLED // 2)
    return builder.load(left)


def _spill_by_bytes(builder: Any, first: Any, base: Any, mask: Any) -> Any:
    """Compact the indices of the set bytes with one instruction."""
    ir, wide, narrow = cgutils.ir, cgutils.ir.IntType(64), cgutils.ir.IntType(32)
    block, flags = ir.VectorType(ir.IntType(8), BLOCK), ir.VectorType(ir.IntType(1), BLOCK)
    compress = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(block, [block, flags, block]), "llvm.experimental.vector.compress.v64i8"
    )
    every = ir.Constant(block, list(range(BLOCK)))
    moved = builder.call(compress, [every, builder.bitcast(mask, flags), ir.Constant(block, [0] * BLOCK)])
    some = ir.VectorType(narrow, SPILLED)
    low = builder.shuffle_vector(moved, moved, ir.Constant(some, list(range(SPILLED))))
    low = builder.add(builder.zext(low, some), everywhere(builder, base, SPILLED))
    builder.store(low, builder.bitcast(first, some.as_pointer())).align = 4
    left = cgutils.alloca_once_value(builder, wide(0))
    with builder.if_then(builder.icmp_unsigned(">", builder.ctpop(mask), wide(SPILLED)), likely=False):
        rest = mask
        for _ in range(SPILLED):
            rest = builder.and_(rest, builder.sub(rest, wide(1)))
        builder.store(rest, left)
    return builder.load(left)


@intrinsic  # type: ignore[untyped-decorator]
def _spill(_typing_context: Any, positions: Any, _at: Any, _base: Any, _mask: Any) -> Any:
    features = numba.config.CPU_FEATURES or get_host_cpu_features()
    spread = _spill_by_bytes if "+avx512vbmi2" in features and sys.byteorder == "little" else _spill_by_bits

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        first = element(context, builder, positions, args[0], args[1])
        return spread(builder, first, builder.trunc(args[2], cgutils.ir.IntType(32)), args[3])

    return types.uint64(positions, types.int64, types.int64, types.uint64), codegen


def _compared(builder: Any, context: Any, sign: str, count: int, operands: tuple[Any, Any, Any, Any]) -> Any:
    """One bit for each of `count` elements starting at an index: whether the element is `sign` (a comparison) the value."""
    array, array_value, at, value = operands
    pointer = element(context, builder, array, array_value, at)
    held = builder.load(builder.bitcast(pointer, cgutils.ir.VectorType(value.type, count).as_pointer()))
    held.align = value.type.width // 8
    return builder.bitcast(builder.icmp_unsigned(sign, held, everywhere(builder, value, count)), cgutils.ir.IntType(count))


@intrinsic  # type: ignore[untyped-decorator]
def _in_line(_typing_context: Any, table: Any, _at: Any, _word: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        found = _compared(builder, context, "==", LINE_WORDS, (table, *args))
        return builder.icmp_unsigned("!=", found, found.type(0))

    return types.boolean(table, types.int64, types.uint64), codegen


def _fast_marks(build: Callable[[Any, Any, Callable[[int], Any]], Any]) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def marks(_typing_context: Any, data: Any, _at: Any) -> Any:
        def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            block = cgutils.ir.VectorType(cgutils.ir.IntType(8), BLOCK)
            pointer = element(context, builder, data, args[0], args[1])
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


def _below(builder: Any, held: Any, splat: Callable[[int], Any], bound: int, also: tuple[int, ...]) -> Any:
    """Bytes below a bound, and some values."""
    return _any(builder, held, splat, builder.icmp_unsigned("<", held, splat(bound)), also)


_PLAIN: Final = numba.config.DISABLE_JIT
# peek(array, at), poke(array, at, value): one element of a contiguous array, which must exist; nothing checks that.
peek = _slow_peek if _PLAIN else _peek
poke = _slow_poke if _PLAIN else _poke
# ones(word): the number of set bits.
ones = _slow_ones if _PLAIN else _ones
# spill(positions, at, base, mask): writes base + each of the lowest SPILLED set bits into positions[at:]. It must have space for
# all SPILLED even if fewer are set; entries after the last are undefined. Returns the mask without the bits written.
spill = _slow_spill if _PLAIN else _spill
# in_line(table, at, word): whether table[at:at + 8] has `word`; nothing checks bounds.
in_line = _slow_in_line if _PLAIN else _in_line
# Masks of the block that begins at `at`; all of its bytes must exist.
newline_marks = (
    _slow_marks(lambda c: c == _NEWLINE) if _PLAIN else _fast_marks(lambda b, v, s: b.icmp_unsigned("==", v, s(_NEWLINE)))
)
space_marks = _slow_marks(lambda c: c == _SPACE) if _PLAIN else _fast_marks(lambda b, v, s: b.icmp_unsigned("==", v, s(_SPACE)))
colon_marks = _slow_marks(lambda c: c == _COLON) if _PLAIN else _fast_marks(lambda b, v, s: b.icmp_unsigned("==", v, s(_COLON)))
vw_marks = (
    _slow_marks(lambda c: c <= _SPACE or c in (_DELETE, _COLON, _BAR))
    if _PLAIN
    else _fast_marks(lambda b, v, s: _below(b, v, s, _SPACE + 1, (_DELETE, _COLON, _BAR)))
)
svmlight_marks = (
    _slow_marks(lambda c: c <= _SPACE or c in (_DELETE, _COLON, _HASH))
    if _PLAIN
    else _fast_marks(lambda b, v, s: _below(b, v, s, _SPACE + 1, (_DELETE, _COLON, _HASH)))
)
high_marks = _slow_marks(lambda c: c >= _HIGH) if _PLAIN else _fast_marks(lambda b, v, s: b.icmp_unsigned(">=", v, s(_HIGH)))
