from __future__ import annotations

import numpy as np
import pytest

from riata.learn.taylor_state import key_map
from riata.native.library import core


@pytest.mark.parametrize("spread", [1, 2**7, 2**16, 2**20])
def test_every_key_is_in_the_map_with_its_position_and_no_other_key_is(spread: int) -> None:
    rng = np.random.default_rng(spread)
    held = rng.choice(4096, 1000, replace=False) * spread  # neighbours, multiples of powers of two, the highest of 32 bits
    held[rng.random(1000) < 0.1] = -1
    place = np.full(2048, 7, np.int64)  # what was there before is gone
    core.fill_key_map(key_map(place), held, 900)
    entries = place[place != 0]
    found = dict(zip((entries >> 16).tolist(), ((entries & 0xFFFF) - 1).tolist(), strict=True))
    assert found == {int(key): position for position, key in enumerate(held[:900]) if key >= 0}
    assert len(entries) == len(found)
