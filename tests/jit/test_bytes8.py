"""Eight bytes at once against one byte after another."""

from __future__ import annotations

import random

import numpy as np

from riata.base.arrays import I64, U8, U64
from riata.jit.kernel import kernel
from riata.jit.simd.bytes8 import first_byte, leading_digits, load_word, not_plain, trailing_zeros
from tests.twins import bytes8 as twin


@kernel
def ask_all(data: U8, count: int, word: U64, answers: I64) -> None:
    """Apply every function to every word. Source: the module under test."""
    for at in range(count):
        word[at] = load_word(data, at)
        answers[at, 0] = first_byte(not_plain(word[at]))
        digits, answers[at, 2] = leading_digits(word[at])
        answers[at, 1] = np.int64(digits)
        answers[at, 3] = np.int64(trailing_zeros(word[at]))


def compare(data: bytes) -> None:
    count = len(data) - 8
    word, answers = np.empty(count, np.uint64), np.empty((count, 4), np.int64)
    ask_all(np.array(bytearray(data), np.uint8), count, word, answers)
    for at in range(count):
        piece = data[at : at + 8]
        expected = twin.load_word(data, at)
        assert int(word[at]) == expected
        assert answers[at, 0] == twin.first_not_plain(piece), piece
        assert tuple(answers[at, 1:3].tolist()) == twin.leading_digits(piece), piece
        assert answers[at, 3] == (expected & -expected).bit_length() - 1 if expected else 64


def test_words_of_any_bytes_equal_the_twin() -> None:
    rng = random.Random(5)
    compare(bytes(rng.randrange(256) for _ in range(20_000)))
    compare(bytes(20))


def test_words_of_plain_bytes_with_single_strangers_equal_the_twin() -> None:
    rng = random.Random(6)
    strangers = [0x00, 0x1F, 0x20, 0x21, 0x22, 0x23, 0x2F, 0x3A, 0x5B, 0x5C, 0x5D, 0x7E, 0x7F, 0x80, 0xA2, 0xB0, 0xDC, 0xFF]
    for usual in (b"0123456789", b"abcXYZ 09", b"!#[]~ "):
        compare(bytes(rng.choice(strangers) if rng.random() < 0.15 else rng.choice(usual) for _ in range(20_000)))
