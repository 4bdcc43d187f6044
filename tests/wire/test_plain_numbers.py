"""Short numbers eight bytes at a time against the general reader of numbers."""

from __future__ import annotations

import random

import numpy as np

from riata.base.arrays import U8
from riata.jit.kernel import kernel
from riata.wire.scan.numbers import parse_prefix
from riata.wire.scan.simple_numbers import SIMPLE_NUMBER_REACH, fast_number, simple_number
from tests.wire.json_bodies import NUMBERS, mutate


@kernel
def both(data: U8, stop: int, json: bool) -> tuple[float, int, int, float, int, int, int]:
    """Read the same bytes twice. Source: the modules under test."""
    a, b, c = fast_number(data, 0)
    d, e, f = parse_prefix(data, 0, stop, json)
    return a, b, c, d, e, f, simple_number(data, 0)[0]


def check(text: bytes, json: bool) -> bool:
    """Compare the two; true if the fast reader accepted the number."""
    data = np.array(bytearray(text + b" " * (SIMPLE_NUMBER_REACH + 1)), np.uint8)
    value, status, end, expected, expected_status, expected_end, bare_end = both(data, len(text), json)
    assert bare_end < 0 or text[:1] != b"-"
    if end < 0:
        return False
    assert (value.hex(), status, end) == (expected.hex(), expected_status, expected_end), text
    return True


def number(rng: random.Random) -> str:
    whole = str(rng.randrange(10 ** rng.randrange(1, 11)))
    part = "".join(rng.choice("0123456789") for _ in range(rng.randrange(25)))
    return (
        rng.choice(("", "", "-", "+", "0"))
        + whole
        + rng.choice(("", ".", ".", "."))
        + part
        + rng.choice(("", "", "", "e5", "E-3", "."))
    )


def test_the_fast_reader_gives_the_bits_of_the_general_one() -> None:
    rng, taken = random.Random(61), 0
    for _ in range(20_000):
        text = number(rng).encode()
        taken += check(text, json=rng.random() < 0.5)
        check(mutate(rng, text), json=rng.random() < 0.5)
    assert 2000 < taken < 16_000  # else one side only was tested
    for given in NUMBERS:
        check(given.encode(), json=True)


def test_usual_numbers_are_taken_and_others_are_left() -> None:
    assert all(
        check(text, json=True) for text in (b"0", b"-0", b"7", b"-12.5", b"0.1", b"1234567.123456789012", b"0.30000000000000004")
    )
    left = (b"", b"-", b"01", b"1.", b".5", b"+1", b"12345678", b"1e5", b"1.5E2", b"0.1234567890123456789", b"nan", b"--1")
    assert not any(check(text, json=False) for text in left)


def test_numbers_at_the_end_of_the_body_are_left() -> None:
    data = np.array(bytearray(b"1.5"), np.uint8)
    assert both(np.concatenate((data, np.zeros(SIMPLE_NUMBER_REACH, np.uint8))), 3, True)[2] == 3
    assert usual_end(data) == -1


@kernel
def usual_end(data: U8) -> int:
    """The end of the number by the fast reader. Source: the module under test."""
    return fast_number(data, 0)[2]
