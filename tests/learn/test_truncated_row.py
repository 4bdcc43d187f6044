from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.learn.slot_table import zero_table
from riata.learn.table_rows import room_for
from riata.learn.truncated_gradient.columns import ENTRY
from riata.learn.truncated_gradient.learner import TruncatedGradient, TruncatedGradientConfig
from riata.learn.truncated_gradient.rate import Scratch, Settings
from riata.learn.truncated_gradient.row import CLOCK, COUNTS, GAIN, INTERCEPT, SCALARS, Table, collect, gather_row, lay_out_row
from riata.maths.rows import Rows
from tests.learn.streams import sparse_events, to_batch
from tests.twins import truncated_row as twin
from tests.twins.truncated_step import Event

UNMARKED = np.ones(0, np.uint8)


def _settings(gravity: float) -> Settings:
    return Settings(
        loss=0, rule=0, adaptive=None, normalised=None, one_by_one=False, invariant=True, grid=False, intercept=True,
        counting=True, centred=False, calibrated=False, counted=0.0,
        eta=1.0, power=0.0, delay=1.0, gravity=gravity, period=1, ceiling=1e9, accumulator=0.0, reach=2.0, shift=28,
    )  # fmt: skip


def uncalibrated() -> F64:
    scalars = np.zeros(SCALARS)
    scalars[GAIN] = 1.0
    return scalars


def test_collect_keeps_what_truncation_has_left_and_each_slot_once() -> None:
    line = zero_table(16, 2)
    line[:, 0] = np.linspace(-1.0, 1.0, 16)
    nothing = np.zeros(0, np.uint32)
    table = Table(
        line, nothing, nothing, np.zeros(COUNTS, np.int64), uncalibrated(), np.zeros((ENTRY, 0)), np.ones(0, np.uint8), nothing
    )
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


@pytest.mark.parametrize("rate", ["constant", "adaptive", "normalised"])
@pytest.mark.parametrize("in_place", [False, True])
def test_collect_of_many_is_each_weight_by_itself(rate: str, in_place: bool) -> None:
    settings = _settings(gravity=0.25)._replace(
        adaptive=None if rate == "constant" else True, normalised=True if rate == "normalised" else None,
        counting=rate != "normalised", accumulator=0.25, ceiling=0.9,
    )  # fmt: skip
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
    nothing = np.zeros(0, np.uint32)
    table = Table(
        line, nothing, nothing, np.zeros(COUNTS, np.int64), uncalibrated(), np.zeros((ENTRY, 0)), np.ones(0, np.uint8), nothing
    )
    before = line.copy()
    kept = collect(table, settings, 2.0, True, listed, slot, beta)
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


@pytest.mark.parametrize("normalised", [False, True])
@given(seed=st.integers(0, 2**32), n=st.integers(1, 40))
@settings(max_examples=60)
def test_gather_row_is_its_twin(normalised: bool, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    setting = _settings(gravity=0.125)._replace(
        adaptive=True if normalised else None, normalised=True if normalised else None, counting=not normalised, accumulator=0.25
    )
    width = 4 if normalised else 2
    line = zero_table(33, width)
    line[:16, 0] = np.round(rng.normal(0.0, 1.0, 16), 1) * (rng.random(16) < 0.8)
    line[:16, 1] = rng.integers(0, 5, 16)
    if normalised:
        line[:16, 2:] = rng.uniform(0.1, 3.0, (16, 2)) * (rng.random((16, 1)) < 0.8)
        line[:16, 0] *= line[:16, 3] > 0.0  # without a scale there is no weight
    names = np.sort(rng.choice(2**32, n, replace=False)).astype(np.uint32)
    batch = to_batch([Event([(int(h), float(v)) for h, v in zip(names, rng.normal(0.0, 2.0, n), strict=True)], 1.0, 1.0)])
    rows = Rows(batch.indptr, batch.hash, batch.value, batch.label, batch.weight, np.zeros(1, np.bool_))
    room = room_for(64, len(Scratch._fields) - 1)
    scratch = Scratch(room.start[0], *room.columns)
    nothing = np.zeros(0, np.uint32)
    table = Table(
        line, nothing, nothing, np.zeros(COUNTS, np.int64), uncalibrated(), np.zeros((ENTRY, 0)), np.ones(0, np.uint8), nothing
    )
    table.scalars[CLOCK], table.scalars[INTERCEPT] = 4.0, 0.5
    k = lay_out_row(table, setting, rows, 0, scratch.start, scratch.x)
    values = scratch.x[:k].copy()
    scratch.centre[:] = scratch.span[:] = 0.0
    _, margin, length, _, _ = gather_row(table, setting, rows, (0, k), scratch)
    pairs = [(int(h) >> 28, float(v)) for h, v in zip(batch.hash, batch.value, strict=True)]
    lines = {slot: twin.Line(*line[slot].tolist()) for slot, _ in pairs}
    event = 1.0 if normalised else 0.125
    expected, squares, parts = twin.gather_row(pairs, lines, 4.0, event, 0.25 if normalised else None, setting.reach)
    assert margin == pytest.approx(0.5 + expected, rel=1e-12, abs=1e-12)
    assert length == pytest.approx(squares, rel=1e-12, abs=1e-12)
    assert (scratch.start[:k] // width).tolist() == list(parts)
    assert scratch.beta[:k] == pytest.approx([beta for beta, _ in parts.values()], rel=1e-12, abs=1e-12)
    x = scratch.x[:k] / scratch.scale[:k] if normalised else values
    assert x == pytest.approx([value for _, value in parts.values()], rel=1e-12, abs=1e-12)
