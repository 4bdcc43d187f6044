"""The options of commands that find a batch optimum: `riata fit --batch` and `riata refit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from riata.base.errors import BadInput
from riata.base.frozen_dataclass import frozen_dataclass
from riata.wire.solver_options import SolverOptions, described

if TYPE_CHECKING:
    from riata.lab.batch.pool import Pool
    from riata.lab.batch.segment_data import SegmentData

PANEL: Final = "Options of the solver"
ToleranceOption = Annotated[
    float, typer.Option(help="Stop at this relative duality gap, or violation of a condition.", rich_help_panel=PANEL)
]
MemoryOption = Annotated[
    int | None, typer.Option(min=1, help="Refuse to begin if the solver needs more memory.", rich_help_panel=PANEL)
]
SeedOption = Annotated[
    int | None, typer.Option(min=0, help="Seed of solvers that draw random numbers. [default: 0]", rich_help_panel=PANEL)
]


def _option(help_: str, least: float = 1) -> Any:
    return typer.Option(min=least, help=help_, rich_help_panel=PANEL)


@frozen_dataclass(frozen=True, slots=True)
class SolverGiven:
    """The solver, and what it is asked for."""

    solver: Annotated[str, typer.Option(help=f"{described()}.", rich_help_panel=PANEL)] = "auto"
    gamma: Annotated[
        list[float] | None,
        _option(
            "Penalty of each weight, in units of the summed log-likelihood. Repeatable, up to 8: they share the passes. "
            "[default: gamma of the learner, 1 if it has none]",
            0.0,
        ),
    ] = None
    k: Annotated[int | None, _option("rmmp: most features in the working set. [default: 3000]")] = None
    tolerance: ToleranceOption = 1e-6
    memory_bytes_max: MemoryOption = None
    bound: Annotated[
        list[float] | None, _option("irls_lars: the sizes of all weights sum to at most this. In place of --gamma.", 0.0)
    ] = None
    at_once: Annotated[int | None, _option("shotgun: weights that move at the same time. [default: by an estimate of rho]")] = (
        None
    )
    machines: Annotated[int | None, _option("parallel_sgd: machines that learn every k-th row each. [default: 8]")] = None
    eta: Annotated[float | None, _option("parallel_sgd: step size. [default: 1]", 0.0)] = None
    rounds: Annotated[int | None, _option("sllr_l1, sllr_l2: rounds. [default: 10000]")] = None
    passes_max: Annotated[int | None, _option("Most passes over the rows. [default: by the solver]")] = None
    seed: SeedOption = None

    def options(self) -> SolverOptions:
        """Return the options. Raises `BadInput` if they contradict each other."""
        settings = {one.name: getattr(self, one.name) for one in fields(SolverGiven) if one.name not in ("gamma", "bound")}
        return SolverOptions(gammas=tuple(self.gamma or ()), bounds=tuple(self.bound or ()), **settings)


GroupsOption = Annotated[Path | None, typer.Option("--groups", help="Groups by name, in TOML or JSON.")]
GroupOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME=PATTERN", help="A group, such as sensor=t{00..59}. Repeatable.")
]
SvgOption = Annotated[Path | None, typer.Option(help="Draw groups, runs and weights to this file.")]


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


@frozen_dataclass(frozen=True, slots=True)
class PoolOptions:
    """Where passes run: in threads, unless there are `processes` or the address of a Dask scheduler. `patience_s`: of the pools
    that have it; None: their default."""

    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="--batch: child processes that pass over the rows, in place of threads.",
            rich_help_panel=POOL_PANEL,
        ),
    ] = None
    dask: Annotated[
        str | None,
        typer.Option(
            help="--batch: Dask scheduler whose workers do each pass, tls://HOST:PORT or tcp://127.0.0.1:PORT. "
            "They have to see TMPDIR. Needs the extra dask.",
            rich_help_panel=POOL_PANEL,
        ),
    ] = None
    patience_s: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="--processes, --dask: how long a part may take before another worker does it; doubles with each of four tries. "
            "Default: 300.",
            rich_help_panel=POOL_PANEL,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.processes is not None and self.dask is not None:
            raise BadInput("--processes and --dask: give one of them", "bad_option")
        if self.patience_s is not None and self.processes is None and self.dask is None:
            raise BadInput("--patience-s is an option of --processes and of --dask", "bad_option")


@contextmanager
def pool_of(options: PoolOptions, threads: int, data: SegmentData) -> Iterator[Pool]:
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
        with Threads(threads) as pool:
            yield pool
