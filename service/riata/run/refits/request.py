"""What a refit is asked for, as a JSON document."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le

from riata.base.document import read_document
from riata.base.errors import BadInput
from riata.run.solver_options import SolverOptions

PENALTIES_MAX: Final = 8
MEMORY_BYTES: Final = 2 * 2**30
AS_ONLINE: Final = "as_online"
Promote = Literal["never", "if_better"]


@dataclass(frozen=True, slots=True)
class WindowAsked:
    """The newest events to take; all that are kept if None."""

    events: Annotated[int, Ge(1), Le(10**12)] | None = None


@dataclass(frozen=True, slots=True)
class HoldOutAsked:
    """The share of the newest events that judges; None: the gate's default."""

    share: Annotated[float, Gt(0), Le(0.5)] | None = None


@dataclass(frozen=True, slots=True)
class RefitRequest:
    """A refit. `gamma`: "as_online" is the penalty of the learner, or 1 if it has none.

    memory_bytes_max : memory of the process that solves, beside the program and the mapped segments
    """

    solver: str = "auto"
    gamma: Literal["as_online"] | float | tuple[float, ...] = AS_ONLINE
    k: Annotated[int, Ge(1), Le(10**6)] | None = None
    window: WindowAsked = field(default_factory=WindowAsked)
    hold_out: HoldOutAsked = field(default_factory=HoldOutAsked)
    promote: Promote = "never"
    memory_bytes_max: Annotated[int, Ge(2**20), Le(2**50)] = MEMORY_BYTES

    def __post_init__(self) -> None:
        gammas = self.gammas
        if isinstance(self.gamma, tuple) and not 1 <= len(set(gammas)) <= PENALTIES_MAX:
            raise BadInput(f"gamma: expected 1 to {PENALTIES_MAX} different penalties, got {len(set(gammas))}", "out_of_range")
        if not all(math.isfinite(gamma) and gamma >= 0.0 for gamma in gammas):
            raise BadInput("gamma: expected penalties of at least 0", "out_of_range")
        self.options()

    @property
    def gammas(self) -> tuple[float, ...]:
        """The penalties; empty for that of the learner."""
        if isinstance(self.gamma, str):
            return ()
        return tuple(sorted(set(self.gamma), reverse=True)) if isinstance(self.gamma, tuple) else (self.gamma,)

    def options(self, memory_bytes_max: int | None = None) -> SolverOptions:
        """Return what the solver is asked for. Raises `BadInput` if it contradicts itself."""
        return SolverOptions(self.solver, self.gammas, self.k, memory_bytes_max=memory_bytes_max)


def read_request(document: dict[str, Any]) -> RefitRequest:
    """Read the body of a request. Raises `BadInput`, which names the key."""
    return read_document(RefitRequest, document)
