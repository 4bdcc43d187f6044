"""Ranks by comparing each key with all, compiled, against sorting; and the plain functions beside them."""

from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import U32, U64
from riata.jit.kernel import kernel
from riata.jit.simd import rank
from riata.jit.simd.rank import KEY_LAST, KEY_SHIFT, KEY_SIGN, RANK_KEYS, RANKED_MAX

RNG = np.random.default_rng(5)


@kernel
def compiled(words: U64, n: int, keys: U32, found: U32) -> None:
    """Keys and ranks of n words. Source: this test."""
    for at in range(0, n, RANK_KEYS):
        rank.make_keys(words, n, at, keys)
    rank.rank_keys(keys, n, found)


@kernel
def compiled_below(keys: U32, n: int, found: U32) -> None:
    """The rank of each of n keys, one after another. Source: this test."""
    for i in range(n):
        found[i] = rank.keys_below(keys, i)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 31, 32, 33, 64, 65, 75, 96, 97, RANKED_MAX - 1, RANKED_MAX])
@pytest.mark.parametrize("span", [3, 2**64])
def test_a_rank_is_how_many_are_below(n: int, span: int) -> None:
    words = RNG.integers(0, span - 1, n, np.uint64, endpoint=True)
    words[: n // 2] <<= np.uint64(62)
    words[0], words[-1] = 2**64 - 1, 0
    keys, found = np.zeros(RANKED_MAX // 2 + 1, np.uint32), np.full(RANKED_MAX + 1, 7, np.uint32)
    compiled(words, n, keys, found)
    held = words >> np.uint64(KEY_SHIFT)
    whole = -(-n // RANK_KEYS) * RANK_KEYS
    assert (keys.view(np.uint16)[:whole] ^ KEY_SIGN).tolist() == [*held.tolist(), *[KEY_LAST] * (whole - n)]
    assert not keys[whole // 2 :].any()
    assert (found[whole:] == 7).all()
    assert found[:n].tolist() == np.searchsorted(np.sort(held), held).tolist()
    plain, again = np.zeros(RANKED_MAX // 2 + 1, np.uint32), np.full(RANKED_MAX + 1, 7, np.uint32)
    for at in range(0, n, RANK_KEYS):
        rank._slow_make_keys(words, n, at, plain)
    rank._slow_rank_keys(plain, n, again)
    assert plain.tolist() == keys.tolist()
    assert again[:n].tolist() == found[:n].tolist()
    if n <= RANK_KEYS:
        compiled_below(keys, n, again)
        assert again[:n].tolist() == found[:n].tolist()
        assert [rank._slow_keys_below(keys, i) for i in range(n)] == found[:n].tolist()
