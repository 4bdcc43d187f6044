"""Intervals of the probability from standard errors: against draws of normal margins, and refused where there are none."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from riata.base.errors import Conflict
from riata.maths.links import Link
from riata.predict.linear_model import LinearModel
from riata.predict.model import Scores
from riata.predict.posterior import intervals_of
from tests.predict.rows import batch_of, model_of, origin, random_weights

LEVEL = 0.9


def linked(link: Link) -> LinearModel:
    return LinearModel(origin(), random_weights(np.random.default_rng(1), 5, 10, link), gen=0, seq=1)


def scores_of(margin: list[float], std_error: list[float]) -> Scores:
    n = len(margin)
    zeros, none = np.zeros(n), np.zeros(n, np.int64)
    return Scores(np.array(margin), zeros, zeros, none, none, np.array(std_error))


def test_ends_and_mean_are_those_of_normal_margins() -> None:
    margin, std_error = [-3.0, 0.0, 1.5, 40.0], [0.5, 0.0, 2.0, 1.0]
    model = linked("logistic")
    found = intervals_of(model, batch_of([[]] * 4), scores_of(margin, std_error), LEVEL)
    drawn = np.array(margin)[:, None] + np.array(std_error)[:, None] * np.array(
        [NormalDist().inv_cdf((k + 0.5) / 20_000) for k in range(20_000)]
    )
    probability = 1.0 / (1.0 + np.exp(-drawn))
    np.testing.assert_allclose(found[:, 0], np.quantile(probability, 0.05, axis=1), atol=1e-4)
    np.testing.assert_allclose(found[:, 1], np.quantile(probability, 0.95, axis=1), atol=1e-4)
    np.testing.assert_allclose(found[:, 2], probability.mean(axis=1), atol=1e-5)
    assert found[1].tolist() == pytest.approx([0.5, 0.5, 0.5], abs=1e-15)


def test_the_mean_under_the_probit_link_has_a_closed_form() -> None:
    margin, std_error = [-1.0, 0.3, 2.0], [0.5, 2.0, 1.0]
    found = intervals_of(linked("probit"), batch_of([[]] * 3), scores_of(margin, std_error), LEVEL)
    for row, m, s in zip(found.tolist(), margin, std_error, strict=True):
        assert row[2] == pytest.approx(NormalDist().cdf(m / (1.0 + s * s) ** 0.5), abs=1e-6)
        assert row[1] == pytest.approx(NormalDist().cdf(m + s * NormalDist().inv_cdf(0.95)), abs=1e-12)


def test_a_model_without_standard_errors_is_refused_with_the_learners_that_have_them() -> None:
    model = model_of(random_weights(np.random.default_rng(0), 5, 10))
    with pytest.raises(Conflict, match="particle_filter") as refused:
        intervals_of(model, batch_of([[]]), scores_of([0.0], [np.nan]), LEVEL)
    assert refused.value.code == "no_posterior"
    assert "taylor_sketch" in refused.value.detail
