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
    from riata.batch.pool import Pool
    from riata.batch.segment_data import SegmentData

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
PassCommandOption = Annotated[
    str | None,
    typer.Option(
        help="--batch: command that does each pass, by riata part on other machines. They have to see TMPDIR.",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Where passes run: in threads, unless there are `processes`, or a `command` as in `riata.scale.commands`."""

    threads: int
    processes: int | None = None
    command: str | None = None

    def __post_init__(self) -> None:
        if self.processes and self.command is not None:
            raise BadInput("--processes and --pass-command: give one of them", "bad_option")


@contextmanager
def pool_of(options: PoolOptions, data: SegmentData) -> Iterator[Pool]:
    """Make the pool for some data. Nothing is left of it afterwards."""
    from riata.batch.pool import Threads

    if options.command is not None:
        from riata.scale.commands import Commands

        with TemporaryDirectory(prefix="riata-pass-") as folder:
            yield Commands(data, options.command, Path(folder))
    elif options.processes is not None:
        from riata.scale.processes import Processes

        with Processes(data, options.processes) as pool:
            yield pool
    else:
        with Threads(options.threads) as threads:
            yield threads
