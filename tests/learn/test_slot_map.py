from __future__ import annotations

import numpy as np
import pytest

from riata.jit.kernel import kernel
from riata.learn.taylor_sketch.slot_map import fill_places, position_of
from tests.twins import sketch_map as twin


@kernel
def _look_up(place: np.ndarray, key: np.ndarray, position: np.ndarray) -> None:
    for i in range(len(key)):
        position[i] = position_of(place, key[i])


@pytest.mark.parametrize("spread", [1, 2**7, 2**16, 2**20])
def test_every_key_is_found_at_its_position_and_no_other_key_is(spread: int) -> None:
    rng = np.random.default_rng(spread)
    held = rng.choice(4096, 1000, replace=False) * spread  # neighbours, multiples of powers of two, the highest of 32 bits
    held[rng.random(1000) < 0.1] = -1
    place = np.full(2048, 7, np.int64)  # what was there before is gone
    fill_places(held, 900, place)
    asked = np.concatenate([np.arange(4096) * spread, [0, 2**32 - 1]])
    position = np.empty(len(asked), np.int64)
    _look_up(place, asked, position)
    expected = twin.fill_places(held.tolist(), 900)
    assert position.tolist() == [expected.get(key, -1) for key in asked.tolist()]
