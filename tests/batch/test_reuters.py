"""The paper's Reuters experiment (Balakrishnan & Madigan 2008, tables 3 and 4), category acq; the intercept is penalised too."""

from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.lab.batch.data import DataInMemory
from riata.lab.batch.pool import Serial
from riata.lab.batch.problem import Problem
from riata.lab.batch.rmmp import Rmmp
from riata.learn.learner import Weights
from tests.batch.designs import ZERO, dense
from tests.bench.batch import reuters_acq
from tests.bench.streams import SharedDataMissing


@pytest.fixture(scope="module")
def acq() -> DataInMemory:
    """The rows."""
    try:
        return reuters_acq().data()
    except SharedDataMissing as missing:
        pytest.skip(str(missing))


def coefficients(weights: Weights, data: DataInMemory) -> F64:
    return np.append(weights.intercept, dense(weights, data.features))


@pytest.mark.parametrize(("gamma", "non_zeros", "k", "z", "distance"), [(10.0, 154, 300, 9, 1.3e-3), (100.0, 33, 60, 7, 4e-5)])
def test_rmmp_with_twice_the_support_is_at_the_optimum_after_as_many_passes_as_the_paper(
    acq: DataInMemory, gamma: float, non_zeros: int, k: int, z: int, distance: float
) -> None:
    problem = Problem(acq, "logistic", gamma, gamma, ZERO)
    optimum = Rmmp(1000, 1e-10).solve(problem, Serial())
    best = coefficients(optimum.weights, acq)
    assert np.count_nonzero(best) == non_zeros
    assert optimum.certificate.kkt <= 1e-8
    after = Rmmp(k, 1e-14, passes_max=z + 1, inner=0.0).solve(problem, Serial())  # the pass after z is at the weights of pass z
    assert np.abs(coefficients(after.weights, acq) - best).sum() <= distance
    assert max(row.members for row in after.trace) <= k
