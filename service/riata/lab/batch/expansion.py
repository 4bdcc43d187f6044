"""The result of one pass at given weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from riata.base.arrays import F64, I64, Arrays
from riata.lab.batch.passes import CURVATURE, RESIDUAL, Request
from riata.lab.batch.problem import Problem
from riata.maths.links import LINKS


@dataclass(frozen=True, slots=True)
class Expansion:
    """The objective's quadratic approximation at weights.

    beta, intercept   : the weights, f64[features] by rank
    members           : i64[k]              S, increasing
    sums              : f64[2, SUMS]        see `passes`, by label
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


# Armijo's rule, whose first trial is the next pass.
#
# A step of RMMP is the optimum of a quadratic, which may be far from the objective: from a start that is not zero a full step can
# lower it. Every pass computes the objective at its weights, so a step is checked by the pass after it, at no cost.
# If the objective did not rise enough, one further pass evaluates it at 32 points of the step, and the best is taken.

SHARE: Final = 1e-4  # of the rise that the slope at the start promises
ROUNDING: Final = 1e-12  # of the objective
SHARES: Final = 0.5 ** np.arange(1.0, 33.0)  # far away, curvature underflows and a step is too long by many orders


def promised(problem: Problem, at: Expansion, beta: F64, intercept: float) -> float:
    """The rise of the objective along the step to `beta`, by the slope at `at`: G . step less the change of the penalty."""
    rise = float(at.gradient @ (beta - at.beta)) + at.residual * (intercept - at.intercept)
    return rise - problem.penalty(beta, intercept) + problem.penalty(at.beta, at.intercept)


def rose(objective: float, before: float, rise: float) -> bool:
    """Whether a step satisfies Armijo's rule; false if the objective is not a number."""
    return objective >= before + SHARE * rise - ROUNDING * abs(before)


def search_request(problem: Problem, at: Expansion, beta: F64, intercept: float) -> Request:
    """A pass that finds the log-likelihood at SHARES of the step from `at` to the weights."""
    return "search", {
        "link": np.array([LINKS[problem.link].code]),
        "beta": at.beta,
        "intercept": np.array([at.intercept]),
        "toward_beta": beta,
        "toward_intercept": np.array([intercept]),
        "position": np.empty(0, np.int32),
        "shares": SHARES,
    }


def best_share(problem: Problem, found: Arrays, at: Expansion, beta: F64, intercept: float) -> tuple[float, float]:
    """The best of SHARES, and the objective there, by what such a pass found."""
    penalties = [problem.penalty(*between(at, beta, intercept, share)) for share in SHARES.tolist()]
    objective = cast(F64, found["likelihood"]) - penalties
    best = int(np.argmax(np.where(np.isnan(objective), -np.inf, objective)))
    return float(SHARES[best]), float(objective[best])


def between(at: Expansion, beta: F64, intercept: float, share: float) -> tuple[F64, float]:
    """The weights at a share of the step from `at`."""
    return at.beta + share * (beta - at.beta), at.intercept + share * (intercept - at.intercept)
