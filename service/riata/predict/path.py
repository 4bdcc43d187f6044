"""The regularisation path of a sketch: the weights under other penalties, without learning again.

A sketch is a quadratic, so the optimum under another penalty needs one solve. The solves begin at the largest penalty, where
every weight is zero, and each one starts from the solution of the one before. Features outside the block are independent of
each other, so their optimum has a closed form.
Weights with individual penalties keep them. The intercept keeps its penalty too, unless it equals the common one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64
from riata.base.halt import lent
from riata.learn.learner import Sketch
from riata.maths.shooting import Quadratic, shoot

FLOOR: Final = 0.01  # the grid ends at this fraction of the current gamma: low enough to see the loss rise again
FLOOR_WITHOUT_PENALTY: Final = 1e-4  # of the largest gamma, if the current one is zero
TOLERANCE: Final = 1e-4  # of gamma, a hundredth of a learner's: weights that are zero should be exactly zero here
ROUNDING: Final = 1e-12  # the same without a common penalty, as a fraction of the largest gradient at weights zero
SWEEPS_MAX: Final = 200  # bounds the time; only penalties near zero need about as many


@dataclass(frozen=True, slots=True)
class Point:
    """The optimum of a sketch under one penalty.

    non_zeros : weights that are not zero, the intercept not counted
    objective : log-likelihood of the sketch minus penalties, relative to that of all weights zero
    """

    gamma: float
    non_zeros: int
    objective: float


class Path:
    """Optima of one sketch. Solve for decreasing penalties: each solve starts from the last one."""

    def __init__(self, sketch: Sketch) -> None:
        self._sketch = sketch
        self._own = sketch.gamma != sketch.penalty
        self._outside_own = sketch.outside_gamma != sketch.penalty
        self._outside_omega = sketch.outside_gradient + sketch.outside_curvature * sketch.outside_beta
        self._at_zero = sketch.gradient + sketch.curvature * sketch.beta + sketch.cross @ sketch.beta
        self._problem = Quadratic(
            beta=np.zeros(len(sketch.beta)),
            gradient=self._at_zero.copy(),
            curvature=sketch.curvature,
            gamma=np.zeros(len(sketch.beta)),
            cross=sketch.cross,
            halt=np.zeros(1, np.int64),
        )
        self.largest_gamma = self._largest_gamma()

    def solve(self, gamma: float) -> Point:
        """Find the optimum under `gamma`."""
        self._solve_block(gamma)
        beta, gradient, penalties = self._problem.beta, self._problem.gradient, self._problem.gamma
        active = np.flatnonzero(beta)
        # The rise of a quadratic along a step is the step times the mean of the gradients at both ends.
        gain = 0.5 * beta[active] * (self._at_zero + gradient)[active]
        objective = float(np.sum(gain - penalties[active] * np.abs(beta[active])))
        inside = len(active) - int(self._sketch.intercept and beta[0] != 0.0)
        excess = np.abs(self._outside_omega) - np.where(self._outside_own, self._sketch.outside_gamma, gamma)
        moves = (excess > 0.0) & (self._sketch.outside_curvature > 0.0)
        objective += float(np.sum(0.5 * excess[moves] ** 2 / self._sketch.outside_curvature[moves]))
        return Point(gamma, inside + int(np.count_nonzero(moves)), objective)

    def grid(self, points: int, top: float | None, bottom: float | None) -> list[float]:
        """Return `points` penalties in equal ratios, decreasing; fewer if no weight can become non-zero.

        top, bottom : its ends. By default the smallest gamma at which every weight with the common penalty is zero, and FLOOR of
                      the current gamma
        """
        high = self.largest_gamma if top is None else top
        in_force = min(self._sketch.penalty, high)
        low = bottom if bottom is not None else FLOOR * in_force if in_force > 0.0 else FLOOR_WITHOUT_PENALTY * high
        if not 0.0 < low < high:
            return [high] if high > 0.0 else []
        ratio = (math.log(low) - math.log(high)) / (points - 1)  # low / high may be too small a number
        return [high, *(high * math.exp(ratio * i) for i in range(1, points - 1)), low]

    def _solve_block(self, gamma: float) -> None:
        self._problem.gamma[:] = np.where(self._own, self._sketch.gamma, gamma)
        slack = TOLERANCE * gamma if 0.0 < gamma < math.inf else ROUNDING * float(np.max(np.abs(self._at_zero), initial=0.0))
        with lent(self._problem.halt):
            shoot(self._problem, slack, SWEEPS_MAX)

    def _largest_gamma(self) -> float:
        """The smallest gamma at which only weights with individual penalties are non-zero. Leaves the block in that state."""
        self._solve_block(math.inf)
        inside = _largest(np.abs(self._problem.gradient), ~self._own & (self._sketch.curvature > 0.0))
        outside = _largest(np.abs(self._outside_omega), ~self._outside_own & (self._sketch.outside_curvature > 0.0))
        return max(inside, outside) * (1.0 + 1000 * ROUNDING)  # so that rounding leaves no weight non-zero


def regularisation_path(
    sketch: Sketch, points: int, top: float | None = None, bottom: float | None = None, also: Iterable[float] = ()
) -> list[Point]:
    """Return the optima over a grid of penalties, largest first, including the current penalty and `also`.

    points      : number of points of the grid, at least 2
    top, bottom : ends of the grid, see `Path.grid`; top > bottom > 0
    """
    path = Path(sketch)
    gammas = {*path.grid(points, top, bottom), sketch.penalty, *also}
    return [path.solve(gamma) for gamma in sorted(gammas, reverse=True)]


def _largest(sizes: F64, among: BOOL) -> float:
    return float(np.max(sizes, initial=0.0, where=among))
