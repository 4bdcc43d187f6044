"""Counter-based random numbers against the published vectors, a twin, and the distributions that they are said to have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import kstest

from riata.native.library import core
from riata.trees.tree import below, random_bits
from tests.twins import philox as slow

U64 = st.integers(0, 2**64 - 1)
ONES = 2**64 - 1
# Of Random123, by the authors of the paper: counter (four words), key (two words), result (four words).
PUBLISHED = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def pairs(words: str) -> list[int]:
    """Words, the lower first, as numbers of 64 bits."""
    parts = [int(word, 16) for word in words.split()]
    return [low + (high << 32) for low, high in zip(parts[::2], parts[1::2], strict=True)]


@pytest.mark.parametrize(("counter", "key", "result"), PUBLISHED)
def test_the_published_vectors(counter: str, key: str, result: str) -> None:
    draw, stream = pairs(counter)
    found = [core.random(pairs(key)[0], stream, draw, second) for second in (False, True)]
    assert found == pairs(result)


@given(seed=U64, stream=U64, draw=U64)
@example(seed=ONES, stream=0, draw=ONES)
@example(seed=0, stream=ONES, draw=0)
def test_a_twin_finds_the_same_bits(seed: int, stream: int, draw: int) -> None:
    found = tuple(core.random(seed, stream, draw, second) for second in (False, True))
    assert found == slow.philox(seed, stream, draw)
    assert random_bits(np.uint64(seed), stream, draw) == found[0]
    assert below(seed, stream, draw, 1000) == found[0] // 2**11 * 1000 // 2**53


def test_numbers_have_their_distributions() -> None:
    n, seed = 20_000, 20081
    uniforms = np.array([random_bits(seed, 1, i) / 2**64 for i in range(n)])
    numbers = np.array([below(seed, 2, i, 7) for i in range(n)])
    normal, place = np.empty(2 * n), np.zeros(2 * n)
    core.draw_about(1, 2 * n, np.zeros(1), np.ones(1), seed, 3, 0.0, 1.0, place, normal)
    assert kstest(uniforms, "uniform").pvalue > 0.01
    assert kstest(normal, "norm").pvalue > 0.01
    assert abs(np.corrcoef(normal[::2], normal[1::2])[0, 1]) < 0.02
    counts = np.bincount(numbers, minlength=7)
    assert len(counts) == 7
    assert np.abs(counts - n / 7).max() < 4.0 * np.sqrt(n / 7)
