"""MP: Newton's method with an L1 penalty on all features at once (Balakrishnan & Madigan 2008, section 5).

It is RMMP whose working set is everything, from the first pass on. No weight is ever outside, so it takes the fewest passes.
Memory is that of the columns, or where they do not fit, the square of the number of features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from riata.base.errors import TooLarge
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Problem
from riata.lab.batch.rmmp import INNER, PASSES_MAX, TOLERANCE, Rmmp
from riata.lab.batch.solution import Solution, Watch, watch_nothing

FEATURES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Mp:
    """The solver; see `Rmmp` for the fields."""

    tolerance: float = TOLERANCE
    passes_max: int = PASSES_MAX
    memory_bytes_max: int | None = None
    inner: float = INNER

    def solve(self, problem: Problem, pool: Pool, watch: Watch = watch_nothing) -> Solution:
        """Find the optimum. Raises `Conflict` if there is none, `TooLarge` if there are too many features or memory is short."""
        return self.as_rmmp(problem.data.features).solve(problem, pool, watch)

    def as_rmmp(self, features: int) -> Rmmp:
        """The same for so many features. Raises `TooLarge` if they are too many."""
        if features > FEATURES_MAX:
            raise TooLarge(f"mp: {features} features, and at most {FEATURES_MAX} are possible; use rmmp", "too_many_features")
        return Rmmp(features, self.tolerance, self.passes_max, self.memory_bytes_max, self.inner, whole=True)
