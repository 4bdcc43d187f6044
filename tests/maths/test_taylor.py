from __future__ import annotations

import json
import math
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riata.maths import links
from riata.maths.links import LOGISTIC, PROBIT
from riata.native.library import core
from tests.twins import taylor as twin

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "links.json").read_text(encoding="utf-8"))
LINKS = {"logistic": LOGISTIC, "probit": PROBIT}
LARGEST = sys.float_info.max
CURVATURE_MAX = {LOGISTIC: 0.25, PROBIT: 1.0}
TAIL_FROM, FLAT_FROM = 3.0, 40.0  # where losses.h changes its formula
ABSOLUTE = 1e-300  # below it double precision runs out of digits

link_codes = st.sampled_from(sorted(LINKS.values()))
margins = st.floats(allow_nan=False, allow_infinity=False)
labels = st.sampled_from([0.0, 1.0])


def terms(link: int, margin: float, label: float) -> tuple[float, float, float]:
    """Slope, curvature and log-likelihood of one label."""
    found = np.empty((3, 1))
    core.taylor(link, np.array([margin]), np.array([label]), 1, *found)
    slope, curvature, log_p = found[:, 0].tolist()
    return slope, curvature, log_p


def taylor(link: int, margin: float, label: float) -> tuple[float, float]:
    """Slope and curvature."""
    return terms(link, margin, label)[:2]


def log_likelihood(link: int, margin: float, label: float) -> float:
    """Log of the probability of the label."""
    return terms(link, margin, label)[2]


def close(found: float, expected: float, relative: float) -> bool:
    return abs(found - expected) <= max(relative * abs(expected), ABSOLUTE)


@pytest.mark.parametrize("link", LINKS)
def test_golden_values(link: str) -> None:
    relative = GOLDEN["tolerance"]["relative"]
    cases = [case for case in GOLDEN["cases"] if case["link"] == link]
    assert len(cases) == 78
    for case in cases:
        code, margin, label = LINKS[link], float(case["c_hat"]), float(case["y"])
        r, h = taylor(code, margin, label)
        found = {"a": -0.5 * h, "grad": r, "loglik": log_likelihood(code, margin, label)}
        wrong = [name for name, number in found.items() if not close(number, float(case[name]), relative)]
        assert wrong == [], (case, found)


def grid() -> list[float]:
    """Margins without saturation, both ends, and the doubles around every change of formula."""
    rng = np.random.default_rng(8)
    seams = [s * m for m in (0.0, TAIL_FROM, FLAT_FROM, 38.6, 1e3, 1e9) for s in (-1.0, 1.0)]
    near = [math.nextafter(m, way) for m in seams for way in (-math.inf, math.inf)]
    return [*rng.uniform(-40.0, 40.0, 150).tolist(), *rng.uniform(-4.0, 4.0, 150).tolist(), *seams, *near]


# Largest relative errors found in 12,000 margins within 40: logistic 5e-16; probit r and h 6e-14, log p 1.8e-13,
# all of them from the rounding of m^2 / 2 before exp.
@pytest.mark.parametrize(("link", "relative"), [(LOGISTIC, 1e-15), (PROBIT, 4e-13)])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_slope_curvature_and_log_likelihood_equal_their_twins(link: int, relative: float, label: float) -> None:
    for margin in grid():
        r, h = taylor(link, margin, label)
        expected_r, expected_h = twin.taylor(link, margin, label)
        assert close(r, expected_r, relative), (margin, r, expected_r)
        assert close(h, expected_h, relative), (margin, h, expected_h)
        assert close(log_likelihood(link, margin, label), twin.log_likelihood(link, margin, label), relative), margin


@pytest.mark.parametrize("margin", [-1e300, -1e160, -1e100, -1e20, 1e20, 1e300])
@pytest.mark.parametrize("link", LINKS.values())
def test_absurd_margins_have_their_limits(link: int, margin: float) -> None:
    r, h = taylor(link, margin, 1.0)
    if margin > 0.0:
        assert (r, h, log_likelihood(link, margin, 1.0)) == (0.0, 0.0, 0.0)
    elif link == LOGISTIC:
        assert (r, h, log_likelihood(link, margin, 1.0)) == (1.0, 0.0, margin)
    else:
        assert r == pytest.approx(-margin, rel=1e-15)
        assert h == pytest.approx(1.0, rel=1e-15)
        assert log_likelihood(link, margin, 1.0) == pytest.approx(max(-0.5 * margin * margin, -LARGEST), rel=1e-15)


@given(link_codes, margins, labels)
def test_slope_and_curvature_are_finite_and_of_their_sign_at_every_margin(link: int, c: float, label: float) -> None:
    r, h = taylor(link, c, label)
    s = 2.0 * label - 1.0
    assert math.isfinite(r)
    assert s * r >= 0.0
    assert 0.0 <= h <= CURVATURE_MAX[link]
    if s * c < 37.0:  # the label did not come as no surprise at all
        assert s * r > 0.0
        assert link == LOGISTIC or h > 0.0


@given(link_codes, margins, labels)
def test_log_likelihood_is_finite_and_not_positive_at_every_margin(link: int, c: float, label: float) -> None:
    assert -LARGEST <= log_likelihood(link, c, label) <= 0.0


@given(link_codes, margins)
def test_a_label_turned_over_is_a_margin_turned_over_to_the_last_bit(link: int, c: float) -> None:
    r, h = taylor(link, c, 1.0)
    assert taylor(link, -c, 0.0) == (-r, h)
    assert log_likelihood(link, -c, 0.0) == log_likelihood(link, c, 1.0)


@pytest.mark.parametrize("link", LINKS.values())
def test_the_likelier_the_label_the_smaller_the_slope(link: int) -> None:
    rising = np.linspace(-60.0, 60.0, 4001).tolist()
    slopes = [taylor(link, m, 1.0)[0] for m in rising]
    assert all(later <= earlier for earlier, later in pairwise(slopes))
    reported = [log_likelihood(link, m, 1.0) for m in rising]
    assert all(later >= earlier for earlier, later in pairwise(reported))


@given(margins, labels)
def test_the_logistic_slope_is_that_of_the_logistic_loss_to_the_last_bit(c: float, label: float) -> None:
    assert taylor(LOGISTIC, c, label)[0] == -core.slope(links.LOGISTIC, c, label)
