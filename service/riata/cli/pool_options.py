"""Where the passes of a batch solver run: options of `riata fit --batch` and `riata refit`. None of them changes the result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput

if TYPE_CHECKING:
    from riata.lab.batch.pool import Pool
    from riata.lab.batch.segment_data import SegmentData

PANEL: Final = "Options of the pool"

ProcessesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=64,
        help="--batch: child processes that pass over the rows, in place of threads.",
        rich_help_panel=PANEL,
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        help="--batch: Dask scheduler whose workers do each pass, tls://HOST:PORT or tcp://127.0.0.1:PORT. "
        "They have to see TMPDIR. Needs the extra dask.",
        rich_help_panel=PANEL,
    ),
]
PatienceOption = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        metavar="SECONDS",
        help="--processes, --dask: how long a part may take before another worker does it; doubles with each of four tries. "
        "Default: 300.",
        rich_help_panel=PANEL,
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
