"""Rows that unpenalised weights separate: the likelihood then rises for ever, and there is no optimum.

Along such a direction every Newton step has about the same length, while elsewhere steps shrink quadratically. So after some
passes the step itself is the direction. It is proof if it moves no row away from its label (Albert & Anderson 1984).
"""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from riata.base.arrays import F64, I64, Arrays
from riata.base.errors import Conflict
from riata.lab.batch.expansion import Expansion
from riata.lab.batch.jobs import Request
from riata.lab.batch.problem import Problem

PASSES_BEFORE: Final = 8  # a problem with an optimum rarely makes long steps after so many
STEP_MIN: Final = 0.1
SLACK: Final = 1e-6  # of the largest move: what is left of directions in which the steps shrink
NAMED: Final = 5


def separation_request(problem: Problem, before: Expansion, at: Expansion, passes: int) -> Request | None:
    """A pass that shows whether the last step separates rows; None if the step is short or every weight has a penalty."""
    free = problem.penalties == 0.0
    if passes < PASSES_BEFORE or not np.any(free):
        return None
    direction = np.where(free, at.beta - before.beta, 0.0)
    intercept = at.intercept - before.intercept if problem.gamma_intercept == 0.0 else 0.0
    largest = float(np.max(np.abs(direction), initial=0.0))
    if largest < STEP_MIN:
        return None
    direction[np.abs(direction) < SLACK * largest] = 0.0
    return "sides", {"beta": direction, "intercept": np.array([intercept]), "slack": np.array([SLACK * largest])}


def refuse_separable(problem: Problem, asked: Request, found: Arrays) -> None:
    """Raise `Conflict` if such a pass shows that there is no optimum."""
    away, toward = cast(I64, found["sides"]).tolist()
    if away == 0 and toward > 0:
        direction = cast(F64, asked[1]["beta"])
        ranks = np.argsort(-np.abs(direction), kind="stable")[:NAMED]
        slots = ", ".join(str(problem.data.slots[rank]) for rank in ranks if direction[rank])
        raise Conflict(
            f"there is no optimum: weights without a penalty separate {toward} rows by label and can grow for ever, those of the "
            f"slots {slots} fastest; give them a gamma above 0",
            "no_optimum",
        )
