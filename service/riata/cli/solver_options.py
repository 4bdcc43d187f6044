"""The options of commands that find a batch optimum: `riata fit --batch` and `riata refit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from riata.base.errors import BadInput
from riata.wire.solver_options import SolverOptions, described

if TYPE_CHECKING:
    from riata.lab.batch.pool import Pool
    from riata.lab.batch.segment_data import SegmentData

PANEL: Final = "Options of the solver"
SolverOption = Annotated[str, typer.Option(help=f"{described()}.", rich_help_panel=PANEL)]
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
BoundOption = Annotated[
    list[float] | None,
    typer.Option(
        min=0.0,
        help="irls_lars: the sizes of all weights sum to at most this. In place of --gamma.",
        rich_help_panel=PANEL,
    ),
]
AtOnceOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="shotgun: weights that move at the same time. [default: by an estimate of rho]", rich_help_panel=PANEL
    ),
]
MachinesOption = Annotated[
    int | None,
    typer.Option(min=1, help="parallel_sgd: machines that learn every k-th row each. [default: 8]", rich_help_panel=PANEL),
]
EtaOption = Annotated[float | None, typer.Option(min=0.0, help="parallel_sgd: step size. [default: 1]", rich_help_panel=PANEL)]
RoundsOption = Annotated[
    int | None, typer.Option(min=1, help="sllr_l1, sllr_l2: rounds. [default: 10000]", rich_help_panel=PANEL)
]
PassesOption = Annotated[
    int | None, typer.Option(min=1, help="Most passes over the rows. [default: by the solver]", rich_help_panel=PANEL)
]
SeedOption = Annotated[
    int | None, typer.Option(min=0, help="Seed of solvers that draw random numbers. [default: 0]", rich_help_panel=PANEL)
]
GroupsOption = Annotated[Path | None, typer.Option("--groups", help="Groups by name, in TOML or JSON.")]
GroupOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME=PATTERN", help="A group, such as sensor=t{00..59}. Repeatable.")
]
SvgOption = Annotated[Path | None, typer.Option(help="Draw groups, runs and weights to this file.")]


def solver_options(
    solver: str, gammas: list[float] | None, tolerance: float, bounds: list[float] | None, **settings: Any
) -> SolverOptions:
    """Read the options. Raises `BadInput` for options that contradict each other."""
    return SolverOptions(solver, tuple(gammas or ()), tolerance=tolerance, bounds=tuple(bounds or ()), **settings)


def require_one_model(options: SolverOptions, out: Path | None) -> None:
    """Raise `BadInput` if several penalties are asked for and one model is to be written."""
    if out is not None and (len(options.gammas) > 1 or len(options.bounds) > 1):
        raise BadInput("--out takes one model: give one --gamma or --bound", "bad_option")


# Groups of features as commands take them: a file, and NAME=PATTERN. Imports no solver, so that `--help` is shown at once.


def group_tables(file: Path | None, given: Iterable[str]) -> dict[str, Any]:
    """Return the groups of a file in TOML or JSON, and those given as NAME=PATTERN. Raises `BadInput` (code `bad_groups`)."""
    from riata.cli.fit_setup import read_document

    tables: dict[str, Any] = {}
    if file is not None:
        document = read_document(file)
        tables |= document.get("groups", document)
    for one in given:
        name, is_given, pattern = one.partition("=")
        if not is_given or not name or not pattern:
            raise BadInput(f"--group {one}: expected NAME=PATTERN, such as sensor=t{{00..59}}", "bad_groups")
        if name in tables:
            raise BadInput(f"--group {one}: there are two groups {name!r}", "bad_groups")
        tables[name] = pattern
    return tables


# Where the passes of a batch solver run: options of `riata fit --batch` and `riata refit`. None of them changes the result.


POOL_PANEL: Final = "Options of the pool"

ProcessesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=64,
        help="--batch: child processes that pass over the rows, in place of threads.",
        rich_help_panel=POOL_PANEL,
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        help="--batch: Dask scheduler whose workers do each pass, tls://HOST:PORT or tcp://127.0.0.1:PORT. "
        "They have to see TMPDIR. Needs the extra dask.",
        rich_help_panel=POOL_PANEL,
    ),
]
PatienceOption = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        metavar="SECONDS",
        help="--processes, --dask: how long a part may take before another worker does it; doubles with each of four tries. "
        "Default: 300.",
        rich_help_panel=POOL_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Where passes run: in threads, unless there are `processes` or the address of a Dask scheduler.

    patience_s : of the pools that have it; None: their default
    """

    threads: int
    processes: int | None = None
    dask: str | None = None
    patience_s: float | None = None

    def __post_init__(self) -> None:
        if self.processes is not None and self.dask is not None:
            raise BadInput("--processes and --dask: give one of them", "bad_option")
        if self.patience_s is not None and self.processes is None and self.dask is None:
            raise BadInput("--patience-s is an option of --processes and of --dask", "bad_option")


@contextmanager
def pool_of(options: PoolOptions, data: SegmentData) -> Iterator[Pool]:
    """Make the pool for some data. Nothing is left of it afterwards."""
    from riata.lab.batch.pool import Threads

    patience = {} if options.patience_s is None else {"patience_s": options.patience_s}
    if options.dask is not None:
        try:
            from riata.lab.pools.dask_pool import DaskPool
        except ModuleNotFoundError as error:
            raise BadInput(f"--dask needs the package {error.name}: pip install 'riata[dask]'", "not_installed") from None
        with TemporaryDirectory(prefix="riata-dask-") as folder, DaskPool(data, options.dask, Path(folder), **patience) as pool:
            yield pool
    elif options.processes is not None:
        from riata.lab.pools.processes import Processes

        with Processes(data, options.processes, **patience) as pool:
            yield pool
    else:
        with Threads(options.threads) as threads:
            yield threads
