"""Gather and scatter eight lines of a table at once: transposed into columns of eight numbers, and back.

A table has a line of two or four float64 for each slot, and starts on a cache line. Eight lines at any places are read by
one load each and transposed in registers, so that the code that follows can process eight features at once.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from riata.base.arrays import F64, U32
from riata.jit.simd.f64x8 import (
    INDEX,
    LANES,
    NUMBER,
    NUMBER_BYTES,
    PLAIN,
    SLOTS,
    WIDTH,
    Lanes,
    address,
    everywhere,
    indices,
    ir,
    load_at,
    store_at,
)

_EVEN: Final = (0, 8, 2, 10, 4, 12, 6, 14)  # which lanes of two vectors of eight are taken
_ODD: Final = (1, 9, 3, 11, 5, 13, 7, 15)
_LOW: Final = (0, 1, 8, 9, 4, 5, 12, 13)
_HIGH: Final = (2, 3, 10, 11, 6, 7, 14, 15)
_LONG: Final = ir.IntType(64)
_INDEX_BYTES: Final = 4


def _start(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


def _several(builder: Any, first: Any, count: int) -> list[Any]:
    """`count` consecutive integers from a pointer, one by one."""
    return [builder.zext(builder.load(builder.gep(first, [INDEX(lane)])), _LONG) for lane in range(count)]


def _places(context: Any, builder: Any, kinds: Any, arguments: Any) -> list[Any]:
    """Pointers to the eight lines given by start[at:at + 8]."""
    line, start, at = arguments[:3]
    table = _start(context, builder, kinds[0], line)
    return [builder.gep(table, [number]) for number in _several(builder, address(context, builder, kinds[1], start, at), WIDTH)]


def _turn(builder: Any, two: Any, lanes: Any) -> Any:
    return builder.shuffle_vector(*two, indices(*lanes))


def _parts(builder: Any, several: Any, count: int) -> list[Any]:
    return [builder.extract_value(several, part) for part in range(count)]


def _plain_read(line: F64, start: U32, at: int) -> tuple[Lanes, ...]:
    return tuple(line[start[at : at + WIDTH] // line.shape[1]].T.copy())


@intrinsic  # type: ignore[untyped-decorator]
def _emit_read_two(_typing: Any, line: Any, start: Any, _at: Any) -> Any:
    def build(context: Any, builder: Any, wanted: Any, arguments: Any) -> Any:
        kind = ir.VectorType(NUMBER, 2)
        places = _places(context, builder, (line, start), arguments)
        rows = [load_at(builder, kind, place, 2 * NUMBER_BYTES) for place in places]
        halves = [_turn(builder, (rows[j], rows[j + 2]), range(4)) for j in (0, 4, 1, 5)]
        whole = [_turn(builder, (halves[j], halves[j + 1]), range(8)) for j in (0, 2)]
        return context.make_tuple(builder, wanted.return_type, [_turn(builder, whole, lanes) for lanes in (_EVEN, _ODD)])

    return types.UniTuple(LANES, 2)(line, start, types.intp), build


@intrinsic  # type: ignore[untyped-decorator]
def _emit_read_four(_typing: Any, line: Any, start: Any, _at: Any) -> Any:
    def build(context: Any, builder: Any, wanted: Any, arguments: Any) -> Any:
        kind = ir.VectorType(NUMBER, 4)
        places = _places(context, builder, (line, start), arguments)
        rows = [load_at(builder, kind, place, 4 * NUMBER_BYTES) for place in places]
        whole = [_turn(builder, (rows[j], rows[j + 4]), range(8)) for j in range(4)]
        pairs = [[_turn(builder, (whole[j], whole[j + 1]), lanes) for j in (0, 2)] for lanes in (_EVEN, _ODD)]
        columns = [_turn(builder, pair, lanes) for lanes in (_LOW, _HIGH) for pair in pairs]
        return context.make_tuple(builder, wanted.return_type, columns)

    return types.UniTuple(LANES, 4)(line, start, types.intp), build


def _plain_write(line: F64, start: U32, at: int, columns: tuple[Lanes, ...]) -> None:
    line[start[at : at + WIDTH] // line.shape[1]] = np.stack(columns, axis=1)


@intrinsic  # type: ignore[untyped-decorator]
def _emit_write_two(_typing: Any, line: Any, start: Any, _at: Any, columns: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        both = _parts(builder, arguments[3], 2)
        for lane, place in enumerate(_places(context, builder, (line, start), arguments)):
            store_at(builder, _turn(builder, both, (lane, lane + WIDTH)), place, 2 * NUMBER_BYTES)
        return context.get_dummy_value()

    return types.void(line, start, types.intp, columns), build


@intrinsic  # type: ignore[untyped-decorator]
def _emit_write_four(_typing: Any, line: Any, start: Any, _at: Any, columns: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        a, b, c, d = _parts(builder, arguments[3], 4)
        pairs = [[_turn(builder, both, lanes) for both in ((a, b), (c, d))] for lanes in (_EVEN, _ODD)]
        for lane, place in enumerate(_places(context, builder, (line, start), arguments)):
            at = lane - lane % 2
            store_at(builder, _turn(builder, pairs[lane % 2], (at, at + 1, at + 8, at + 9)), place, 4 * NUMBER_BYTES)
        return context.get_dummy_value()

    return types.void(line, start, types.intp, columns), build


def _plain_ask(_line: F64, _hash: U32, _at: int, _shift: int) -> None:
    """Interpreted code does not prefetch."""


def _make_ask(count: int) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def emit_ask(_typing: Any, line: Any, hashes: Any, _at: Any, _shift: Any) -> Any:
        def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            table, data, at, shift = arguments
            start = _start(context, builder, line, table)
            byte = ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [byte, INDEX, INDEX, INDEX])
            prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            for number in _several(builder, address(context, builder, hashes, data, at), count):
                place = builder.bitcast(builder.gep(start, [builder.lshr(number, shift)]), byte)
                builder.call(prefetch, [place, INDEX(1), INDEX(3), INDEX(1)])  # to be written, to be kept, data
            return context.get_dummy_value()

        return types.void(line, hashes, types.intp, types.intp), build

    return _plain_ask if PLAIN else emit_ask


def _plain_copy_starts(hashes: U32, at: int, where: tuple[int, int, int, int], start: U32, to: int) -> bool:
    left, shift, width, nowhere = where
    these = hashes[at : at + WIDTH + 1] >> np.uint32(shift) & np.uint32(2**32 - width)
    inside = np.arange(WIDTH + 1) < left
    start[to : to + WIDTH] = np.where(inside, these, nowhere)[:WIDTH]
    return bool(np.any((these[1:] == these[:-1]) & inside[1:]))


@intrinsic  # type: ignore[untyped-decorator]
def _emit_copy_starts(_typing: Any, hashes: Any, _at: Any, _where: Any, start: Any, _to: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        data, at, where, starts, to = arguments
        left, shift, width, nowhere = (everywhere(builder, builder.trunc(part, INDEX)) for part in _parts(builder, where, 4))
        here = address(context, builder, hashes, data, at)
        whole = builder.neg(width)
        these, after = (
            builder.and_(builder.lshr(load_at(builder, SLOTS, builder.gep(here, [INDEX(by)]), _INDEX_BYTES), shift), whole)
            for by in (0, 1)
        )
        inside = builder.icmp_signed("<", indices(*range(WIDTH)), left)
        next_inside = builder.icmp_signed("<", indices(*range(1, WIDTH + 1)), left)
        store_at(builder, builder.select(inside, these, nowhere), address(context, builder, start, starts, to), _INDEX_BYTES)
        again = builder.and_(builder.icmp_signed("==", these, after), next_inside)
        return builder.icmp_signed("!=", builder.bitcast(again, ir.IntType(WIDTH)), ir.IntType(WIDTH)(0))

    where = types.UniTuple(types.int64, 4)
    return types.boolean(hashes, types.intp, where, start, types.intp), build


def _plain_starts_of(slots: U32, at: int, width: int, start: U32, to: int) -> int:
    these = slots[at : at + WIDTH + 1]
    start[to : to + WIDTH] = these[:-1] * np.uint32(width)
    return int(np.packbits(these[:-1] != these[1:], bitorder="little")[0])


@intrinsic  # type: ignore[untyped-decorator]
def _emit_starts_of(_typing: Any, slots: Any, _at: Any, _width: Any, start: Any, _to: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        data, at, width, starts, to = arguments
        here = address(context, builder, slots, data, at)
        these, after = (load_at(builder, SLOTS, builder.gep(here, [INDEX(by)]), _INDEX_BYTES) for by in (0, 1))
        whole = builder.mul(these, everywhere(builder, builder.trunc(width, INDEX)))
        store_at(builder, whole, address(context, builder, start, starts, to), _INDEX_BYTES)
        last = builder.bitcast(builder.icmp_signed("!=", these, after), ir.IntType(WIDTH))
        return builder.zext(last, _LONG)

    return types.int64(slots, types.intp, types.int64, start, types.intp), build


def _plain_copy_eight(source: U32, at: int, target: U32, to: int) -> None:
    target[to : to + WIDTH] = source[at : at + WIDTH].copy()


@intrinsic  # type: ignore[untyped-decorator]
def _emit_copy_eight(_typing: Any, source: Any, _at: Any, target: Any, _to: Any) -> Any:
    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        data, at, targets, to = arguments
        these = load_at(builder, SLOTS, address(context, builder, source, data, at), _INDEX_BYTES)
        store_at(builder, these, address(context, builder, target, targets, to), _INDEX_BYTES)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), build


def _plain_first_of(lanes: Lanes, count: int) -> Lanes:
    return np.where(np.arange(WIDTH) < count, lanes, 0.0)


@intrinsic  # type: ignore[untyped-decorator]
def _emit_first_of(_typing: Any, _lanes: Any, _count: Any) -> Any:
    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        count = everywhere(builder, builder.trunc(arguments[1], INDEX))
        inside = builder.icmp_signed("<", indices(*range(WIDTH)), count)
        return builder.select(inside, arguments[0], everywhere(builder, NUMBER(0.0)))

    return LANES(LANES, types.intp), build


# A line is addressed by the index of its first number among all numbers of the table: the slot times the width. Then no
# multiplication is needed for each feature, and the index of a hash is one shift and a mask.
# read_two(line, start, at): the columns of the lines at start[at:at + 8]; read_four too. write_..(line, start, at, columns).
read_two = _plain_read if PLAIN else _emit_read_two
read_four = _plain_read if PLAIN else _emit_read_four
write_two = _plain_write if PLAIN else _emit_write_two
write_four = _plain_write if PLAIN else _emit_write_four
# ask(line, hash, at, shift): prefetch the lines of hash[at:at + 8]; a line is the one that has number hash >> shift. A hint.
# ask_half: the lines of hash[at:at + 4]; ask_quarter: of hash[at:at + 2].
ask, ask_half, ask_quarter = _make_ask(WIDTH), _make_ask(WIDTH // 2), _make_ask(WIDTH // 4)
# copy_starts(hash, at, (left, shift, width, nowhere), start, to): hash >> shift, rounded down to whole lines of `width` numbers,
# of hash[at:at + 8]; `nowhere` except for the first `left`; returns whether any two neighbours of these and the one after them
# are the same. hash[at:at + 9] must exist; nothing checks that.
copy_starts = _plain_copy_starts if PLAIN else _emit_copy_starts
# starts_of(slot, at, width, start, to): where the lines of slot[at:at + 8] start; flags of those that differ from the one after
# them. slot[at:at + 9] must exist; nothing checks that. copy_eight(slot, at, slot, to): the two may overlap.
starts_of = _plain_starts_of if PLAIN else _emit_starts_of
copy_eight = _plain_copy_eight if PLAIN else _emit_copy_eight
first_of = _plain_first_of if PLAIN else _emit_first_of  # (lanes, count): zero in all lanes but the first `count`
