from __future__ import annotations

import numpy as np
import pytest

from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL, answers, sigma
from tests.twins import links as twin

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


def test_sigma_is_finite_symmetric_and_increasing() -> None:
    values = [sigma(float(m)) for m in np.sort(MARGINS)]
    assert all(0.0 <= p <= 1.0 for p in values)
    assert values == sorted(values)
    assert all(abs(sigma(m) + sigma(-m) - 1.0) <= 2.0**-52 for m in MARGINS.tolist())  # each of the two is rounded once or twice
