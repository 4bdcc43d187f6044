"""What a refit is asked for, as a JSON document."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, Lt

from riata.base.document import DocumentValue, read_document
from riata.base.errors import BadInput
from riata.wire.groups import Declared, read_groups
from riata.wire.solver_options import AUTO, LAPS, SOLVERS, TOLERANCE, SolverOptions

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


class Groups(dict[str, Any], DocumentValue):
    """A table of groups; `read_document` does not look into it."""

    def written(self) -> dict[str, Any]:
        """As of a `DocumentValue`."""
        return dict(self)

    @staticmethod
    def schema() -> dict[str, Any]:
        """As of a `DocumentValue`."""
        return {"type": "object"}


NotNegative = Annotated[float, ("minimum", 0)]
Several = Annotated[tuple[NotNegative, ...], ("minItems", 1), ("maxItems", SEVERAL_MAX), ("uniqueItems", True)]


@dataclass(frozen=True, slots=True)
class RefitRequest:
    """A refit."""

    solver: Annotated[str, ("enum", (AUTO, *SOLVERS, LAPS))] = AUTO
    gamma: Annotated[
        Literal["as_online"] | NotNegative | Several,
        "L1 penalty in units of the summed log-likelihood; as_online is that of the learner, 1 if it has "
        "none. Of several the older half of the hold-out chooses one",
    ] = AS_ONLINE
    k: Annotated[Annotated[int, Ge(1), Le(10**6)] | None, "most features in the working set of rmmp"] = None
    window: WindowAsked = field(default_factory=WindowAsked)
    hold_out: HoldOutAsked = field(default_factory=HoldOutAsked)
    promote: Promote = "never"
    memory_bytes_max: Annotated[
        int,
        Ge(2**20),
        Le(2**50),
        "memory of the process that solves, beside the program and the mapped segments; it cannot take more",
    ] = MEMORY_BYTES
    bound: Annotated[
        NotNegative | Several | None, "of irls_lars, in place of gamma: the sizes of all weights sum to at most this"
    ] = None
    at_once: Annotated[
        Annotated[int, Ge(1), Le(10**6)] | None, "of shotgun: weights that move at the same time; null: by an estimate"
    ] = None
    machines: Annotated[
        Annotated[int, Ge(1), Le(4096)] | None, "of parallel_sgd: machines that learn every k-th row each; null: 8"
    ] = None
    eta: Annotated[Annotated[float, Gt(0), Le(1e6)] | None, "of parallel_sgd: step size; null: 1"] = None
    rounds: Annotated[Annotated[int, Ge(1), Le(10**9)] | None, "of sllr_l1 and sllr_l2; null: 10000"] = None
    passes_max: Annotated[Annotated[int, Ge(1), Le(10**6)] | None, "most passes over the rows; null: by the solver"] = None
    seed: Annotated[Annotated[int, Ge(0), Le(2**63 - 1)] | None, "of solvers that draw random numbers; null: 0"] = None
    tolerance: Annotated[float, Gt(0), Lt(1)] = TOLERANCE
    groups: Annotated[
        Groups | None, 'of laps: features by name or pattern: {"temperature": "t{00..59}", "country": "country=*"}'
    ] = None
    run_k: Annotated[
        NotNegative | Several | None,
        "of laps: how alike neighbours in a run are, 0 to below 1; null: five values, of which the score chooses",
    ] = None

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
