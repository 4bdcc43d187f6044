"""Which solver suits a problem, and why; and the solvers by name, which nothing else names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol

from riata.lab.batch.irls_lars import IrlsLars
from riata.lab.batch.parallel_sgd import ParallelSgd
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Problem, Solution, Watch, watch_nothing
from riata.lab.batch.rmmp import TOLERANCE, K, Mp, Rmmp, memory_bytes
from riata.lab.batch.shotgun import Shotgun
from riata.lab.batch.sublinear import NU, Sublinear
from riata.wire.solver_options import AUTO

SMALL: Final = 256  # features up to which a working set saves nothing: it would have room for all of them
K_MIN: Final = 16


class Solver(Protocol):
    """Finds the optimum of a problem."""

    def solve(self, problem: Problem, pool: Pool, watch: Watch = watch_nothing) -> Solution:
        """See `Rmmp.solve`."""
        ...


CLASSES: Final[Mapping[str, Callable[..., Solver]]] = MappingProxyType(
    {
        "mp": Mp,
        "rmmp": Rmmp,
        "irls_lars": IrlsLars,
        "parallel_sgd": ParallelSgd,
        "shotgun": Shotgun,
        "sllr_l1": partial(Sublinear, nu=0.0),
        "sllr_l2": partial(Sublinear, nu=NU),
    }
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A solver, its name, and a sentence that says why."""

    name: str
    solver: Solver
    reason: str


def auto(problem: Problem, pool: Pool, tolerance: float = TOLERANCE, memory_bytes_max: int | None = None) -> Choice:
    """MP for few features, otherwise RMMP with the largest working set that fits, up to K."""
    d = problem.data.features
    if d <= SMALL and (memory_bytes_max is None or memory_bytes(problem, d, pool.workers) <= memory_bytes_max):
        return Choice(
            "mp", Mp(tolerance, memory_bytes_max=memory_bytes_max), f"mp: a working set of all {d} features is affordable"
        )
    k = min(K, d)
    while memory_bytes_max is not None and k > K_MIN and memory_bytes(problem, k, pool.workers) > memory_bytes_max:
        k = max(K_MIN, k * 9 // 10)
    rmmp = Rmmp(k, tolerance, memory_bytes_max=memory_bytes_max)
    return Choice(
        "rmmp",
        rmmp,
        f"rmmp: {d} features; the columns of a working set are held if they fit, otherwise the curvature of up to {k}",
    )


def choose(name: str, problem: Problem, pool: Pool, **settings: Any) -> Choice:
    """The solver of a name with some of its settings, which `named.check_settings` has accepted; "auto" chooses."""
    if name == AUTO and settings.keys() <= {"tolerance", "memory_bytes_max"}:
        return auto(problem, pool, **settings)
    if name == AUTO:
        name = "rmmp" if "k" in settings else auto(problem, pool, memory_bytes_max=settings.get("memory_bytes_max")).name
    return Choice(name, CLASSES[name](**settings), f"{name}: as asked")
