"""Slow, obvious twin of `riata.maths.working_set`: the whole problem is solved, and H is symmetric from the start."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64, I64
from riata.maths.shooting import Quadratic
from tests.twins.shooting import shoot

TWINS_OF = ("maths/working_set",)


def pull(cross: F64, at: I64, step: F64, gradient: F64) -> None:
    """All gradients follow the moves of the weights at `at`."""
    upper = np.triu(cross[: len(gradient), : len(gradient)], 1)
    gradient -= (upper + upper.T)[:, at] @ step


def shoot_active(problem: Quadratic, slack: float, sweeps_max: int, mirrored: bool = True) -> tuple[int, float, bool]:
    """Solve the whole."""
    return *shoot(problem, slack, sweeps_max), mirrored
