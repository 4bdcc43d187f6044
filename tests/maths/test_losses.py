from __future__ import annotations

import math

import pytest

from riata.maths.links import HINGE, LOGISTIC, SQUARED, invariant_travel, slope
from tests.twins import losses as twin

MARGINS = [-1e6, -800.0, -40.0, -3.0, -1.0, -1e-3, 0.0, 1e-3, 0.5, 1.0, 3.0, 36.0, 700.0, 1e6]
STRENGTHS = [0.0, 1e-12, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e9]


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, HINGE])
def test_slope_is_that_of_50_digits(loss: int, label: float, margin: float) -> None:
    # One exp, one division: a few units in the last place; below 1e-300 digits run out.
    assert slope(loss, margin, label) == pytest.approx(twin.slope(loss, margin, label), rel=1e-15, abs=1e-300)


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("z", MARGINS)
def test_logistic_travel_is_that_of_lambert(z: float, strength: float) -> None:
    found = invariant_travel(LOGISTIC, z, 1.0, strength)
    assert invariant_travel(LOGISTIC, -z, 0.0, strength) == -found
    if z > 700.0:
        assert found < 1e-290
        return
    # Where z + d is near zero the answer is a difference of numbers as large as z.
    room = 4e-16 * max(1.0, abs(z))
    assert found == pytest.approx(twin.logistic_travel(z, strength), rel=1e-14, abs=min(room, strength))


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, HINGE])
@pytest.mark.parametrize("margin", [-5.0, -1.0, 0.0, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_invariant_travel_is_that_of_the_closed_forms(loss: int, margin: float, label: float) -> None:
    for strength in STRENGTHS:
        expected = twin.invariant_travel(loss, margin, label, strength)
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
