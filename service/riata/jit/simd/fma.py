"""Fused multiply-add: for one number, and for a tile of a matrix.

a b + c with one rounding is exactly defined (IEEE 754-2008), so every machine gives the same bits, whatever the width of its
vectors. Dense linear algebra consists almost only of it. Each function here also has a plain form for interpreted code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numba
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from riata.base.arrays import F64

_FEATURES: Final = str(cpu_target.target_context.codegen().magic_tuple()[2]).split(",")

# A tile is held in registers: TILE_ROWS lines of _VECTORS registers of _WIDTH numbers each. It has to fit into the machine's
# registers together with one line of x and one number (32 registers of 8 numbers, 16 of 4, 16 or 32 of 2). At least 8 sums are
# needed to keep two units of 4 cycles' latency busy. The shape affects the time, not the bits.
if "+avx512f" in _FEATURES:
    _WIDTH, TILE_ROWS, _VECTORS = 8, 8, 3
elif "+fma" in _FEATURES:
    _WIDTH, TILE_ROWS, _VECTORS = 4, 4, 3
else:
    _WIDTH, TILE_ROWS, _VECTORS = 2, 4, 2
TILE_COLUMNS: Final = _WIDTH * _VECTORS


def _plain_fma(a: float, b: float, c: float) -> float:
    """Return a b + c with one rounding."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def _plain_tile(h: F64, hx: F64, x: F64, n: int) -> None:
    """Add n rows, one after another, to the tile at the top left of h. Row i is TILE_ROWS numbers of hx, TILE_COLUMNS of x."""
    for r in range(TILE_ROWS):
        for c in range(TILE_COLUMNS):
            for i in range(n):
                h[r, c] = _plain_fma(float(hx[i * TILE_ROWS + r]), float(x[i * TILE_COLUMNS + c]), float(h[r, c]))


class _Code:
    """Emits LLVM IR, for vectors of `width` numbers."""

    def __init__(self, context: Any, builder: Any, width: int) -> None:
        ir = cgutils.ir
        self.context, self.builder, self.width = context, builder, width
        self.number, self.word, self.index = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
        self.vector = ir.VectorType(self.number, width)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        self._fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{width}f64")
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, *[self.index] * 3])
        self._prefetch, self._byte = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0"), byte

    def address(self, kind: Any, array: Any) -> Any:
        """Address of the first element."""
        view = self.context.make_array(kind)(self.context, self.builder, array)
        return self.builder.ptrtoint(view.data, self.word)

    def stride(self, kind: Any, array: Any) -> Any:
        """Bytes from one line to the next."""
        view = self.context.make_array(kind)(self.context, self.builder, array)
        return self.builder.extract_value(view.strides, 0)

    def beyond(self, address: Any, count: Any) -> Any:
        """Address `count` numbers further."""
        count = self.word(count) if isinstance(count, int) else count
        return self.builder.add(address, self.builder.mul(count, self.word(8)))

    def load(self, kind: Any, address: Any) -> Any:
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=8)

    def store(self, value: Any, address: Any) -> None:
        self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer()), align=8)

    def everywhere(self, number: Any) -> Any:
        """A vector that holds one number in every lane."""
        ir = cgutils.ir
        one = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), number, self.index(0))
        lanes = ir.Constant(ir.VectorType(self.index, self.width), [0] * self.width)
        return self.builder.shuffle_vector(one, one, lanes)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.call(self._fma, [a, b, c])

    def prefetch(self, address: Any) -> None:
        """Prefetch a cache line for writing."""
        hints = [self.index(1), self.index(3), self.index(1)]
        self.builder.call(self._prefetch, [self.builder.inttoptr(address, self._byte), *hints])

    def repeat(self, n: Any, sums: list[Any], step: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
        """Run `step` for i = 0 .. n - 1. It maps the sums to the next ones. Returns the last sums."""
        builder, start = self.builder, self.builder.block
        body, done = builder.append_basic_block("body"), builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed(">", n, self.word(0)), body, done)
        builder.position_at_end(body)
        i, before = builder.phi(self.word), [builder.phi(one.type) for one in sums]
        after = step(i, before)
        following = builder.add(i, self.word(1))
        builder.cbranch(builder.icmp_signed("<", following, n), body, done)
        end = builder.block
        i.add_incoming(self.word(0), start)
        i.add_incoming(following, end)
        builder.position_at_end(done)
        results = []
        for phi, first, last in zip(before, sums, after, strict=True):
            phi.add_incoming(first, start)
            phi.add_incoming(last, end)
            result = builder.phi(first.type)
            result.add_incoming(first, start)
            result.add_incoming(last, end)
            results.append(result)
        return results


@intrinsic  # type: ignore[untyped-decorator]
def _emit_fma(_typing: Any, _a: Any, _b: Any, _c: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), build


@intrinsic  # type: ignore[untyped-decorator]
def _emit_tile(_typing: Any, h: Any, hx: Any, x: Any, _n: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, _WIDTH)
        corner, stride = code.address(h, arguments[0]), code.stride(h, arguments[0])
        hx_at, x_at = code.address(hx, arguments[1]), code.address(x, arguments[2])
        places = [
            code.beyond(builder.add(corner, builder.mul(stride, code.word(r))), _WIDTH * v)
            for r in range(TILE_ROWS)
            for v in range(_VECTORS)
        ]
        below = builder.mul(stride, code.word(TILE_ROWS))
        for place in places:  # the tile below is processed next
            code.prefetch(builder.add(place, below))

        def step(i: Any, sums: list[Any]) -> list[Any]:
            row, ones = code.beyond(x_at, builder.mul(i, code.word(TILE_COLUMNS))), []
            xs = [code.load(code.vector, code.beyond(row, _WIDTH * v)) for v in range(_VECTORS)]
            for r in range(TILE_ROWS):
                one = code.beyond(hx_at, builder.add(builder.mul(i, code.word(TILE_ROWS)), code.word(r)))
                ones.append(code.everywhere(code.load(code.number, one)))
            return [code.fma(ones[at // _VECTORS], xs[at % _VECTORS], total) for at, total in enumerate(sums)]

        sums = code.repeat(arguments[3], [code.load(code.vector, place) for place in places], step)
        for place, total in zip(places, sums, strict=True):
            code.store(total, place)
        return context.get_dummy_value()

    return types.void(h, hx, x, types.intp), build


_PLAIN: Final = bool(numba.config.DISABLE_JIT)
fma = _plain_fma if _PLAIN else _emit_fma
add_tile = _plain_tile if _PLAIN else _emit_tile
