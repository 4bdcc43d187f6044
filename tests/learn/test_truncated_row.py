from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64, U32
from riata.learn.slot_table import zero_table
from riata.learn.truncated_gradient import COUNTS, SCALARS, TruncatedGradient, TruncatedGradientConfig
from riata.native.library import core, struct
from tests.learn.streams import sparse_events, to_batch
from tests.twins import truncated_row as twin


def _settings(**others: Any) -> Any:
    return struct(
        "riata_gradient_settings",
        **{"invariant": True, "intercept": True, "counting": True, "eta": 1.0, "delay": 1.0, "gravity": 0.25, "period": 1}
        | {"ceiling": 1e9, "reach": 2.0}
        | others,
    )


def _table(line: F64) -> Any:
    return struct(
        "riata_gradient", line=line, lines=len(line), shift=28, counts=np.zeros(COUNTS, np.int64), scalars=np.zeros(SCALARS)
    )


def collect(line: F64, settings: Any, forget: bool, listed: U32, slot: U32, beta: F64) -> int:
    """The kernel, at clock 2."""
    kept: int = core.collect_gradient(_table(line), settings, 2.0, forget, listed, len(listed), slot, beta)
    return kept


def test_collect_keeps_what_truncation_has_left_and_each_slot_once() -> None:
    line = zero_table(16, 2)
    line[:, 0] = np.linspace(-1.0, 1.0, 16)
    listed = np.array([0, 0, 3, 7, 8, 8, 8, 15], np.uint32)
    slot, beta = np.empty_like(listed), np.empty(len(listed))
    before = line.copy()
    assert collect(line, _settings(), False, listed, slot, beta) == 3
    assert line.tolist() == before.tolist()
    kept = collect(line, _settings(), True, listed, slot, beta)  # two events of 0.25
    expected = twin.collect({j: np.sign(b) * max(0.0, abs(b) - 0.5) for j, b in enumerate(before[:, 0]) if j in (0, 3, 7, 8, 15)})
    assert dict(zip(slot[:kept].tolist(), beta[:kept].tolist(), strict=True)) == expected
    assert list(expected) == [0, 3, 15]
    assert np.flatnonzero(line[:, 0] != before[:, 0]).tolist() == [7, 8]
    assert line[[7, 8], 0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rate", ["constant", "adaptive", "normalised"])
@pytest.mark.parametrize("in_place", [False, True])
def test_collect_of_many_is_each_weight_by_itself(rate: str, in_place: bool) -> None:
    settings = _settings(
        adaptive=rate != "constant", normalised=rate == "normalised", counting=rate != "normalised", accumulator=0.25, ceiling=0.9
    )
    rng = np.random.default_rng(3)
    line = zero_table(257, 2 if rate == "constant" else 4)  # lines are read as they lie, and have to lie as in a table
    line[:256, 0] = np.round(rng.normal(0.0, 0.5, 256), 1) * (rng.random(256) < 0.9)
    line[:256, 1] = rng.integers(0, 3, 256)
    if rate != "constant":
        line[:256, 2] = rng.uniform(0.0, 4.0, 256)
        line[:256, 3] = rng.uniform(0.1, 3.0, 256) if rate == "normalised" else 1.0 / np.sqrt(line[:256, 2] + 0.25)
    listed = np.sort(rng.integers(0, 256, 300)).astype(np.uint32)
    expected = {int(at): _now(rate, line[at].tolist()) for at in np.unique(listed)}
    dead = {at for at, weight in expected.items() if weight == 0.0}
    slot, beta = listed if in_place else np.empty_like(listed), np.empty(len(listed))
    before = line.copy()
    kept = collect(line, settings, True, listed, slot, beta)
    assert dict(zip(slot[:kept].tolist(), beta[:kept].tolist(), strict=True)) == twin.collect(expected)
    assert 20 < len(dead) < len(expected) - 20
    assert kept == len(expected) - len(dead)
    assert line[sorted(dead), 0].tolist() == [0.0] * len(dead)
    alive = sorted(set(range(257)) - dead)
    assert line[alive].tolist() == before[alive].tolist()


def _now(rate: str, line: list[float]) -> float:
    """A weight at clock 2, truncated by a quarter for each unit of the clock since, or by that divided by the root."""
    scale = line[3] if rate == "normalised" else 1.0
    unit = 1.0 if rate == "constant" else 1.0 / math.sqrt(line[2] + 0.25 * scale * scale)
    amount = unit * (1.0 if rate == "normalised" else 0.25) * (2.0 - line[1])
    beta = line[0]
    return beta if abs(beta) * scale > 0.9 else math.copysign(max(abs(beta) - amount, 0.0), beta)


def test_collisions_inside_a_row_add_up_and_do_not_overwrite() -> None:
    learner = TruncatedGradient(TruncatedGradientConfig(rate="constant", normalised=False, gravity=0.0), bits=1)
    learner.step(to_batch(sparse_events(200, seed=2, spread=0.0)))
    assert learner.weights().slot.tolist() == [0, 1]
