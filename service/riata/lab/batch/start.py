"""Where a solver begins."""

from __future__ import annotations

import statistics
from typing import cast

import numpy as np

from riata.base.arrays import F64, Arrays
from riata.base.errors import Conflict
from riata.lab.batch.problem import Problem


def first_weights(problem: Problem, labels: Arrays) -> tuple[F64, float]:
    """The weights f64[features] and the intercept to begin with; see `Problem.start`.

    labels : what the job of this name found

    Raises `Conflict` if all rows have the same label.
    """
    weight = cast(F64, labels["weight"])
    if not np.all(weight > 0.0):
        label = "-1" if weight[0] > 0.0 else "1"
        raise Conflict(f"all {problem.data.rows} rows have the label {label}; a classifier needs rows of both", "one_class")
    if problem.start is not None:
        return problem.first(), problem.start.intercept if np.isfinite(problem.gamma_intercept) else 0.0
    if problem.gamma_intercept > 0.0:
        return problem.first(), 0.0
    negative, positive = weight.tolist()
    if problem.link == "logistic":
        return problem.first(), float(np.log(positive / negative))
    return problem.first(), statistics.NormalDist().inv_cdf(positive / (negative + positive))
