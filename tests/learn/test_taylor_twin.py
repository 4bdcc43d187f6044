from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from riata.learn.learner import Shadow
from riata.learn.taylor_config import TaylorSketchConfig
from riata.learn.taylor_sketch import TaylorSketch
from tests.learn.streams import cut, sparse_events, to_batch
from tests.learn.test_taylor_contract import BITS, CONFIGS, SHORT
from tests.twins import sketch_step as twin

ROWS = 200
SHARP: dict[str, Any] = {"tolerance": 1e-11, "sweeps_max": 100_000}
# Both solve to the end; what is left of rounding grows with the number of solves that follow one another.
REL, ABS = 1e-6, 1e-7


def _pair(name: str, **more: Any) -> tuple[TaylorSketch, twin.Plain]:
    config = TaylorSketchConfig(**{**SHORT, **CONFIGS[name], **SHARP, **more})
    learner = TaylorSketch(config, BITS)
    own = dict(zip(learner._own.key.tolist(), learner._own.gamma.tolist(), strict=True))
    return learner, twin.Plain(config, BITS, own)


def _compare(learner: TaylorSketch, plain: twin.Plain) -> None:
    """Compare members and their positions, every sum, every weight."""
    state, sketch, scale = learner._state, learner.sketch(), float(learner._state.arrays.scalars[0])
    key = state.arrays.members.key[: state.size].tolist()
    listed = [None if one in (None, twin.INTERCEPT) else one for one in plain.slot]
    assert [None if one < 0 else one for one in key] == listed + [None] * (len(key) - len(listed))
    members = plain.members
    assert sorted(sketch.slot[int(sketch.intercept) :].tolist()) == sorted(one for one in members if one != twin.INTERCEPT)
    order = [twin.INTERCEPT if sketch.intercept and at == 0 else int(slot) for at, slot in enumerate(sketch.slot)]
    for ours, theirs in (
        (sketch.beta, [plain.feature[one].beta for one in order]),
        (sketch.gradient, [plain.feature[one].gradient for one in order]),
        (sketch.curvature, [plain.total(one) for one in order]),
        (sketch.gamma, [plain.gamma(one) for one in order]),
    ):
        assert ours == pytest.approx(theirs, rel=REL, abs=ABS)
    cross = [[0.0 if one == other else plain.h(one, other) for other in order] for one in order]
    assert sketch.cross == pytest.approx(np.array(cross).reshape(len(order), len(order)), rel=REL, abs=ABS)
    line = state.arrays.outside.line
    others = sorted(one for one in plain.feature if one not in members and plain.feature[one].peak > 0.0)
    assert learner._outside().tolist() == (others if len(line) else [])
    for column, name in ((0, "beta"), (1, "gradient"), (2, "curvature"), (3, "peak")):
        unit = scale if column in (1, 2) else 1.0
        ours = np.abs(line[others, column]) if name == "peak" else line[others, column] * unit
        assert ours == pytest.approx([getattr(plain.feature[one], name) for one in others], rel=REL, abs=ABS)
    weights = learner.weights()
    alive = {one: f.beta for one, f in sorted(plain.feature.items()) if f.beta != 0.0 and one != twin.INTERCEPT}
    assert weights.slot.tolist() == list(alive)
    assert weights.beta == pytest.approx(list(alive.values()), rel=REL, abs=ABS)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "defaults"])
def test_learner_is_its_slow_twin(name: str) -> None:
    learner, plain = _pair(name)
    events = sparse_events(ROWS, seed=21, spread=0.7)
    batch = to_batch(events)
    for start, stop in ((0, 20), (20, 61), (61, 120), (120, ROWS)):
        stepped = learner.step(cut(batch, start, stop))
        margins, refused = twin.learn_rows(plain, events[start:stop])
        assert stepped.margin == pytest.approx(margins, rel=REL, abs=ABS)
        assert stepped.refused.tolist() == refused
        _compare(learner, plain)
    for ours, theirs in zip(learner.shadows(), plain.loss, strict=True):
        weight, total, faded_weight, faded = theirs
        expected = (ours.gamma, weight, total / weight, faded_weight, faded / faded_weight)
        assert dataclasses.astuple(ours) == pytest.approx(dataclasses.astuple(Shadow(*expected)), rel=REL, abs=ABS)


@pytest.mark.parametrize("name", ["hybrid", "strict", "diag", "exact", "exact-hybrid", "hybrid-shadow-forgetting"])
@pytest.mark.parametrize("gamma", [0.05, 4.0])
def test_another_penalty_is_taken_up_at_once_and_gone_on_with(name: str, gamma: float) -> None:
    learner, plain = _pair(name)
    events = sparse_events(ROWS, seed=22, spread=0.7)
    learner.step(to_batch(events[:100]))
    twin.learn_rows(plain, events[:100])
    learner.adjust(dataclasses.replace(learner.config, gamma=gamma))
    plain.config = dataclasses.replace(plain.config, gamma=gamma)
    twin.solve_all(plain)
    _compare(learner, plain)
    learner.step(to_batch(events[100:]))
    twin.learn_rows(plain, events[100:])
    _compare(learner, plain)
