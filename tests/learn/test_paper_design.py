"""The data and the yardstick of the paper's tables are what the reference vectors say, by code that shares nothing with them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from riata.base.arrays import F64
from riata.learn.learner import Weights
from tests.bench.coverage import DESIGNS
from tests.learn.paper_design import (
    BETA_TRUE,
    BITS,
    Rows,
    batch_optimum,
    coverage,
    dense_beta,
    dense_rows,
    draw_labels,
    kkt_residual,
    paper_design,
    topic_rows,
)

GOLDEN: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "simulated_design.json").read_text(encoding="utf-8")
)
SOLUTIONS: Final = [(run, solution) for run in GOLDEN["runs"] for solution in run["solutions"]]
NAMES: Final = [
    f"{run['link']}, gamma {s['gamma']:g}, {'' if s['intercept_penalised'] else 'not '}penalised" for run, s in SOLUTIONS
]


def with_ones(z: F64) -> F64:
    return np.hstack([np.ones((len(z), 1)), z])


def test_the_truth_is_the_one_of_the_reference_vectors() -> None:
    assert BETA_TRUE.tolist() == GOLDEN["beta_true"]


@pytest.mark.parametrize("run", GOLDEN["runs"], ids=["logistic", "probit"])
def test_the_simulated_design_is_the_reference_one_to_the_last_bit(run: dict[str, Any]) -> None:
    z, y = paper_design(run["t"], run["seed"], run["link"])
    assert hashlib.sha256(with_ones(z).tobytes()).hexdigest() == run["sha256_X"]
    assert hashlib.sha256(y.astype(np.uint8).tobytes()).hexdigest() == run["sha256_y"]


@pytest.mark.parametrize(("run", "solution"), SOLUTIONS, ids=NAMES)
def test_the_batch_optimum_and_the_passes_to_it_are_the_reference_ones(run: dict[str, Any], solution: dict[str, Any]) -> None:
    z, y = paper_design(run["t"], run["seed"], run["link"])
    gamma = np.full(len(BETA_TRUE), solution["gamma"])
    gamma[0] *= solution["intercept_penalised"]
    found = batch_optimum(with_ones(z), y, gamma, run["link"])
    assert found.kkt <= 1e-10 * solution["gamma"]
    assert np.abs(found.beta - solution["beta_star"]).max() <= GOLDEN["tolerance"]["beta_star"]
    distances = [float(np.abs(beta - np.array(solution["beta_star"])).sum()) for beta in found.passes]
    assert distances[:4] == pytest.approx(solution["MP_L1_distance_after_pass"][:4], abs=1e-8)


def test_the_batch_optimum_is_that_of_liblinear() -> None:
    z, y = paper_design(2000, 5, "logistic")
    x = with_ones(z)
    theirs = LogisticRegression(
        solver="liblinear", l1_ratio=1.0, C=1.0 / 10.0, tol=1e-12, max_iter=10_000, fit_intercept=False, random_state=1
    ).fit(x, y)
    assert np.abs(theirs.coef_[0] - batch_optimum(x, y, np.full(x.shape[1], 10.0), "logistic").beta).max() <= 1e-8


def test_the_optimality_conditions_see_a_coefficient_that_should_have_moved() -> None:
    gamma, beta = np.ones(3), np.array([0.0, 2.0, -2.0])
    assert kkt_residual(np.array([-0.9, 1.0, -1.0]), beta, gamma) == 0.0
    assert kkt_residual(np.array([-1.5, 1.0, -1.0]), beta, gamma) == 0.5
    assert kkt_residual(np.array([0.0, 1.0, 1.0]), beta, gamma) == 2.0


def dense(rows: Rows) -> F64:
    x = np.zeros((rows.n, rows.width))
    x[np.repeat(np.arange(rows.n), np.diff(rows.indptr)), rows.column] = rows.value
    return x


@pytest.mark.parametrize("topics", [0, 10])
def test_sparse_rows_have_distinct_rising_columns_and_true_margins(topics: int) -> None:
    rows = topic_rows(200, 300, 20, topics, np.random.default_rng(1))
    for row in np.split(rows.column, rows.indptr[1:-1]):
        assert 1 <= len(row) <= 20
        assert (np.diff(row) > 0).all()
    beta = np.random.default_rng(2).normal(size=301)
    assert rows.margins(beta) == pytest.approx(beta[0] + dense(rows) @ beta[1:], abs=1e-12)


def test_columns_of_one_topic_appear_together() -> None:
    x = dense(topic_rows(5000, 300, 20, 10, np.random.default_rng(1))) != 0.0
    joint = np.corrcoef(x, rowvar=False)
    assert joint[0, 1] > 0.2
    assert joint[0, 31] < 0.0


def test_a_row_without_features_has_the_intercept_as_its_margin() -> None:
    rows = Rows(np.array([0, 0, 1, 1]), np.array([2]), np.array([3.0]), 4)
    assert rows.margins(np.array([0.5, 1.0, 1.0, 2.0, 1.0])).tolist() == [0.5, 6.5, 0.5]


@pytest.mark.parametrize("bits", [BITS, 32])
def test_weights_come_back_to_the_columns_that_the_batch_was_made_from(bits: int) -> None:
    batch = dense_rows(np.ones((1, 5))).batch(np.ones(1))
    slot = batch.hash >> np.uint32(32 - bits)
    assert dense_beta(Weights(slot[[1, 3]], np.array([2.0, 4.0]), 7.0, "logistic", bits), 5).tolist() == [
        7.0,
        0.0,
        2.0,
        0.0,
        4.0,
        0.0,
    ]


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_the_same_seed_draws_the_same_events_and_labels_follow_the_truth(design: Any) -> None:
    beta = design.truth()
    assert len(beta) == 1 + design.width
    drawn = [design.rows(4000, np.random.default_rng(7)) for _ in range(2)]
    assert (drawn[0].value == drawn[1].value).all()
    margin = drawn[0].margins(beta)
    label = draw_labels(drawn[0], beta, np.random.default_rng(8))
    assert np.mean(label[margin > 1.5]) > 0.75
    assert np.mean(label[margin < -1.5]) < 0.25


def test_right_standard_errors_hold_the_nominal_share() -> None:
    scatter = np.random.default_rng(9).normal(size=100_000)
    for nominal in (0.5, 0.8, 0.95):
        assert coverage(scatter, np.ones(100_000), nominal) == pytest.approx(nominal, abs=0.01)
    assert coverage(scatter, np.full(100_000, 0.5), 0.95) < 0.7
