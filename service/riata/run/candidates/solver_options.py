"""What a batch solver is asked for. Imports no solver, so that commands can show their options at once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from riata.base.errors import BadInput
from riata.lab.batch.named import AUTO, check_settings

TOLERANCE: Final = 1e-6
_NO_SETTINGS: Final = ("solver", "gammas", "bounds")


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """What a solver is asked for. Raises `BadInput` for options that contradict each other.

    gammas  : penalties; empty: that of the learner, GAMMA if it has none
    bounds  : of irls_lars, in place of penalties: the sizes of the weights may sum to so much
    at_once : P of shotgun; None: by an estimate
    machines, eta : k and step size of parallel_sgd
    rounds  : T of sllr_l1 and sllr_l2
    seed    : of a solver that draws random numbers; None: 0
    """

    solver: str = AUTO
    gammas: tuple[float, ...] = ()
    k: int | None = None
    tolerance: float = TOLERANCE
    memory_bytes_max: int | None = None
    passes_max: int | None = None

    bounds: tuple[float, ...] = ()
    at_once: int | None = None
    machines: int | None = None
    eta: float | None = None
    rounds: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.solver == "mp" and self.k is not None:
            raise BadInput("k is the size of the working set of rmmp; mp keeps the curvature of all features", "bad_option")
        check_settings(self.solver, [*self.settings, *(["bound"] if self.bounds else [])])
        if self.bounds and self.gammas:
            raise BadInput("a bound takes the place of gamma: give one of them", "bad_option")
        if not 0.0 < self.tolerance < 1.0:
            raise BadInput(f"tolerance: expected a number between 0 and 1, got {self.tolerance:g}", "bad_option")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the solver, those that are given."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _NO_SETTINGS}
        return {name: value for name, value in given.items() if value is not None}
