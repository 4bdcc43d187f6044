"""`gather_row` and `move_row` of the Taylor sketch against their twins, on the state of learners that have learnt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.learn.taylor_sketch.kernel_state import GROWTH, HYBRID, NOTHING, SCALE
from riata.learn.taylor_sketch.learner import TaylorSketch, TaylorSketchConfig
from riata.learn.taylor_sketch.row import gather_row, move_row
from riata.learn.taylor_sketch.state import new_scratch
from riata.maths.block import SIZE
from riata.maths.rows import Rows
from tests.learn.streams import sparse_events, to_batch
from tests.learn.test_taylor_contract import BITS, CONFIGS, SHORT
from tests.twins import sketch_row as twin
from tests.twins.sketch_step import Feature
from tests.twins.truncated_step import Event

NAMES = ["exact", "hybrid", "strict", "exact-hybrid"]
LEARNERS: dict[str, TaylorSketch] = {}


def learnt(name: str) -> TaylorSketch:
    """A learner that has learnt 100 rows."""
    if name not in LEARNERS:
        learner = LEARNERS[name] = TaylorSketch(TaylorSketchConfig(**{**SHORT, **CONFIGS[name]}), BITS)
        learner.step(to_batch(sparse_events(100, seed=21, spread=0.7)))
    return LEARNERS[name]


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32), r=st.floats(-2.0, 2.0), h=st.floats(0.0, 2.0))
@settings(max_examples=40)
def test_a_row_is_gathered_and_moved_as_by_its_twins(name: str, seed: int, r: float, h: float) -> None:
    learner = learnt(name)
    setting, state = learner._state.settings, learner._state.arrays
    block, line, scale = state.members.block, state.outside.line, float(state.scalars[SCALE])
    table = setting.outside != NOTHING
    known = sparse_events(100, seed=21, spread=0.7)[seed % 100].features
    names = sorted(
        {other for h, _ in known for other in (h, h ^ 1)} | set(np.random.default_rng(seed).integers(0, 2**32, 6).tolist())
    )
    values = np.random.default_rng(seed).normal(0.0, 1.0, len(names)).tolist()
    rows_of = to_batch([Event(list(zip(names, values, strict=True)), 1.0, 1.0)])
    rows = Rows(rows_of.indptr, rows_of.hash, rows_of.value, rows_of.label, rows_of.weight, np.zeros(1, np.bool_))
    s = new_scratch(len(names))
    k, n, fresh, margin = gather_row(state, setting, rows, 0, s)

    position = {int(key): at for at, key in enumerate(state.members.key[: block.counts[SIZE]]) if key >= 0}
    pairs = [(int(h) >> setting.shift, float(v)) for h, v in zip(rows.hash, rows.value, strict=True)]
    weight = {key: float(block.beta[position[key]] if key in position else line[key, 0] if table else 0.0) for key, _ in pairs}
    room = max(setting.limit - int(block.counts[SIZE]), 0) if setting.opens else 0
    expected = twin.gather_row(pairs, position, weight, room, table, float(block.beta[0]) if setting.intercept else None)
    assert margin == pytest.approx(expected.margin, rel=1e-12, abs=1e-12)
    assert list(zip(s.at[:k].tolist(), s.x[:k].tolist(), strict=True)) == expected.members
    assert list(zip(s.slot[:n].tolist(), s.y[:n].tolist(), strict=True)) == expected.outside
    assert fresh == (len(expected.fresh) if expected.room else -1)
    if fresh < 0:
        return
    assert list(zip(s.fresh[:fresh].tolist(), s.z[:fresh].tolist(), strict=True)) == expected.fresh

    before = [Feature(*line[key].tolist()) for key, _ in expected.outside]
    assert np.isfinite(move_row(state, setting, r, h, (k, n, fresh), s))
    length = float(np.abs(np.concatenate([s.x[:k], s.y[:n], s.z[:fresh]])).sum()) if setting.prior_by_row else 0.0
    for j, (key, y) in enumerate(expected.outside):
        gamma = learner._own.gamma[learner._own.key == key].tolist() or [setting.gamma]
        penalty = gamma[0] * float(state.scalars[GROWTH]) / scale if setting.outside == HYBRID else np.inf
        after = twin.move_row(before[j], y, (r, h), setting.prior / scale, penalty, length)
        found = (s.after[j], s.gradient[j], s.curvature[j], s.peak[j])
        assert found == pytest.approx((after.beta, after.gradient, after.curvature, after.peak), rel=1e-9, abs=1e-12)
