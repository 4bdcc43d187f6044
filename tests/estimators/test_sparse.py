"""The L1 optimum: compared with scikit-learn's solvers, and with the conditions that define it, computed here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, ndtr
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from riata.base.arrays import F64
from riata.estimators import SparseLogisticRegression
from riata.lab.batch.shotgun import Shotgun
from tests.estimators.data import matrix


def violation(model: Any, x: F64, y: F64, weight: F64, gamma: F64) -> float:
    """By how much the optimality conditions of the weights and of the intercept are violated at most."""
    margin, sign = x @ model.coef_[0] + model.intercept_[0], 2 * y - 1
    if model.link == "logistic":
        slope = weight * sign * expit(-sign * margin)
    else:
        slope = weight * sign * norm.pdf(margin) / ndtr(sign * margin)
    gradient, beta = x.T @ slope, model.coef_[0]
    off = np.where(beta != 0, np.abs(gradient - gamma * np.sign(beta)), np.maximum(np.abs(gradient) - gamma, 0))
    return float(max(off.max(), abs(slope.sum()) if model.fit_intercept else 0.0))


@pytest.mark.parametrize("gamma", [0.5, 8.0])
def test_the_optimum_is_that_of_scikit_learn(gamma: float) -> None:
    x, y = matrix(400, 12)
    free = SparseLogisticRegression(gamma=gamma).fit(x, y)
    saga = LogisticRegression(C=1 / gamma, l1_ratio=1.0, solver="saga", tol=1e-12, max_iter=20_000, random_state=0).fit(x, y)
    assert np.allclose(free.coef_, saga.coef_, rtol=0, atol=1e-8)
    assert np.allclose(free.intercept_, saga.intercept_, rtol=0, atol=1e-8)
    through_zero = SparseLogisticRegression(gamma=gamma, fit_intercept=False).fit(x, y)
    # liblinear penalises an intercept, so only the problem without one is the same
    linear = LogisticRegression(
        C=1 / gamma, l1_ratio=1.0, solver="liblinear", tol=1e-9, max_iter=20_000, fit_intercept=False, random_state=0
    )
    assert np.allclose(through_zero.coef_, linear.fit(x, y).coef_, rtol=0, atol=1e-7)
    assert through_zero.intercept_.tolist() == [0.0]


@pytest.mark.parametrize("solver", ["auto", "mp", "rmmp", "shotgun"])
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_weights_satisfy_the_conditions_of_the_optimum(link: str, solver: str) -> None:
    x, y = matrix(500, 30)
    weight = np.random.default_rng(2).choice([0.0, 0.5, 3.0], 500)
    gamma = np.linspace(0.0, 6.0, 30)
    model = SparseLogisticRegression(link=link, solver=solver, gamma=gamma).fit(x, y, sample_weight=weight)
    assert violation(model, x, y, weight, gamma) < 1e-8
    assert 0 < np.count_nonzero(model.coef_) < 30
    assert model.certificate_.kkt <= 1e-10
    assert model.n_iter_ > 1
    assert model.solver_ == ("mp" if solver == "auto" else solver)


def test_a_solver_with_settings_of_its_own_is_taken() -> None:
    x, y = matrix(200)
    model = SparseLogisticRegression(solver=Shotgun(tolerance=1e-10, at_once=2, seed=3))
    clone(model).fit(x, y)
    assert model.fit(x, y).solver_ == "Shotgun"
    assert np.allclose(model.coef_, SparseLogisticRegression().fit(x, y).coef_, rtol=0, atol=1e-6)


def test_a_weight_is_a_number_of_repetitions_and_the_order_of_rows_does_not_matter() -> None:
    x, y = matrix(200)
    times = np.random.default_rng(3).integers(0, 4, 200)
    weighted = SparseLogisticRegression().fit(x, y, sample_weight=times)
    repeated = SparseLogisticRegression().fit(np.repeat(x, times, axis=0)[::-1], np.repeat(y, times)[::-1])
    assert np.allclose(weighted.coef_, repeated.coef_, rtol=0, atol=1e-9)
    assert not np.allclose(weighted.coef_, SparseLogisticRegression().fit(x, y).coef_, rtol=0, atol=1e-3)


def test_sparse_matrices_and_columns_without_values_are_taken() -> None:
    x, y = matrix(200, 5)
    wide = np.column_stack([np.zeros(200), x, np.zeros(200)])
    model = SparseLogisticRegression().fit(wide, y)
    assert model.coef_[0, [0, 6]].tolist() == [0.0, 0.0]
    for form in (sparse.csr_array(wide), sparse.csc_matrix(wide), sparse.coo_array(wide), pd.DataFrame(wide)):
        found = SparseLogisticRegression().fit(form, y)
        assert np.array_equal(found.coef_, model.coef_)
        assert np.allclose(found.decision_function(form), model.decision_function(wide), rtol=0, atol=1e-12)


def test_probabilities_are_those_of_the_link() -> None:
    x, y = matrix(300)
    names = np.where(y > 0, "yes", "no")
    for link, probability in (("logistic", expit), ("probit", norm.cdf)):
        model = SparseLogisticRegression(link=link).fit(x, names)
        margin = x @ model.coef_[0] + model.intercept_[0]
        assert np.allclose(model.predict_proba(x), np.column_stack([probability(-margin), probability(margin)]))
        assert np.array_equal(model.predict(x), np.where(margin > 0, "yes", "no"))


def test_separable_classes_have_an_optimum_only_with_a_penalty() -> None:
    x = np.linspace(-1, 1, 40)[:, np.newaxis]
    y = (x[:, 0] > 0.1).astype(int)
    with pytest.raises(ValueError, match=r"there is no optimum.*give them a gamma above 0"):
        SparseLogisticRegression(gamma=0.0).fit(x, y)
    assert SparseLogisticRegression(gamma=0.01).fit(x, y).score(x, y) == 1.0


@pytest.mark.parametrize(
    ("parameter", "why"),
    [
        ({"gamma": -1.0}, "penalties of at least 0"),
        ({"gamma": [1.0, 2.0]}, r"one for each of 6 columns, got \(2,\)"),
        ({"link": "log"}, "link: 'log' is none of logistic, probit"),
        ({"solver": "saga"}, "solver: 'saga' is none of auto, mp, rmmp, irls_lars, parallel_sgd, sllr_l1, sllr_l2, shotgun"),
    ],
)
def test_a_parameter_that_is_none_is_refused_by_name(parameter: dict[str, Any], why: str) -> None:
    x, y = matrix(30)
    with pytest.raises(ValueError, match=why):
        SparseLogisticRegression(**parameter).fit(x, y)


def test_too_many_columns_for_mp_are_refused_and_rmmp_takes_them() -> None:
    x = sparse.csr_array(sparse.random_array((60, 5000), density=0.05, rng=np.random.default_rng(1)))
    y = np.arange(60) % 2
    with pytest.raises(ValueError, match="at most 4096 are possible; use rmmp"):
        SparseLogisticRegression(solver="mp").fit(x, y)
    assert SparseLogisticRegression().fit(x, y).solver_ == "rmmp"


def test_rows_of_one_class_are_refused_also_if_weights_leave_one() -> None:
    x, y = matrix(40)
    with pytest.raises(ValueError, match="y holds 1 class"):
        SparseLogisticRegression().fit(x, np.ones(40))
    with pytest.raises(ValueError, match="y holds 1 class"):
        SparseLogisticRegression().fit(x, y, sample_weight=y)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        SparseLogisticRegression().fit(x, np.arange(40) % 3)


def test_too_few_passes_are_said_in_a_warning() -> None:
    x, y = matrix(300)
    with pytest.warns(ConvergenceWarning, match="^1 passes left a violation of .* of the penalty; raise max_iter or tol$"):
        early = SparseLogisticRegression(max_iter=1).fit(x, y)  # one that gathers columns is followed by another
    assert early.n_iter_ == 1
    assert 1 < SparseLogisticRegression(max_iter=30).fit(x, y).n_iter_ < 30
