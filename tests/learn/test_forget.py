"""Forgetting: the weights stay, the past counts less, and the state is one that a checkpoint gives back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riata.learn.ftrl_proximal import FtrlProximalConfig
from riata.learn.registry import build_learner
from riata.learn.taylor_config import TaylorSketchConfig
from riata.learn.taylor_sketch import TaylorSketch
from riata.learn.truncated_config import TruncatedGradientConfig
from tests.run.events import random_batch

KEEPERS: list[Any] = [
    TruncatedGradientConfig(),
    TruncatedGradientConfig(normalised=False, eta=0.1, gravity=1e-3),
    TruncatedGradientConfig(calibrated=True, centred=True),
    FtrlProximalConfig(l1=0.5),
]


@pytest.mark.parametrize("config", KEEPERS, ids=str)
@pytest.mark.parametrize("bits", [12, 20])
def test_weights_stay_and_the_next_step_is_larger(config: Any, bits: int) -> None:
    rng = np.random.default_rng(3)
    learnt, again, more = random_batch(rng, 1500), random_batch(rng, 40), random_batch(rng, 300)
    plain, forgetful = (build_learner(config, bits) for _ in range(2))
    for learner in (plain, forgetful):
        learner.step(learnt)
    before = plain.weights()
    forgetful.forget(0.01)
    after = forgetful.weights()
    np.testing.assert_array_equal(after.slot, before.slot)
    np.testing.assert_allclose(after.beta, before.beta, rtol=1e-12)
    assert after.intercept == pytest.approx(before.intercept, rel=1e-12)
    thawed = build_learner(config, bits)
    thawed.thaw(forgetful.freeze())
    margin = forgetful.step(again).margin
    assert margin[0] == pytest.approx(plain.step(again).margin[0], rel=1e-9)
    np.testing.assert_array_equal(thawed.step(again).margin, margin)
    np.testing.assert_array_equal(thawed.step(more).margin, forgetful.step(more).margin)
    steps = [np.abs(learner.weights().intercept - before.intercept) for learner in (forgetful, plain)]
    assert steps[0] > 1.5 * steps[1]


def test_a_sketch_keeps_a_share_of_its_curvature() -> None:
    config = TaylorSketchConfig(mode="exact", gamma=0.0, prior_curvature=0.0, features_max=400)
    learner = TaylorSketch(config, 12)
    learner.step(random_batch(np.random.default_rng(4), 1000))
    before = learner.sketch()
    learner.forget(0.1)
    after = learner.sketch()
    np.testing.assert_allclose(after.curvature, 0.1 * before.curvature, rtol=1e-12)
    np.testing.assert_allclose(after.cross, 0.1 * before.cross, rtol=1e-12, atol=1e-300)
    for _ in range(400):  # many alarms: neither the scale nor the sums may leave the range of numbers
        learner.forget(0.1)
    again = TaylorSketch(config, 12)
    again.thaw(learner.freeze())
    assert np.isfinite(again.step(random_batch(np.random.default_rng(5), 500)).margin).all()


def test_learners_without_rates_that_remember_cannot_forget() -> None:
    assert not TruncatedGradientConfig(rate="constant", normalised=False).can_forget()
