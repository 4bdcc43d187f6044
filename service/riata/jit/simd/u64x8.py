"""SIMD vectors of eight 64-bit words, as `jit.simd.f64x8` has them of eight float64.

Compiled, `Words` is a vector in registers. Interpreted, it is an array u64[8], and the same expressions give the same results:
arithmetic is modulo 2^64, and a shift is by less than 64 wherever its result is used. A kernel may use + - * & | ^ << >> and the
unsigned comparisons < > == != between words, or between words and one word; & and | of two comparisons; and the functions of
this module.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, Final

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic, models, register_model

from riata.base.arrays import U8, U32, U64
from riata.jit.simd.f64x8 import (
    INDEX,
    LANES,
    MASK,
    PLAIN,
    SLOTS,
    VECTOR,
    WIDTH,
    Lanes,
    Mask,
    address,
    everywhere,
    indices,
    ir,
    join_masks,
    load_at,
    make_operator,
    store_at,
)

WORD: Final = ir.IntType(64)
WORD_BYTES: Final = 8
_POSITION_BYTES: Final = 4
_POWERS: Final = [10.0**k for k in range(WIDTH)]
_VECTOR: Final = ir.VectorType(WORD, WIDTH)

Words = U64  # u64[8]


class _WordsType(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="Words")


WORDS: Final = _WordsType()


@register_model(_WordsType)
class _WordsModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _make_operators() -> None:
    of = WORDS, types.uint64
    for symbol, name in (
        *((operator.add, "add"), (operator.sub, "sub"), (operator.mul, "mul"), (operator.lshift, "shl")),
        *((operator.and_, "and_"), (operator.or_, "or_"), (operator.xor, "xor"), (operator.rshift, "lshr")),
    ):
        make_operator(symbol, *of, WORDS, lambda builder, a, b, name=name: getattr(builder, name)(a, b))
    for symbol, sign in ((operator.lt, "<"), (operator.gt, ">"), (operator.eq, "=="), (operator.ne, "!=")):
        make_operator(symbol, *of, MASK, lambda builder, a, b, sign=sign: builder.icmp_unsigned(sign, a, b))

    join_masks(operator.or_, "or_")


_make_operators()


def _plain_positions(array: U32, at: int, step: int) -> Words:
    return array[at : at + WIDTH * step : step].astype(np.uint64)


@intrinsic  # type: ignore[untyped-decorator]
def _emit_positions(_typing: Any, array: Any, _at: Any, _step: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array_value, at, step = arguments
        first = address(context, builder, array, array_value, at)
        if isinstance(step, ir.Constant):  # one load, from which every `step`-th element is taken
            held = load_at(builder, ir.VectorType(INDEX, WIDTH * step.constant), first, _POSITION_BYTES)
            chosen = indices(*range(0, WIDTH * step.constant, step.constant))
            return builder.zext(builder.shuffle_vector(held, held, chosen), _VECTOR)
        found = ir.Constant(SLOTS, ir.Undefined)
        for lane in range(WIDTH):
            item = builder.load(builder.gep(first, [builder.mul(step, WORD(lane))]))
            found = builder.insert_element(found, item, INDEX(lane))
        return builder.zext(found, _VECTOR)

    return WORDS(array, types.int64, types.int64), build


def _plain_words_at(data: U8, places: U32, at: int, step: int, shift: int) -> Words:
    starts = [int(place) + shift for place in places[at : at + WIDTH * step : step]]
    return np.array([int.from_bytes(data[start : start + WORD_BYTES].tobytes(), "little") for start in starts], np.uint64)


@intrinsic  # type: ignore[untyped-decorator]
def _emit_words_at(_typing: Any, data: Any, places: Any, _at: Any, _step: Any, _shift: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        data_value, places_value, at, step, shift = arguments
        start = address(context, builder, data, data_value, shift)
        first = address(context, builder, places, places_value, at)
        words = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(WIDTH):  # one load per word: the machine's gather instruction is no faster
            # Atomic only so that the compiler does not extract places from a vector that has them: that costs twice as much.
            place = builder.load_atomic(builder.gep(first, [builder.mul(step, WORD(lane))]), "monotonic", _POSITION_BYTES)
            place = builder.zext(place, WORD)
            word = load_at(builder, WORD, builder.gep(start, [place]), 1)
            word = word if sys.byteorder == "little" else builder.bswap(word)
            words = builder.insert_element(words, word, INDEX(lane))
        return words

    return WORDS(data, places, types.int64, types.int64, types.int64), build


def _plain_put(array: U64, at: int, words: Words) -> None:
    array[at : at + WIDTH] = words


@intrinsic  # type: ignore[untyped-decorator]
def _emit_put(_typing: Any, array: Any, _at: Any, _words: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        store_at(builder, arguments[2], address(context, builder, array, *arguments[:2]), WORD_BYTES)
        return context.get_dummy_value()

    return types.void(array, types.int64, WORDS), build


def _plain_either(mask: Mask, yes: Words | np.uint64, no: Words | np.uint64) -> Words:
    return np.where(mask, yes, no)


@intrinsic  # type: ignore[untyped-decorator]
def _emit_either(_typing: Any, _mask: Any, yes: Any, no: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(arguments[0], everywhere(builder, arguments[1]), everywhere(builder, arguments[2]))

    return WORDS(MASK, *(WORDS if kind == WORDS else types.uint64 for kind in (yes, no))), build


def _plain_ones_of(words: Words) -> Words:
    return np.array([word.bit_count() for word in words.tolist()], np.uint64)


@intrinsic  # type: ignore[untyped-decorator]
def _emit_ones_of(_typing: Any, _words: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.ctpop.v8i64"), arguments)

    return WORDS(WORDS), build


def _plain_numbers(words: Words) -> Lanes:
    return words.astype(np.int64).astype(np.float64)


@intrinsic  # type: ignore[untyped-decorator]
def _emit_numbers(_typing: Any, _words: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.sitofp(arguments[0], VECTOR)

    return LANES(WORDS), build


def _plain_tens(words: Words) -> Lanes:
    return np.array([_POWERS[word] for word in words.tolist()])


def _tens_by_place(builder: Any, words: Any) -> Any:
    """A table lookup in a register, by one instruction."""
    kind = ir.FunctionType(VECTOR, [VECTOR, _VECTOR])
    permute = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.permvar.df.512")
    return builder.call(permute, [ir.Constant(VECTOR, _POWERS), words])


def _tens_by_bits(builder: Any, words: Any) -> Any:
    """One factor for each of three bits; the products are exact."""
    one, nothing = ir.Constant(VECTOR, [1.0] * WIDTH), ir.Constant(_VECTOR, [0] * WIDTH)
    product = one
    for bit in (1, 2, 4):
        has = builder.icmp_unsigned("!=", builder.and_(words, ir.Constant(_VECTOR, [bit] * WIDTH)), nothing)
        product = builder.fmul(product, builder.select(has, ir.Constant(VECTOR, [_POWERS[bit]] * WIDTH), one))
    return product


@intrinsic  # type: ignore[untyped-decorator]
def _emit_tens(_typing: Any, _words: Any) -> Any:
    features = numba.config.CPU_FEATURES or get_host_cpu_features()
    make = _tens_by_place if "+avx512f" in features else _tens_by_bits
    return LANES(WORDS), lambda _context, builder, _signature, arguments: make(builder, *arguments)


# positions(array, at, step): array[at], array[at + step], ... as words; array[at:at + 8 * step] must exist.
positions = _plain_positions if PLAIN else _emit_positions
# words_at(data, places, at, step, shift): for each of places[at], places[at + step], ... the eight bytes of `data` that begin
# `shift` bytes after it, little endian; all of them must exist.
words_at = _plain_words_at if PLAIN else _emit_words_at
put = _plain_put if PLAIN else _emit_put  # put(array, at, words): into array[at:at + 8], which must exist
either = _plain_either if PLAIN else _emit_either  # either(mask, yes, no), word by word
ones_of = _plain_ones_of if PLAIN else _emit_ones_of  # the number of set bits of each
numbers = _plain_numbers if PLAIN else _emit_numbers  # each, below 2^63, as a float64

tens = _plain_tens if PLAIN else _emit_tens  # 10 to the power of each, below 8
