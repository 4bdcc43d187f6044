"""Eight words at once, compiled, against the plain functions that stand for them where code is interpreted."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from riata.base.arrays import F64, U8, U32, U64
from riata.jit.kernel import kernel
from riata.jit.simd import f64x8, u64x8
from riata.jit.simd.f64x8 import WIDTH

RNG = np.random.default_rng(12)
TOP = 2**64 - 1
LEFT: U64 = np.concatenate((RNG.integers(0, 2**64, 4, np.uint64), np.array([0, TOP, 2**63, 7], np.uint64)))
RIGHT: U64 = np.concatenate((RNG.integers(0, 2**64, 4, np.uint64), np.array([1, TOP, 5, 7], np.uint64)))
SHIFT: U64 = np.array([0, 1, 7, 8, 31, 32, 62, 63], np.uint64)
ONE, THREE, FIVE = np.uint64(1), np.uint64(3), np.uint64(5)
EVERY_EIGHTH: U32 = np.arange(0, 64, 8, dtype=np.uint32)


@kernel
def compute(data: U8, place: U32, out: U64, number: F64) -> None:
    """Every operator and function once; `data` is three times eight words. Source: this test."""
    x = u64x8.words_at(data, place, 0, 1, 0)
    y = u64x8.words_at(data, place, 0, 1, 64)
    s = u64x8.words_at(data, place, 0, 1, 128)
    u64x8.put(out, 0, x + y * THREE)
    u64x8.put(out, 8, ONE - x)
    u64x8.put(out, 16, (x & y) ^ (x | FIVE))
    u64x8.put(out, 24, x << s)
    u64x8.put(out, 32, y >> s)
    u64x8.put(out, 40, u64x8.either((x < y) | (x == FIVE), x, ONE))
    u64x8.put(out, 48, u64x8.either((x > y) & (y != FIVE), y, x))
    u64x8.put(out, 56, u64x8.ones_of(x))
    f64x8.store(number, 0, u64x8.numbers(x >> ONE))


def test_eight_at_once_are_each_as_if_alone() -> None:
    out, number = np.empty(64, np.uint64), np.empty(WIDTH)
    compute(np.concatenate((LEFT, RIGHT, SHIFT)).view(np.uint8), EVERY_EIGHTH, out, number)
    left, right, shift = (each.tolist() for each in (LEFT, RIGHT, SHIFT))
    rows = list(zip(left, right, shift, strict=True))
    expected = [
        *((x + y * 3) & TOP for x, y, _ in rows),
        *((1 - x) & TOP for x in left),
        *((x & y) ^ (x | 5) for x, y, _ in rows),
        *((x << s) & TOP for x, _, s in rows),
        *(y >> s for _, y, s in rows),
        *(x if x < y or x == 5 else 1 for x, y, _ in rows),
        *(y if x > y and y != 5 else x for x, y, _ in rows),
        *(f"{x:b}".count("1") for x in left),
    ]
    assert out.tolist() == expected
    assert number.tolist() == [float(x >> 1) for x in left]


@kernel
def gather(array: U32, at: int, step: int, out: U64) -> None:
    """Every `step`-th position, and the words that begin three bytes before. Source: this test."""
    u64x8.put(out, 0, u64x8.positions(array, at, step))
    u64x8.put(out, 8, u64x8.words_at(array.view(np.uint8), array, at, step, -3))


@pytest.mark.parametrize("step", [1, 2, 5])
def test_positions_and_the_words_there(step: int) -> None:
    array: U32 = RNG.integers(3, 4 * 50 - 8, 50).astype(np.uint32)
    out = np.empty(16, np.uint64)
    gather(array, 4, step, out)
    places = array[4 : 4 + WIDTH * step : step].tolist()
    raw = array.tobytes()
    assert out[:WIDTH].tolist() == places
    assert out[WIDTH:].tolist() == [int.from_bytes(raw[place - 3 : place + 5], "little") for place in places]


@kernel
def every_third(array: U32, at: int, out: U64) -> None:
    """Every third position, a step that is known at compile time. Source: this test."""
    u64x8.put(out, 0, u64x8.positions(array, at, 3))


@pytest.mark.parametrize("features", ["", "+sse2"])  # those of this machine, and so few that powers are put together bit by bit
def test_powers_of_ten(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CPU_FEATURES", features)

    @numba.njit  # type: ignore[untyped-decorator]
    def powers(data: U8, place: U32, out: F64) -> None:
        f64x8.store(out, 0, u64x8.tens(u64x8.words_at(data, place, 0, 1, 0)))

    places, out = np.array([3, 0, 7, 1, 6, 2, 5, 4], np.uint64), np.empty(WIDTH)
    powers(places.view(np.uint8), EVERY_EIGHTH, out)
    assert out.tolist() == u64x8._plain_tens(places).tolist() == [10.0**place for place in places.tolist()]


def test_positions_a_known_number_of_places_apart() -> None:
    array: U32 = RNG.integers(0, 2**32, 5 + 3 * WIDTH, np.uint32)
    out = np.empty(WIDTH, np.uint64)
    every_third(array, 5, out)
    assert out.tolist() == array[5::3].tolist()


def test_the_plain_functions_say_the_same() -> None:
    data = np.concatenate((LEFT, RIGHT)).view(np.uint8)
    out = np.empty(WIDTH, np.uint64)
    u64x8._plain_put(out, 0, u64x8._plain_words_at(data, EVERY_EIGHTH, 0, 1, 64))
    assert out.tolist() == RIGHT.tolist()
    assert u64x8._plain_positions(EVERY_EIGHTH, 0, 1).tolist() == EVERY_EIGHTH.tolist()
    assert u64x8._plain_ones_of(np.array([0, 1, 10, 2**64 - 1], np.uint64)).tolist() == [0, 1, 2, 64]
    mask = np.array([True, False] * 4)
    assert u64x8._plain_either(mask, LEFT, RIGHT).tolist() == [(LEFT, RIGHT)[k % 2][k] for k in range(WIDTH)]
