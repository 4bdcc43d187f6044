"""Weighted particles against golden values, their twins, and what they are for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.learn.particle_filter import bandwidth, draw_about, effective, factorise, moments, particle_room
from riata.native.library import core
from tests.twins import particles as slow

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "pfs.json").read_text(encoding="utf-8"))
CHANCE = (7, 3)
TOLERANCE = GOLDEN["tolerance"]["relative"]


def weigh(weight: F64, margin: F64, label: float, importance: float) -> tuple[float, F64]:
    """The effective sample size, and the weights times a power of the likelihood."""
    after = np.empty_like(weight)
    return core.weigh(len(weight), weight, margin, label, importance, np.empty_like(weight), after), after


def rejuvenate(theta: F64, weight: F64, b: float, chance: tuple[int, int]) -> None:
    core.rejuvenate(*theta.shape, theta, weight, b, *chance, particle_room(*theta.shape))


def resample(weight: F64, u: float) -> list[int]:
    index = np.empty(len(weight), np.int64)
    core.resample(len(weight), weight, u, index)
    found: list[int] = index.tolist()
    return found


def some(d: int, count: int, seed: int = 0) -> tuple[F64, F64]:
    """Correlated particles of very different units, with weights."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(d, d)) @ rng.normal(size=(d, count)) * np.logspace(-3, 3, d)[:, np.newaxis]
    return theta + np.arange(1.0, d + 1.0)[:, np.newaxis], rng.random(count)


def test_golden_effective_sample_sizes() -> None:
    for case in GOLDEN["ESS"]:
        logarithm = np.log(np.maximum(case["w"], 1e-300)) if "w" in case else np.array(case["log_w"])
        weight = np.exp(logarithm - logarithm.max())
        assert effective(weight) == pytest.approx(case["ESS"], rel=TOLERANCE)


def test_golden_bandwidths() -> None:
    for case in GOLDEN["bandwidth"]:
        b = bandwidth(case["d"], case["M"])
        assert (b, math.sqrt(1.0 - b * b)) == pytest.approx((case["b_M"], case["a"]), rel=TOLERANCE)
    assert bandwidth(18, 3600, 1.5, 0.95) == 0.95  # where the cap is reached with 200 particles for each parameter
    assert bandwidth(16, 3200, 1.5, 0.95) < 0.95


def test_golden_moments_and_shrinkage() -> None:
    case = GOLDEN["moments"]
    theta, weight = np.ascontiguousarray(np.array(case["theta"]).T), np.array(case["w"])
    mean, covariance = moments(theta, weight)
    assert mean == pytest.approx(case["theta_bar"], rel=TOLERANCE)
    assert covariance == pytest.approx(np.array(case["V"]), rel=TOLERANCE)
    draw_about(mean, np.zeros((2, 2)), CHANCE, (case["a"], case["b"]), theta)
    assert pytest.approx(np.array(case["theta_tilde"]), rel=TOLERANCE) == theta.T


def test_golden_systematic_resampling() -> None:
    for case in GOLDEN["systematic"]:
        assert [k + 1 for k in resample(np.array(case["w"]), case["u"])] == case["indices_1_based"]


def test_golden_likelihoods() -> None:
    for case in GOLDEN["logistic"]:
        _, after = weigh(np.ones(1), np.array([np.dot(case["theta"], case["x"])]), float(case["y"]), 1.0)
        assert math.log(after[0]) == pytest.approx(case["loglik"], rel=TOLERANCE)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 100])
@pytest.mark.parametrize("importance", [1.0, 0.3, 5.0])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_weights_equal_the_twin(count: int, importance: float, label: float) -> None:
    rng = np.random.default_rng(count)
    weight, margin = rng.random(count), rng.normal(size=count) * 20.0
    margin[0] = [0.0, -0.0, 690.0, -690.0][int(importance) % 4]
    size, after = weigh(weight, margin, label, importance)
    expected = slow.weigh(weight, margin, label, importance)
    np.testing.assert_allclose(after, expected, rtol=1e-12, atol=1e-300)
    assert size == pytest.approx(slow.effective(expected), rel=1e-12)


def test_weights_of_extreme_margins_stay_finite() -> None:
    size, after = weigh(np.ones(2), np.array([1e9, -1e9]), 1.0, 1.0)
    assert size == pytest.approx(1.0)
    assert after[0] == 1.0
    assert 0.0 < after[1] < 1e-300
    assert weigh(np.zeros(2), np.array([1.0, 2.0]), 1.0, 1.0)[0] == 0.0


@pytest.mark.parametrize(("d", "count"), [(1, 9), (3, 64), (5, 101)])
def test_moves_equal_the_twin(d: int, count: int) -> None:
    theta, weight = some(d, count)
    mean, covariance = moments(theta, weight)
    expected = slow.moments(theta, weight)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-11)
    np.testing.assert_allclose(covariance, expected[1], rtol=1e-8, atol=1e-12)
    moved = slow.rejuvenate(theta, weight, 0.4, (7, 3))
    rejuvenate(theta, weight, 0.4, CHANCE)
    np.testing.assert_allclose(theta, moved, rtol=1e-8)
    assert weight.tolist() == [1.0] * count


def test_factors_equal_the_twin_also_of_singular_matrices() -> None:
    x = np.random.default_rng(1).normal(size=(4, 9))
    x[2] = x[0] - 2.0 * x[1]
    for matrix, dependent in ((x @ x.T, 2), (np.diag([1.0, 4.0, 1e-20]), -1), (np.zeros((2, 2)), 0)):
        lower, found = factorise(matrix)
        expected, wanted = slow.factorise(matrix)
        assert found == wanted == dependent
        np.testing.assert_allclose(lower, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(lower @ lower.T, matrix, rtol=1e-9, atol=1e-9)


def test_resampling_equals_the_twin() -> None:
    rng = np.random.default_rng(2)
    for count in (1, 2, 50):
        weight = rng.random(count) ** 8
        assert resample(weight, 0.25) == slow.resample(weight, 0.25)


def test_moves_keep_mean_and_covariance() -> None:
    theta, weight = some(3, 20_000)
    mean, covariance = slow.moments(theta, weight)
    for stream in range(20):  # without shrinkage the covariance would be 1.16^20 = 19 times as large
        rejuvenate(theta, weight, 0.4, (1, stream))
    after, spread = slow.moments(theta, weight)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((after - mean) / scale, 0.0, atol=0.1)
    np.testing.assert_allclose(spread / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.15)
