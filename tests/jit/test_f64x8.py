"""Eight numbers at once, compiled, against the plain functions that stand for them where code is interpreted."""

from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import BOOL, F64, I64, U32
from riata.jit.kernel import kernel
from riata.jit.simd import f64x8, transpose
from riata.jit.simd.f64x8 import WIDTH
from riata.learn.slot_table import zero_table

RNG = np.random.default_rng(8)
LEFT: F64 = np.concatenate((RNG.normal(size=4), [0.0, -0.0, 1e307, 3.0]))
RIGHT: F64 = np.concatenate((RNG.normal(size=4), [-0.0, 2.0, 1e307, 3.0]))


@kernel
def compute(a: F64, b: F64, out: F64) -> None:
    """Every function and operator once. Source: this test."""
    x, y = f64x8.load(a, 0), f64x8.load(b, 0)
    f64x8.store(out, 0, x + y * 2.0)
    f64x8.store(out, 8, 1.0 - x)
    f64x8.store(out, 16, x / f64x8.where(y == 0.0, 1.0, y))
    f64x8.store(out, 24, f64x8.where(x < y, x, y))
    f64x8.store(out, 32, f64x8.root(f64x8.size(x)))
    f64x8.store(out, 40, f64x8.spread(a[1]))
    f64x8.store(out, 48, transpose.first_of(x, 3))
    out[56] = f64x8.add_up(0.1, x - y)
    out[57] = f64x8.flags((x > y) & (y != 0.0))


def test_eight_at_once_are_each_as_if_alone() -> None:
    out = np.empty(58)
    compute(LEFT, RIGHT, out)
    a, b = LEFT, RIGHT
    expected = [
        *(a + b * 2.0),
        *(1.0 - a),
        *(a / f64x8._plain_where(b == 0.0, 1.0, b)),
        *np.where(a < b, a, b),
        *np.sqrt(np.abs(a)),
        *f64x8._plain_spread(a[1]),
        *transpose._plain_first_of(a, 3),
        f64x8._plain_add_up(0.1, a - b),
        f64x8._plain_flags((a > b) & (b != 0.0)),
    ]
    assert out.view(np.int64).tolist() == np.array(expected, np.float64).view(np.int64).tolist()


@kernel
def turn_over(line: F64, start: U32, column: F64) -> None:
    """Read eight lines of four and write them back with every column doubled. Source: this test."""
    a, b, c, d = transpose.read_four(line, start, 1)
    f64x8.store(column, 0, a)
    f64x8.store(column, 8, b)
    f64x8.store(column, 16, c)
    f64x8.store(column, 24, d)
    transpose.write_four(line, start, 1, (a * 2.0, b * 2.0, c * 2.0, d * 2.0))


@kernel
def turn_over_two(line: F64, start: U32, column: F64) -> None:
    """The same with lines of two. Source: this test."""
    a, b = transpose.read_two(line, start, 1)
    f64x8.store(column, 0, a)
    f64x8.store(column, 8, b)
    transpose.write_two(line, start, 1, (a * 2.0, b * 2.0))


@pytest.mark.parametrize("width", [2, 4])
def test_lines_become_columns_and_lines_again(width: int) -> None:
    line = zero_table(32, width)
    line[:] = RNG.normal(size=(32, width))
    start = np.array([9, 31, 0, 7, 8, 30, 2, 15, 4, 9], np.uint32) * np.uint32(width)
    before, column = line.copy(), np.empty(width * WIDTH)
    (turn_over if width == 4 else turn_over_two)(line, start, column)
    expected = transpose._plain_read(before, start, 1)
    assert column.reshape(width, WIDTH).tolist() == [list(lane) for lane in expected]
    transpose._plain_write(before, start, 1, tuple(lane * 2.0 for lane in expected))
    assert line.tolist() == before.tolist()


@kernel
def lay_out(hashes: U32, left: int, shift: int, slot: U32, said: BOOL) -> None:
    """Copy the slots of hashes[2:10]. Source: this test."""
    said[0] = transpose.copy_starts(hashes, 2, (left, shift, 4, 76), slot, 1)


@pytest.mark.parametrize("left", [1, 2, 7, 8, 9, 20])
@pytest.mark.parametrize("shift", [0, 4, 31])
@pytest.mark.parametrize("same", range(2, 11))
def test_slots_are_copied_and_two_of_one_slot_are_noticed(left: int, shift: int, same: int) -> None:
    hashes = (np.arange(20, dtype=np.uint32) * 7919 + 2**31).astype(np.uint32)
    hashes[same + 1] = hashes[same]
    slot, plain, said = np.zeros(10, np.uint32), np.zeros(10, np.uint32), np.zeros(1, np.bool_)
    lay_out(hashes, left, shift, slot, said)
    again = transpose._plain_copy_starts(hashes, 2, (left, shift, 4, 76), plain, 1)
    assert slot.tolist() == plain.tolist()
    assert bool(said[0]) == again
    if shift == 0:
        assert again == (same - 2 + 1 < left and same < 10)


@kernel
def list_starts(slot: U32, start: U32, copied: U32, said: I64) -> None:
    """Compute the starts of slot[1:9], and copy these slots. Source: this test."""
    said[0] = transpose.starts_of(slot, 1, 4, start, 2)
    transpose.copy_eight(slot, 1, copied, 0)


def test_the_lines_of_listed_slots_are_found_and_the_last_of_equal_ones_is_flagged() -> None:
    slot = np.array([3, 3, 5, 5, 5, 2**26 - 1, 7, 8, 9, 9, 11], np.uint32)
    start, plain, said = np.zeros(10, np.uint32), np.zeros(10, np.uint32), np.zeros(1, np.int64)
    copied = slot.copy()
    list_starts(slot, start, copied, said)
    assert said[0] == transpose._plain_starts_of(slot, 1, 4, plain, 2) == 0b01111001
    assert start.tolist() == plain.tolist() == [0, 0, *(4 * slot[1:9]).tolist()]
    transpose._plain_copy_eight(slot, 1, slot, 0)
    assert copied.tolist() == slot.tolist() == [3, 5, 5, 5, 2**26 - 1, 7, 8, 9, 9, 9, 11]
