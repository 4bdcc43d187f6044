from __future__ import annotations

import numpy as np
import pytest

from riata.learn.truncated_gradient import CLOCK, CLOCK_LOST, TruncatedGradient, TruncatedGradientConfig
from tests.learn.streams import sparse_events, to_batch
from tests.twins.truncated_step import Eager, event_size, learn_rows

BITS = 8


@pytest.mark.parametrize(
    "config",
    [
        TruncatedGradientConfig(rate="constant", normalised=False, period=3),
        TruncatedGradientConfig(rate="decaying", normalised=False, period=3, delay=4.0, eta=0.01),
        TruncatedGradientConfig(period=3),
        TruncatedGradientConfig(period=3, rule="round", ceiling=0.01),
        TruncatedGradientConfig(rate="constant", normalised=False, rule="subgradient", eta=0.01),
    ],
    ids=["constant", "decaying", "normalised", "round", "subgradient"],
)
def test_clock_moves_by_the_size_of_each_event(config: TruncatedGradientConfig) -> None:
    lazy, eager, clock = TruncatedGradient(config, BITS), Eager(config, BITS), 0.0
    for event in sparse_events(60, seed=1):
        before = eager.learnt
        learn_rows(eager, [event])
        lazy.step(to_batch([event]))
        eager.learnt = before  # the size of an event is that of the row it follows
        if config.rule == "subgradient" or (before + 1) % config.period == 0:
            clock += event_size(eager)
        eager.learnt = before + 1
        scalars = np.asarray(lazy.freeze()["scalars"], np.float64)
        assert float(scalars[CLOCK] + scalars[CLOCK_LOST]) == pytest.approx(clock, rel=1e-12)
    assert clock > 0.0
