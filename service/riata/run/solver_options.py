"""What a batch solver is asked for. Imports no solver, so that commands can show their options at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from riata.base.errors import BadInput, nearest

SOLVERS: Final = ("auto", "mp", "rmmp")
TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """What a solver is asked for. Raises `BadInput` for options that contradict each other.

    gammas : penalties; empty: that of the learner, GAMMA if it has none
    """

    solver: str = "auto"
    gammas: tuple[float, ...] = ()
    k: int | None = None
    tolerance: float = TOLERANCE
    memory_bytes_max: int | None = None

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise BadInput(f"solver: {self.solver[:64]!r} is not a choice; {nearest(self.solver, SOLVERS)}", "bad_option")
        if self.k is not None and self.solver == "mp":
            raise BadInput("k is the size of the working set of rmmp; mp keeps the curvature of all features", "bad_option")
        if not 0.0 < self.tolerance < 1.0:
            raise BadInput(f"tolerance: expected a number between 0 and 1, got {self.tolerance:g}", "bad_option")
