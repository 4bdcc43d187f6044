"""The options of commands that find a batch optimum: `riata fit --batch` and `riata refit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from riata.base.errors import BadInput, nearest

SOLVERS: Final = ("auto", "mp", "rmmp")
PANEL: Final = "Options of the solver"

SolverOption = Annotated[
    str, typer.Option(help="auto, mp (curvature of all features) or rmmp (of a working set).", rich_help_panel=PANEL)
]
GammaOption = Annotated[
    list[float] | None,
    typer.Option(
        min=0.0,
        help="Penalty of each weight, in units of the summed log-likelihood. Repeatable, up to 8: they share the passes. "
        "[default: gamma of the learner, 1 if it has none]",
        rich_help_panel=PANEL,
    ),
]
KOption = Annotated[
    int | None, typer.Option(min=1, help="rmmp: most features in the working set. [default: 3000]", rich_help_panel=PANEL)
]
ToleranceOption = Annotated[
    float, typer.Option(help="Stop at this relative duality gap, or violation of a condition.", rich_help_panel=PANEL)
]
MemoryOption = Annotated[
    int | None, typer.Option(min=1, help="Refuse to begin if the solver needs more memory.", rich_help_panel=PANEL)
]


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """The options, as `--help` describes them. Raises `BadInput` for options that contradict each other."""

    solver: str
    gammas: tuple[float, ...]
    k: int | None
    tolerance: float
    memory_bytes_max: int | None
    out: bool

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise BadInput(f"--solver: {self.solver[:64]!r} is not a choice; {nearest(self.solver, SOLVERS)}", "bad_option")
        if self.k is not None and self.solver == "mp":
            raise BadInput("--k is the size of the working set of rmmp; mp keeps the curvature of all features", "bad_option")
        if not 0.0 < self.tolerance < 1.0:
            raise BadInput(f"--tolerance: expected a number between 0 and 1, got {self.tolerance:g}", "bad_option")
        if self.out and len(self.gammas) > 1:
            raise BadInput("--out takes one model: give one --gamma", "bad_option")
