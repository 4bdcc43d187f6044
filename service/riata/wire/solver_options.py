"""The batch solvers by name, and what one is asked for. Imports no solver: a service and `--help` do without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from riata.base.errors import BadInput, nearest
from riata.base.frozen_dataclass import frozen_dataclass

AUTO: Final = "auto"
LAPS: Final = "laps"  # takes groups of features, which the others do not have; `run_search.RunLasso`
TOLERANCE: Final = 1e-6
COMMON: Final = frozenset({"tolerance", "passes_max", "memory_bytes_max"})
_NO_SETTINGS: Final = ("solver", "gammas", "bounds")


class Named(NamedTuple):
    """A solver.

    about    : what it is, in a few words
    settings : fields of its class that users may set
    """

    about: str
    settings: frozenset[str]


SOLVERS: Final[Mapping[str, Named]] = MappingProxyType(
    {
        "mp": Named("curvature of all features", COMMON),
        "rmmp": Named("curvature of a working set", COMMON | {"k"}),
        "irls_lars": Named("path of the penalty on a quadratic, or a bound on the sum of |b|", COMMON | {"bound"}),
        "parallel_sgd": Named("k machines that learn by themselves, averaged", COMMON | {"machines", "eta", "seed"}),
        "sllr_l1": Named("one row and one column a round, for study", COMMON - {"passes_max"} | {"rounds", "seed"}),
        "sllr_l2": Named("the same with slack", COMMON - {"passes_max"} | {"rounds", "seed"}),
        "shotgun": Named("P weights at the same time, rows in memory", COMMON | {"at_once", "seed"}),
    }
)


def check_settings(solver: str, given: Iterable[str]) -> None:
    """Raise `BadInput` if there is no such solver, or if it does not take a setting. `auto` takes those that all take, and k."""
    if solver != AUTO and solver not in SOLVERS:
        raise BadInput(f"solver: {solver[:64]!r} is not a choice; {nearest(solver, [AUTO, *SOLVERS])}", "bad_option")
    takes = SOLVERS["rmmp"].settings if solver == AUTO else SOLVERS[solver].settings
    for setting in given:
        if setting not in takes:
            takers = ", ".join(name for name, one in SOLVERS.items() if setting in one.settings)
            raise BadInput(f"{setting} is a setting of {takers}; {solver} has none of this name", "bad_option")


def described() -> str:
    """The names with what they are, for `--help`."""
    return ", ".join([AUTO, *(f"{name} ({one.about})" for name, one in SOLVERS.items())])


@frozen_dataclass(frozen=True, slots=True)
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
