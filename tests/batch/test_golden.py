"""Iterates of MP and RMMP, and batch optima, against values of 60 digits and of an independent program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.lab.batch.pool import Serial
from riata.lab.batch.problem import Problem
from riata.lab.batch.rmmp import Mp, Rmmp
from riata.learn.learner import Weights
from tests.batch.designs import NEVER, ZERO, data_of, dense, golden
from tests.learn.paper_design import paper_design

SMALL = golden("online_mp_rmmp.json")
X, Y = np.array(SMALL["X"]), np.array(SMALL["y"], np.float64)
DESIGN = golden("simulated_design.json")


@pytest.mark.parametrize("solver", [Mp(1e-13), Rmmp(tolerance=1e-13)])
@pytest.mark.parametrize("optimum", SMALL["batch"])
def test_the_optimum_is_that_of_sixty_digits(optimum: dict[str, Any], solver: Mp | Rmmp) -> None:
    penalised = optimum["intercept_penalised"]
    data = data_of(X if penalised else X[:, 1:], Y)
    solution = solver.solve(Problem(data, optimum["link"], optimum["gamma"], NEVER if penalised else 0.0), Serial())
    found = dense(solution.weights, 7) if penalised else np.append(solution.weights.intercept, dense(solution.weights, 6))
    assert solution.stopped == "tolerance"
    np.testing.assert_allclose(found, optimum["beta_star"], rtol=0, atol=1e-10)
    assert solution.certificate.objective == pytest.approx(optimum["objective"], rel=1e-12)
    assert solution.certificate.kkt <= 1e-10
    assert solution.certificate.gap is not None
    assert 0.0 <= solution.certificate.gap <= 1e-10


def test_a_penalised_intercept_is_a_feature_that_every_row_has() -> None:
    optimum = next(one for one in SMALL["batch"] if one["intercept_penalised"] and one["gamma"] == 1.0)
    solution = Mp(1e-13).solve(Problem(data_of(X[:, 1:], Y), optimum["link"], 1.0, 1.0), Serial())
    found = np.append(solution.weights.intercept, dense(solution.weights, 6))
    np.testing.assert_allclose(found, optimum["beta_star"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("trace", SMALL["MP"])
def test_each_pass_of_mp_gives_the_golden_weights(trace: dict[str, Any]) -> None:
    problem = Problem(data_of(X, Y), trace["link"], trace["gamma"], NEVER)
    for z, beta in enumerate(trace["beta_z"], 1):
        solution = Mp(1e-16, z + 1, inner=0.0).solve(problem, Serial())  # the pass after z is at the weights of pass z
        np.testing.assert_allclose(dense(solution.weights, 7), beta, rtol=0, atol=1e-8)


@pytest.mark.parametrize("trace", SMALL["RMMP"])
def test_each_pass_of_rmmp_gives_the_golden_weights_and_working_sets(trace: dict[str, Any]) -> None:
    data = data_of(X, Y)
    problem = Problem(data, trace["link"], trace["gamma"], NEVER)
    for one in trace["passes"]:
        solution = Rmmp(trace["k"], 1e-16, one["z"] + 1, inner=0.0).solve(problem, Serial())
        np.testing.assert_allclose(dense(solution.weights, 7), one["beta_z"], rtol=0, atol=1e-8)
        sums = solution.sums
        assert sums is not None
        assert sorted(1 + data.slots[sums.rank].astype(np.int64)) == one["S_next"]
        kkt = solution.trace[one["z"] - 1].certificate.kkt * trace["gamma"]
        assert kkt == pytest.approx(one["kkt_at_beta_z_minus_1"], abs=1e-8)


def with_intercept(weights: Weights) -> F64:
    """f64[11]: the coefficients in the order of the design."""
    return np.append(weights.intercept, dense(weights, 10))


@pytest.mark.parametrize("run", DESIGN["runs"], ids=lambda run: run["link"])
def test_mp_is_near_the_optimum_of_the_simulated_design_after_four_passes_or_five(run: dict[str, Any]) -> None:
    enough = {"logistic": 4, "probit": 5}[run["link"]]
    data = data_of(*paper_design(run["t"], run["seed"], run["link"]))
    for solved in run["solutions"]:
        own = solved["gamma"] if solved["intercept_penalised"] else 0.0
        problem = Problem(data, run["link"], solved["gamma"], own, ZERO)
        distances = []
        for z in range(1, enough + 1):
            found = with_intercept(Mp(1e-16, z + 1, inner=0.0).solve(problem, Serial()).weights)
            distances.append(np.abs(found - solved["beta_star"]).sum())
            if z <= 3:
                np.testing.assert_allclose(found, solved["MP_beta_after_pass_1_2_3"][z - 1], rtol=0, atol=1e-8)
        assert distances == pytest.approx(solved["MP_L1_distance_after_pass"][:enough], abs=1e-7)
        assert distances[-1] < 1e-3
        if run["link"] == "probit" and solved["gamma"] == 100.0:
            assert distances[-2] > 1e-3
        last = Mp(1e-12).solve(problem, Serial())
        np.testing.assert_allclose(with_intercept(last.weights), solved["beta_star"], rtol=0, atol=1e-8)
        assert last.certificate.objective == pytest.approx(solved["objective"], rel=1e-12)
