from __future__ import annotations

import numpy as np

from riata.learn.truncated_gradient import TruncatedGradient, TruncatedGradientConfig
from riata.maths.truncated_rate import Settings
from riata.maths.truncated_row import COUNTS, SCALARS, Table, collect
from tests.learn.streams import sparse_events, to_batch
from tests.twins import truncated_row as twin


def _settings(gravity: float) -> Settings:
    return Settings(
        loss=0, rule=0, adaptive=None, normalised=None, odd=None, invariant=True, grid=False, intercept=True, counting=True,
        eta=1.0, power=0.0, delay=1.0, gravity=gravity, period=1, ceiling=1e9, accumulator=0.0, reach=2.0, shift=28,
    )  # fmt: skip


def test_collect_keeps_what_truncation_has_left_and_each_slot_once() -> None:
    line = np.zeros((16, 2))
    line[:, 0] = np.linspace(-1.0, 1.0, 16)
    nothing = np.zeros(0, np.uint32)
    table = Table(line, nothing, nothing, np.zeros(COUNTS, np.int64), np.zeros(SCALARS))
    listed = np.array([0, 0, 3, 7, 8, 8, 8, 15], np.uint32)
    slot, beta = np.empty_like(listed), np.empty(len(listed))
    before = line.copy()
    assert collect(table, _settings(gravity=0.25), 2.0, False, listed, slot, beta) == 3
    assert line.tolist() == before.tolist()
    kept = collect(table, _settings(gravity=0.25), 2.0, True, listed, slot, beta)  # two events of 0.25
    expected = twin.collect({j: np.sign(b) * max(0.0, abs(b) - 0.5) for j, b in enumerate(before[:, 0]) if j in (0, 3, 7, 8, 15)})
    assert dict(zip(slot[:kept].tolist(), beta[:kept].tolist(), strict=True)) == expected
    assert list(expected) == [0, 3, 15]
    assert np.flatnonzero(line[:, 0] != before[:, 0]).tolist() == [7, 8]
    assert line[[7, 8], 0].tolist() == [0.0, 0.0]


def test_collisions_inside_a_row_add_up_and_do_not_overwrite() -> None:
    learner = TruncatedGradient(TruncatedGradientConfig(rate="constant", normalised=False, gravity=0.0), bits=1)
    learner.step(to_batch(sparse_events(200, seed=2, spread=0.0)))
    assert learner.weights().slot.tolist() == [0, 1]
