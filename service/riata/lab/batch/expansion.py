"""The result of one pass at given weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from riata.base.arrays import F64, I64, Arrays
from riata.lab.batch.jobs import Request
from riata.lab.batch.problem import Problem
from riata.lab.batch.taylor_pass import CURVATURE, RESIDUAL
from riata.maths.links import LINKS


@dataclass(frozen=True, slots=True)
class Expansion:
    """The objective's quadratic approximation at weights.

    beta, intercept   : the weights, f64[features] by rank
    members           : i64[k]              S, increasing
    sums              : f64[2, SUMS]        see `taylor_pass`, by label
    gradient_by_label : f64[2, features]
    gradient          : f64[features]       G
    curvature         : f64[features]       D
    cross             : f64[k + 1, k + 1]   H above the diagonal; line 0 is the intercept's
    """

    beta: F64
    intercept: float
    members: I64
    sums: F64
    gradient_by_label: F64
    gradient: F64
    curvature: F64
    cross: F64

    @property
    def residual(self) -> float:
        """G of the intercept."""
        return float(self.sums[:, RESIDUAL].sum())

    @property
    def intercept_curvature(self) -> float:
        """D of the intercept."""
        return float(self.sums[:, CURVATURE].sum())


def expansion_request(problem: Problem, beta: F64, intercept: float, members: I64) -> Request:
    """A pass over all rows at the weights, with the curvature of `members` (increasing)."""
    position = np.full(problem.data.features, -1, np.int32)
    position[members] = np.arange(1, len(members) + 1)
    return "taylor", {
        "link": np.array([LINKS[problem.link].code]),
        "beta": beta,
        "intercept": np.array([intercept]),
        "position": position,
        "members": np.array([len(members)]),
    }


def expansion_of(found: Arrays, beta: F64, intercept: float, members: I64) -> Expansion:
    """What such a pass found."""
    sums, by_label = cast(F64, found["sums"]), cast(F64, found["moments"])
    whole = by_label[0] + by_label[1]
    gradient, curvature = np.ascontiguousarray(whole[:, 0]), np.ascontiguousarray(whole[:, 1])
    return Expansion(beta, intercept, members, sums, by_label[:, :, 0], gradient, curvature, cast(F64, found["cross"]))
