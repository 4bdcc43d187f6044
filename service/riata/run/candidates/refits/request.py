"""What a refit is asked for, as a JSON document."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, Lt

from riata.base.document import read_document
from riata.base.errors import BadInput
from riata.lab.batch.groups import Declared, read_groups
from riata.lab.batch.named import LAPS
from riata.run.candidates.solver_options import TOLERANCE, SolverOptions

SEVERAL_MAX: Final = 8  # penalties, bounds or k that one refit may have
OF_LAPS: Final = ("groups", "run_k")
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


class Groups(dict[str, Any]):
    """A table of groups; `read_document` passes a value of its own class on, and does not look into it."""


@dataclass(frozen=True, slots=True)
class RefitRequest:
    """A refit. `gamma`: "as_online" is the penalty of the learner, or 1 if it has none.

    bound, at_once, machines, eta, rounds, passes_max, seed, tolerance : see `SolverOptions`
    groups           : of solver laps, as `read_groups` reads them
    run_k            : of solver laps: how alike the weights of neighbours in a run are; several: the score chooses
    memory_bytes_max : memory of the process that solves, beside the program and the mapped segments
    """

    solver: str = "auto"
    gamma: Literal["as_online"] | float | tuple[float, ...] = AS_ONLINE
    k: Annotated[int, Ge(1), Le(10**6)] | None = None
    window: WindowAsked = field(default_factory=WindowAsked)
    hold_out: HoldOutAsked = field(default_factory=HoldOutAsked)
    promote: Promote = "never"
    memory_bytes_max: Annotated[int, Ge(2**20), Le(2**50)] = MEMORY_BYTES
    bound: float | tuple[float, ...] | None = None
    at_once: Annotated[int, Ge(1), Le(10**6)] | None = None
    machines: Annotated[int, Ge(1), Le(4096)] | None = None
    eta: Annotated[float, Gt(0), Le(1e6)] | None = None
    rounds: Annotated[int, Ge(1), Le(10**9)] | None = None
    passes_max: Annotated[int, Ge(1), Le(10**6)] | None = None
    seed: Annotated[int, Ge(0), Le(2**63 - 1)] | None = None
    tolerance: Annotated[float, Gt(0), Lt(1)] = TOLERANCE
    groups: Groups | None = None
    run_k: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, given in (("gamma", self.gammas), ("bound", self.bounds), ("run_k", self.run_ks)):
            if isinstance(getattr(self, name), tuple) and not 1 <= len(set(given)) <= SEVERAL_MAX:
                raise BadInput(f"{name}: expected 1 to {SEVERAL_MAX} different numbers, got {len(set(given))}", "out_of_range")
            if not all(math.isfinite(one) and one >= 0.0 for one in given):
                raise BadInput(f"{name}: expected numbers of at least 0", "out_of_range")
        if self.solver == LAPS:
            self._check_laps()
            return
        for name in OF_LAPS:
            if getattr(self, name) is not None:
                raise BadInput(f"{name} is a setting of {LAPS}; {self.solver[:64]} has none of this name", "bad_option")
        self.options()

    def _check_laps(self) -> None:
        for name in ("k", "bound", "at_once", "machines", "eta", "rounds", "passes_max", "seed"):
            if getattr(self, name) is not None:
                raise BadInput(f"{name} is no setting of {LAPS}; those are gamma, {', '.join(OF_LAPS)}, tolerance", "bad_option")
        self.declared()
        if 0.0 in self.gammas:
            raise BadInput("gamma: groups need penalties above 0", "out_of_range")
        if not all(one < 1.0 for one in self.run_ks):
            raise BadInput("run_k: expected numbers from 0 to below 1", "out_of_range")

    @property
    def gammas(self) -> tuple[float, ...]:
        """The penalties; empty for that of the learner."""
        return () if isinstance(self.gamma, str) else _several(self.gamma)

    @property
    def bounds(self) -> tuple[float, ...]:
        """The bounds, in place of penalties; empty if there are none."""
        return _several(self.bound)

    @property
    def run_ks(self) -> tuple[float, ...]:
        """The values of k of solver laps; empty for those of `run_search`."""
        return _several(self.run_k)

    def declared(self) -> list[Declared]:
        """Return the groups; empty but for solver laps. Raises `BadInput` that names the group."""
        return read_groups({} if self.groups is None else self.groups) if self.solver == LAPS else []

    def options(self, memory_bytes_max: int | None = None) -> SolverOptions:
        """Return what a solver other than laps is asked for. Raises `BadInput` if it contradicts itself."""
        return SolverOptions(
            self.solver, self.gammas, self.k, self.tolerance, memory_bytes_max, self.passes_max, self.bounds, self.at_once,
            self.machines, self.eta, self.rounds, self.seed,
        )  # fmt: skip


def _several(given: float | tuple[float, ...] | None) -> tuple[float, ...]:
    """Return one number or several as a tuple, each once, the largest first."""
    return () if given is None else tuple(sorted(set(given), reverse=True)) if isinstance(given, tuple) else (given,)


def read_request(document: dict[str, Any]) -> RefitRequest:
    """Read the body of a request. Raises `BadInput`, which names the key."""
    groups = document.get("groups")
    if groups is not None and not isinstance(groups, dict):
        raise BadInput(f"groups: expected an object with a name and features for each, got {type(groups).__name__}", "wrong_type")
    return read_document(RefitRequest, {**document, **({} if groups is None else {"groups": Groups(groups)})})
