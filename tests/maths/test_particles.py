"""Weighted particles against golden values, their twins, and what they are for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.maths import particles
from riata.maths.particles import (
    Scratch,
    bandwidth,
    draw_about,
    effective,
    factorise,
    moments,
    new_scratch,
    rejuvenate,
    resample,
    weigh,
)
from tests.twins import particles as slow

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "pfs.json").read_text(encoding="utf-8"))
CHANCE = (np.uint64(7), np.uint64(3))
TOLERANCE = GOLDEN["tolerance"]["relative"]


def room(count: int, d: int = 1) -> Scratch:
    return new_scratch(d, count)


def some(d: int, count: int, seed: int = 0) -> tuple[F64, F64]:
    """Correlated particles of very different units, with weights."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(d, d)) @ rng.normal(size=(d, count)) * np.logspace(-3, 3, d)[:, np.newaxis]
    return theta + np.arange(1.0, d + 1.0)[:, np.newaxis], rng.random(count)


def test_golden_effective_sample_sizes() -> None:
    for case in GOLDEN["ESS"]:
        logarithm = np.log(np.maximum(case["w"], 1e-300)) if "w" in case else np.array(case["log_w"])
        weight = np.exp(logarithm - logarithm.max())
        assert effective(weight, room(len(weight))) == pytest.approx(case["ESS"], rel=TOLERANCE)


def test_golden_bandwidths() -> None:
    for case in GOLDEN["bandwidth"]:
        b = bandwidth(case["d"], case["M"])
        assert (b, math.sqrt(1.0 - b * b)) == pytest.approx((case["b_M"], case["a"]), rel=TOLERANCE)
    assert bandwidth(18, 3600, 1.5, 0.95) == 0.95  # where the cap is reached with 200 particles for each parameter
    assert bandwidth(16, 3200, 1.5, 0.95) < 0.95


def test_golden_moments_and_shrinkage() -> None:
    case = GOLDEN["moments"]
    theta, weight = np.ascontiguousarray(np.array(case["theta"]).T), np.array(case["w"])
    mean, covariance = np.empty(2), np.empty((2, 2))
    moments(theta, weight, mean, covariance, room(6))
    assert mean == pytest.approx(case["theta_bar"], rel=TOLERANCE)
    assert covariance == pytest.approx(np.array(case["V"]), rel=TOLERANCE)
    draw_about(mean, np.zeros((2, 2)), CHANCE, (case["a"], case["b"]), theta, np.empty((2, 6)))
    assert pytest.approx(np.array(case["theta_tilde"]), rel=TOLERANCE) == theta.T


def test_golden_systematic_resampling() -> None:
    for case in GOLDEN["systematic"]:
        weight, index = np.array(case["w"]), np.empty(len(case["w"]), np.int64)
        resample(weight, case["u"], index)
        assert (index + 1).tolist() == case["indices_1_based"]


def test_golden_likelihoods() -> None:
    for case in GOLDEN["logistic"]:
        margin, after = np.array([np.dot(case["theta"], case["x"])]), np.empty(1)
        weigh(np.ones(1), margin, float(case["y"]), 1.0, room(1), after)
        assert math.log(after[0]) == pytest.approx(case["loglik"], rel=TOLERANCE)


@pytest.mark.parametrize("count", [1, 7, 8, 100])
@pytest.mark.parametrize("importance", [1.0, 0.3, 5.0])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_weights_equal_the_twin(count: int, importance: float, label: float) -> None:
    rng = np.random.default_rng(count)
    weight, margin, after = rng.random(count), rng.normal(size=count) * 20.0, np.empty(count)
    margin[0] = [0.0, -0.0, 690.0, -690.0][int(importance) % 4]
    size = weigh(weight, margin, label, importance, room(count), after)
    expected = slow.weigh(weight, margin, label, importance)
    np.testing.assert_allclose(after, expected, rtol=1e-12, atol=1e-300)
    assert size == pytest.approx(slow.effective(expected), rel=1e-12)


def test_weights_of_extreme_margins_stay_finite() -> None:
    after = np.empty(2)
    assert weigh(np.ones(2), np.array([1e9, -1e9]), 1.0, 1.0, room(2), after) == pytest.approx(1.0)
    assert after[0] == 1.0
    assert 0.0 < after[1] < 1e-300
    assert weigh(np.zeros(2), np.array([1.0, 2.0]), 1.0, 1.0, room(2), after) == 0.0


@pytest.mark.parametrize(("d", "count"), [(1, 9), (3, 64), (5, 101)])
def test_moves_equal_the_twin(d: int, count: int) -> None:
    theta, weight = some(d, count)
    mean, covariance = np.empty(d), np.empty((d, d))
    moments(theta, weight, mean, covariance, room(count, d))
    expected = slow.moments(theta, weight)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-11)
    np.testing.assert_allclose(covariance, expected[1], rtol=1e-8, atol=1e-12)
    moved = slow.rejuvenate(theta, weight, 0.4, (7, 3))
    rejuvenate(theta, weight, 0.4, CHANCE, room(count, d))
    np.testing.assert_allclose(theta, moved, rtol=1e-8)
    assert weight.tolist() == [1.0] * count


def test_factors_equal_the_twin_also_of_singular_matrices() -> None:
    x = np.random.default_rng(1).normal(size=(4, 9))
    x[2] = x[0] - 2.0 * x[1]
    for matrix, dependent in ((x @ x.T, 2), (np.diag([1.0, 4.0, 1e-20]), -1), (np.zeros((2, 2)), 0)):
        lower = np.empty_like(matrix)
        assert factorise(matrix, lower) == dependent
        expected, found = slow.factorise(matrix)
        assert found == dependent
        np.testing.assert_allclose(lower, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(lower @ lower.T, matrix, rtol=1e-9, atol=1e-9)


def test_resampling_equals_the_twin() -> None:
    rng = np.random.default_rng(2)
    for count in (1, 2, 50):
        weight, index = rng.random(count) ** 8, np.empty(count, np.int64)
        resample(weight, 0.25, index)
        assert index.tolist() == slow.resample(weight, 0.25)


def test_moves_keep_mean_and_covariance() -> None:
    theta, weight = some(3, 20_000)
    mean, covariance = slow.moments(theta, weight)
    for stream in range(20):  # without shrinkage the covariance would be 1.16^20 = 19 times as large
        rejuvenate(theta, weight, 0.4, (np.uint64(1), np.uint64(stream)), room(20_000, 3))
    after, spread = slow.moments(theta, weight)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((after - mean) / scale, 0.0, atol=0.1)
    np.testing.assert_allclose(spread / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.15)


def test_weights_do_not_underflow() -> None:
    weight = np.array([3e-70, 1e-70])
    particles.hold_scale(weight)
    assert weight.tolist() == [3e-70 * 2.0**200, 1e-70 * 2.0**200]
    particles.hold_scale(weight)
    assert weight.tolist() == [3e-70 * 2.0**200, 1e-70 * 2.0**200]
