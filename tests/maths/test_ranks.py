"""Ranks by comparing each key with all, compiled, against sorting; and the plain functions beside them."""

from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import U32, U64
from riata.maths import ranks
from riata.maths.kernel import kernel
from riata.maths.ranks import KEY_LAST, RANKED_MAX
from riata.maths.raw import LINE_KEYS

RNG = np.random.default_rng(5)


@kernel
def compiled(words: U64, n: int, keys: U32, found: U32) -> None:
    """Keys and ranks of n words. Source: this test."""
    for at in range(0, n, LINE_KEYS):
        ranks.make_keys(words, n, at, keys)
    for at in range(0, n, LINE_KEYS):
        ranks.rank_16(keys, n, at, found)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 75, RANKED_MAX - 1, RANKED_MAX])
@pytest.mark.parametrize("span", [3, 2**64])
def test_a_rank_is_how_many_are_below(n: int, span: int) -> None:
    words = RNG.integers(0, span - 1, n, np.uint64, endpoint=True)
    words[: n // 2] <<= np.uint64(62)
    words[0], words[-1] = 2**64 - 1, 0
    keys, found = np.zeros(RANKED_MAX, np.uint32), np.zeros(RANKED_MAX, np.uint32)
    compiled(words, n, keys, found)
    held = words >> np.uint64(33)
    whole = -(-n // LINE_KEYS) * LINE_KEYS
    assert keys[:whole].tolist() == [*held.tolist(), *[KEY_LAST] * (whole - n)]
    assert found[:n].tolist() == np.searchsorted(np.sort(held), held).tolist()
    plain, again = np.zeros(RANKED_MAX, np.uint32), np.zeros(RANKED_MAX, np.uint32)
    for at in range(0, n, LINE_KEYS):
        ranks._slow_make_keys(words, n, at, plain)
    for at in range(0, n, LINE_KEYS):
        ranks._slow_rank_16(plain, n, at, again)
    assert plain.tolist() == keys.tolist()
    assert again[:n].tolist() == found[:n].tolist()
