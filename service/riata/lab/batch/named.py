"""The solvers by name: what each is, and which settings it takes. Imports no solver, so that `--help` is shown at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from riata.base.errors import BadInput, nearest

AUTO: Final = "auto"
LAPS: Final = "laps"  # takes groups of features, which the others do not have; `run_search.RunLasso`
COMMON: Final = frozenset({"tolerance", "passes_max", "memory_bytes_max"})


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
