from __future__ import annotations

import math

import numpy as np
import pytest

from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL, SQUARED, answers, invariant_travel, log_losses, slope
from tests.twins import links as twin
from tests.twins import log_loss as log_loss_twin
from tests.twins import losses as losses_twin

MARGINS = np.array([-1.7e308, -745.2, -40.0, -1.0, -1e-300, 0.0, 1e-17, 0.3, 0.5, 0.7, 1.0, 40.0, 800.0, 1.7e308])


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT, IDENTITY, HINGE, REAL])
@pytest.mark.parametrize("negative", [0.0, -1.0])
def test_answers_equals_its_twin(link: int, negative: float) -> None:
    margin = np.concatenate((MARGINS, np.random.default_rng(5).normal(size=500) * 10))
    found, expected = np.empty((2, len(margin))), np.empty((2, len(margin)))
    answers(margin, link, negative, found[0], found[1])
    twin.answers(margin, link, negative, expected[0], expected[1])
    np.testing.assert_array_equal(found[1], expected[1])
    # The twin divides 1 by 1 + exp(-m) where the kernel takes exp(m) / (1 + exp(m)): a few roundings apart, and for
    # margins below -709 the twin has the limit 0 where the kernel still has a subnormal number.
    # erfc of m / sqrt 2 carries the rounding of its argument times m^2.
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-13 if link == PROBIT else 1e-15, atol=1e-307)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63, 64, 65])
def test_answers_overwrites_as_many_as_there_are_margins(n: int) -> None:
    found = np.full((2, n + 1), 7.0)
    answers(np.linspace(-3.0, 3.0, n), LOGISTIC, 0.0, found[0], found[1])
    assert found[:, n].tolist() == [7.0, 7.0]
    assert (found[:, :n] != 7.0).all()


def test_sigma_is_finite_symmetric_and_increasing() -> None:
    (values, opposite), label = np.empty((2, len(MARGINS))), np.empty(len(MARGINS))
    answers(np.sort(MARGINS), LOGISTIC, 0.0, values, label)
    answers(-np.sort(MARGINS), LOGISTIC, 0.0, opposite, label)
    assert ((values >= 0.0) & (values <= 1.0)).all()
    assert values.tolist() == sorted(values.tolist())
    assert (np.abs(values + opposite - 1.0) <= 2.0**-52).all()  # each of the two is rounded once or twice


# Log loss.


def test_log_losses_equal_their_twin() -> None:
    rng = np.random.default_rng(3)
    edges = [-np.inf, -1e308, -40.0, -0.0, 0.3, 36.0, 1e308, np.inf, np.nan]
    margin = np.concatenate((np.repeat(edges, 4), rng.normal(size=200) * 10))
    label = np.tile([0.0, 1.0], len(margin) // 2)
    refused, weight = rng.random(len(margin)) < 0.1, rng.random(len(margin)) * 3
    found, expected = log_losses(margin, refused, label, weight), np.empty(len(margin))
    log_loss_twin.log_losses(margin, refused, label, weight, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    assert 30.0 < (found / weight).max() < 34.6  # an impossible label has a loss, and it is bounded


# Losses.


LOSS_MARGINS = [-1e6, -800.0, -40.0, -3.0, -1.0, -1e-3, 0.0, 1e-3, 0.5, 1.0, 3.0, 36.0, 700.0, 1e6]
STRENGTHS = [0.0, 1e-12, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e9]


@pytest.mark.parametrize("margin", LOSS_MARGINS)
@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, HINGE])
def test_slope_is_that_of_50_digits(loss: int, label: float, margin: float) -> None:
    # One exp, one division: a few units in the last place; below 1e-300 digits run out.
    assert slope(loss, margin, label) == pytest.approx(losses_twin.slope(loss, margin, label), rel=1e-15, abs=1e-300)


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("z", LOSS_MARGINS)
def test_logistic_travel_is_that_of_lambert(z: float, strength: float) -> None:
    found = invariant_travel(LOGISTIC, z, 1.0, strength)
    assert invariant_travel(LOGISTIC, -z, 0.0, strength) == -found
    if z > 700.0:
        assert found < 1e-290
        return
    # Where z + d is near zero the answer is a difference of numbers as large as z.
    room = 4e-16 * max(1.0, abs(z))
    assert found == pytest.approx(losses_twin.logistic_travel(z, strength), rel=1e-14, abs=min(room, strength))


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, HINGE])
@pytest.mark.parametrize("margin", [-5.0, -1.0, 0.0, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_invariant_travel_is_that_of_the_closed_forms(loss: int, margin: float, label: float) -> None:
    for strength in STRENGTHS:
        expected = losses_twin.invariant_travel(loss, margin, label, strength)
        assert invariant_travel(loss, margin, label, strength) == pytest.approx(expected, rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, HINGE])
def test_invariant_travel_is_the_limit_of_many_small_gradient_steps(loss: int) -> None:
    margin, strength, parts = 0.4, 1.7, 200_000
    walked = margin
    for _ in range(parts):
        walked -= strength / parts * slope(loss, walked, 0.0)
    # Euler's method is of first order: its error falls as 1 / parts.
    assert margin + invariant_travel(loss, margin, 0.0, strength) == pytest.approx(walked, abs=5.0 / parts)


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, HINGE])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_two_travels_are_one_of_the_summed_strength(loss: int, label: float) -> None:
    start = -0.7
    first = start + invariant_travel(loss, start, label, 0.3)
    second = first + invariant_travel(loss, first, label, 0.9)
    assert second == pytest.approx(start + invariant_travel(loss, start, label, 1.2), rel=1e-14)


def test_no_strength_carries_a_margin_past_its_label() -> None:
    assert 3.0 + invariant_travel(SQUARED, 3.0, 1.0, 1e9) == 1.0
    assert invariant_travel(HINGE, 0.5, 1.0, 1e9) == 0.5
    assert math.isfinite(invariant_travel(LOGISTIC, 0.0, 1.0, 1e300))


def test_slope_of_the_hinge_is_zero_from_its_kink_on() -> None:
    assert slope(HINGE, 1.0, 1.0) == 0.0
    assert slope(HINGE, math.nextafter(1.0, 0.0), 1.0) == -1.0
    assert slope(HINGE, -1.0, 0.0) == 0.0
    assert slope(HINGE, 0.0, 0.0) == 1.0
