from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from riata.jit.kernel import kernel
from riata.learn.taylor_sketch.best import keep_best, sort_best
from tests.twins import sketch_best as twin


@kernel
def _offer_all(score: np.ndarray, key: np.ndarray, best: np.ndarray, names: np.ndarray) -> int:
    kept = 0
    for i in range(len(score)):
        kept = keep_best(best, names, kept, score[i], key[i])
    return kept


@given(
    scores=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, -1.0]), max_size=40),
    room=st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_the_strongest_are_kept_in_order_whatever_the_order_of_the_offers(scores: list[float], room: int, seed: int) -> None:
    keys = np.random.default_rng(seed).permutation(len(scores))
    best, names = np.empty(room), np.empty(room, np.int64)
    kept = _offer_all(np.array(scores), keys.astype(np.int64), best, names)
    sort_best(best, names, kept)
    expected = twin.sort_best(zip(scores, keys.tolist(), strict=True))[:room]
    assert list(zip(best[:kept].tolist(), names[:kept].tolist(), strict=True)) == expected
