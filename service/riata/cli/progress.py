"""Progress bars of the commands that process rows or events, on stderr, shown only if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text


def speed_column(unit: str) -> ProgressColumn:
    """Return a column with the speed in units per second; empty until it is known."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class SpeedColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} {unit}/s")

    return SpeedColumn()


@contextmanager
def _shown(columns: Callable[[Any], Sequence[Any]], about: str = "", **task: Any) -> Iterator[Callable[..., None]]:
    """Show the columns that are made of the module `rich.progress`; yields a function that changes what they show of the task."""
    if not sys.stderr.isatty():
        yield lambda **_changes: None
        return
    from rich import progress
    from rich.console import Console

    with progress.Progress(*columns(progress), console=Console(stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task(about, **task))


@contextmanager
def row_progress(verb: str) -> Iterator[Callable[[int], None]]:
    """Show how many rows were processed and how fast; yields a function that advances the count by a number of rows."""
    text = "{task.completed:,.0f} rows " + verb
    with _shown(
        lambda rich: (rich.SpinnerColumn(), rich.TextColumn(text), speed_column("rows"), rich.TimeElapsedColumn()), total=None
    ) as show:
        yield lambda rows: show(advance=rows)


@contextmanager
def seq_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress through a log of known length; yields a function to call with (event reached, last event)."""
    with _shown(lambda rich: (rich.TextColumn(name), rich.BarColumn(), speed_column("events")), total=None) as show:
        yield lambda done, of: show(completed=done, total=of)


@contextmanager
def share_progress(name: str) -> Iterator[Callable[[float], None]]:
    """Show the progress of work on a service; yields a function to call with the share that is done, from 0 to 1."""
    with _shown(lambda rich: (rich.TextColumn(name), rich.BarColumn(), rich.TimeRemainingColumn()), total=1.0) as show:
        yield lambda share: show(completed=share)


@contextmanager
def fit_progress(total: int | None) -> Iterator[Callable[[int, int, float], None]]:
    """Show how much of `total` bytes is read; yields a function to call with (bytes read, rows read, progressive loss)."""
    text = "{task.fields[rows]:,} rows, loss {task.fields[loss]:.4f}"
    with _shown(
        lambda rich: (rich.BarColumn(), rich.TextColumn(text), speed_column("bytes"), rich.TimeRemainingColumn()),
        total=total,
        rows=0,
        loss=float("nan"),
    ) as show:
        yield lambda position, rows, loss: show(completed=position, rows=rows, loss=loss)


@contextmanager
def rows_so_far(verb: str) -> Iterator[Callable[[int, int], None]]:
    """Like `row_progress`; yields a function that takes (position in the file, rows so far)."""
    with row_progress(verb) as advance:
        before = 0

        def on_block(_position: int, rows: int) -> None:
            nonlocal before
            advance(rows - before)
            before = rows

        yield on_block


@contextmanager
def pass_progress() -> Iterator[Callable[[str], None]]:
    """Show the last pass of a solver; yields a function that takes a sentence about it."""
    with _shown(
        lambda rich: (rich.SpinnerColumn(), rich.TextColumn("{task.description}"), rich.TimeElapsedColumn()),
        "first pass",
        total=None,
    ) as show:
        yield lambda sentence: show(description=sentence)
