"""Bayesian logistic regression: intervals, particles, and matrices that are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from riata.estimators import BayesianLogisticRegression


def data(n: int = 300, d: int = 2, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * x[:, 0]))).astype(int)


def test_intervals_enclose_the_prediction_and_narrow_with_data_and_level() -> None:
    x, y = data(2000)
    few, many = (BayesianLogisticRegression(start=500).fit(x[:n], y[:n]) for n in (200, 2000))
    width = {}
    for model in (few, many):
        wide, narrow = model.predict_interval(x[:50]), model.predict_interval(x[:50], 0.5)
        p = model.predict_proba(x[:50])[:, 1]
        assert ((wide[:, 0] < p) & (p < wide[:, 1]) & (wide[:, 0] < narrow[:, 0]) & (narrow[:, 1] < wide[:, 1])).all()
        width[model] = float((wide[:, 1] - wide[:, 0]).mean())
    assert width[many] < 0.5 * width[few]
    assert few.rejuvenations_ == few.tempered_ == 0 or few.rejuvenations_ > 0
    assert 1.0 <= many.effective_sample_size_ <= len(many.draw_weight_)


def test_particles_have_the_moments_that_are_told() -> None:
    x, y = data()
    model = BayesianLogisticRegression().fit(x, y)
    draws, weight = model.draws(), model.draw_weight_
    assert (draws @ weight)[1:].tolist() == pytest.approx(model.coef_[0].tolist())
    assert (draws @ weight)[0] == pytest.approx(model.intercept_[0])
    assert model.positive_.tolist() == pytest.approx([weight[line > 0.0].sum() for line in draws[1:]])
    low, high = model.coef_interval(0.9).T
    inside = [weight[(line >= a) & (line <= b)].sum() for line, a, b in zip(draws[1:], low, high, strict=True)]
    assert inside == pytest.approx([0.9, 0.9], abs=0.01)
    assert model.positive_[0] > 0.999


def test_sparse_and_dense_matrices_give_the_same_bits() -> None:
    x, y = data()
    x[np.abs(x) < 0.5] = 0.0
    dense, sparse = BayesianLogisticRegression().fit(x, y), BayesianLogisticRegression().fit(scipy.sparse.csr_array(x), y)
    assert dense.draws().tobytes() == sparse.draws().tobytes()
    assert sparse.predict_interval(scipy.sparse.csr_array(x)).tobytes() == dense.predict_interval(x).tobytes()


def test_too_many_columns_are_refused_and_many_are_warned_of() -> None:
    x, y = data(100, 33)
    with pytest.raises(ValueError, match="too_many_features: X has 33 columns"):
        BayesianLogisticRegression(features_max=32).fit(x, y)
    with pytest.raises(ValueError, match="too_many_features: X has 17 columns and features_max is 16"):
        BayesianLogisticRegression().fit(x[:, :17], y)
    with pytest.warns(UserWarning, match="17 columns: above 16"):
        BayesianLogisticRegression(features_max=20, particles=100).fit(x[:, :17], y)
    assert BayesianLogisticRegression(particles=100).fit(x[:, :16], y).coef_.shape == (1, 16)


@pytest.mark.parametrize("make", [lambda x: x["a"] * 2.0 + 1.0, lambda _: 3.0, lambda _: 0.0])
def test_a_singular_start_names_its_column(make: Any) -> None:
    x, y = data()
    frame = pd.DataFrame(x, columns=["a", "b"])
    frame["twice"] = make(frame)
    with pytest.raises(ValueError, match="singular_start: in the first 300 rows the column 'twice'"):
        BayesianLogisticRegression().fit(frame, y)
    assert BayesianLogisticRegression().fit(frame[["a", "b"]], y).positive_.shape == (2,)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 95.0])
def test_a_level_that_is_no_probability_is_refused(level: float) -> None:
    x, y = data()
    model = BayesianLogisticRegression(particles=100).fit(x, y)
    with pytest.raises(ValueError, match="is not between 0 and 1"):
        model.predict_interval(x, level)


def test_partial_fit_holds_its_first_rows_over_several_calls() -> None:
    x, y = data(400)
    whole = BayesianLogisticRegression(start=300).fit(x, y)
    parts = BayesianLogisticRegression(start=300)
    for begin in range(0, 400, 50):
        parts.partial_fit(x[begin : begin + 50], y[begin : begin + 50], classes=[0, 1])
    assert parts.draws().tobytes() == whole.draws().tobytes()


def test_a_column_without_values_has_no_posterior() -> None:
    x, y = data(50, 3)
    x[:, 1] = 0.0
    model = BayesianLogisticRegression(particles=100).partial_fit(x, y, classes=[0, 1])
    assert np.isnan(model.coef_interval()[1]).all()
    assert np.isfinite(model.coef_interval()[[0, 2]]).all()
