"""SIMD vectors of eight float64: a kernel writes one expression, and the machine evaluates it for eight features at once.

Compiled, `Lanes` is a vector of eight numbers in registers. Interpreted, it is an array f64[8], and the same expressions give
the same bits: every operation acts on each lane separately and rounds as a scalar operation would. The compiler's own loop
vectorizer is not relied on: it works only if it can prove that no columns overlap. A kernel may use + - * / and the comparisons
< > == != between lanes, or between lanes and a number; & of two comparisons; and the functions of this module.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from riata.base.arrays import BOOL, F64

WIDTH: Final = 8
ALL: Final = (1 << WIDTH) - 1  # every flag is set
PLAIN: Final = bool(numba.config.DISABLE_JIT)

ir: Final = cgutils.ir

Lanes = F64  # f64[8]
Mask = BOOL  # bool[8]

NUMBER: Final = ir.DoubleType()
INDEX: Final = ir.IntType(32)
NUMBER_BYTES: Final = 8
VECTOR: Final = ir.VectorType(NUMBER, WIDTH)
SLOTS: Final = ir.VectorType(INDEX, WIDTH)
FLAGS: Final = ir.VectorType(ir.IntType(1), WIDTH)


class _LanesType(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="Lanes")


class _MaskType(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="Mask")


LANES: Final = _LanesType()
MASK: Final = _MaskType()


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


@register_model(_MaskType)
class _MaskModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, FLAGS)


def indices(*values: int) -> Any:
    """A constant vector of integers: the lanes that a shuffle takes, or numbers to compare with."""
    return ir.Constant(ir.VectorType(INDEX, len(values)), list(values))


def everywhere(builder: Any, value: Any, count: int = WIDTH) -> Any:
    """The same number in each of `count` lanes; a vector is returned unchanged."""
    if isinstance(value.type, ir.VectorType):
        return value
    kind = ir.VectorType(value.type, count)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, INDEX(0))
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), indices(*[0] * count))


def _call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def make_operator(symbol: Any, kind: Any, one: Any, result: Any, build: Any) -> None:
    """Define one operator for numba: between two vectors of a kind, or between a vector and a scalar."""
    pairs = ((kind, kind), (kind, one), (one, kind))

    class Signatures(ConcreteTemplate):  # type: ignore[misc]
        cases = [signature(result, *pair) for pair in pairs]  # noqa: RUF012

    infer_global(symbol)(Signatures)

    def lower(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return build(builder, *(everywhere(builder, argument) for argument in arguments))

    for pair in pairs:
        lower_builtin(symbol, *pair)(lower)


def join_masks(symbol: Any, name: str) -> None:
    """Define one operator between two masks for numba."""

    class Signatures(ConcreteTemplate):  # type: ignore[misc]
        cases = [signature(MASK, MASK, MASK)]  # noqa: RUF012

    infer_global(symbol)(Signatures)
    lower_builtin(symbol, MASK, MASK)(lambda _context, builder, _signature, both: getattr(builder, name)(*both))


def _make_operators() -> None:
    of = LANES, types.float64
    for symbol, name in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv")):
        make_operator(symbol, *of, LANES, lambda builder, a, b, name=name: getattr(builder, name)(a, b))
    for symbol, sign in ((operator.lt, "<"), (operator.gt, ">"), (operator.eq, "==")):
        make_operator(symbol, *of, MASK, lambda builder, a, b, sign=sign: builder.fcmp_ordered(sign, a, b))
    make_operator(operator.ne, *of, MASK, lambda builder, a, b: builder.fcmp_unordered("!=", a, b))

    join_masks(operator.and_, "and_")


_make_operators()


def address(context: Any, builder: Any, array: Any, value: Any, at: Any) -> Any:
    """Pointer to element `at` of a contiguous array."""
    return builder.gep(context.make_array(array)(context, builder, value).data, [at])


def load_at(builder: Any, kind: Any, pointer: Any, align: int) -> Any:
    """Load a vector from a pointer; align is the guaranteed alignment in bytes."""
    word = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    word.align = align
    return word


def store_at(builder: Any, value: Any, pointer: Any, align: int) -> None:
    """Store a vector to a pointer; align is the guaranteed alignment in bytes."""
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = align


def _plain_load(array: F64, at: int) -> Lanes:
    return array[at : at + WIDTH].copy()


@intrinsic  # type: ignore[untyped-decorator]
def _emit_load(_typing: Any, array: Any, _at: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return load_at(builder, VECTOR, address(context, builder, array, *arguments), NUMBER_BYTES)

    return LANES(array, types.intp), build


def _plain_store(array: F64, at: int, lanes: Lanes) -> None:
    array[at : at + WIDTH] = lanes


@intrinsic  # type: ignore[untyped-decorator]
def _emit_store(_typing: Any, array: Any, _at: Any, _lanes: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        store_at(builder, arguments[2], address(context, builder, array, *arguments[:2]), NUMBER_BYTES)
        return context.get_dummy_value()

    return types.void(array, types.intp, LANES), build


def _plain_spread(value: float) -> Lanes:
    return np.full(WIDTH, value)


@intrinsic  # type: ignore[untyped-decorator]
def _emit_spread(_typing: Any, _value: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return everywhere(builder, arguments[0])

    return LANES(types.float64), build


def _plain_where(mask: Mask, yes: Lanes | float, no: Lanes | float) -> Lanes:
    return np.where(mask, yes, no)


@intrinsic  # type: ignore[untyped-decorator]
def _emit_where(_typing: Any, _mask: Any, yes: Any, no: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(arguments[0], everywhere(builder, arguments[1]), everywhere(builder, arguments[2]))

    return LANES(MASK, *(LANES if kind == LANES else types.float64 for kind in (yes, no))), build


@intrinsic  # type: ignore[untyped-decorator]
def _emit_root(_typing: Any, _lanes: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _call(builder, "llvm.sqrt.v8f64", VECTOR, *arguments)

    return LANES(LANES), build


@intrinsic  # type: ignore[untyped-decorator]
def _emit_size(_typing: Any, _lanes: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _call(builder, "llvm.fabs.v8f64", VECTOR, *arguments)

    return LANES(LANES), build


def _plain_add_up(start: float, lanes: Lanes) -> float:
    for number in lanes.tolist():
        start += number
    return start


@intrinsic  # type: ignore[untyped-decorator]
def _emit_add_up(_typing: Any, _start: Any, _lanes: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _call(builder, "llvm.vector.reduce.fadd.v8f64", NUMBER, *arguments)  # in order, without the reassoc flag

    return types.float64(types.float64, LANES), build


def _plain_flags(mask: Mask) -> int:
    return int(np.packbits(mask, bitorder="little")[0])


@intrinsic  # type: ignore[untyped-decorator]
def _emit_flags(_typing: Any, _mask: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.bitcast(arguments[0], ir.IntType(WIDTH)), ir.IntType(64))

    return types.int64(MASK), build


# load(array, at): elements at:at + 8 of a contiguous array, all of which must exist; nothing checks that. store: the reverse.
load = _plain_load if PLAIN else _emit_load
store = _plain_store if PLAIN else _emit_store
spread = _plain_spread if PLAIN else _emit_spread  # a number in every lane
where = _plain_where if PLAIN else _emit_where  # (mask, yes, no), lane by lane
root = np.sqrt if PLAIN else _emit_root
size = np.abs if PLAIN else _emit_size
add_up = _plain_add_up if PLAIN else _emit_add_up  # (start, lanes): start plus each lane, one after another
flags = _plain_flags if PLAIN else _emit_flags  # (mask): bit j is lane j
