from __future__ import annotations

import numpy as np
import pytest

from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL, answers
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
