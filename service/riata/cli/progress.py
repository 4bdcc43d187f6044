"""Progress bars of the commands that process rows or events, on stderr, shown only if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class SpeedColumn(ProgressColumn):
    """A column with the speed in units per second; empty until it is known."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Return the speed of `task` as text."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self._unit}/s")


@contextmanager
def row_progress(verb: str) -> Iterator[Callable[[int], None]]:
    """Show how many rows were processed and how fast; yields a function that advances the count by a number of rows."""
    console = Console(stderr=True)
    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} rows " + verb),
        SpeedColumn("rows"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with shown:
        task = shown.add_task(verb, total=None)
        yield lambda rows: shown.advance(task, rows)


@contextmanager
def seq_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress through a log of known length; yields a function to call with (event reached, last event)."""
    console = Console(stderr=True)
    shown = Progress(
        TextColumn(name), BarColumn(), SpeedColumn("events"), console=console, transient=True, disable=not console.is_terminal
    )
    with shown:
        task = shown.add_task(name, total=None)
        yield lambda done, of: shown.update(task, completed=done, total=of)


@contextmanager
def share_progress(name: str) -> Iterator[Callable[[float], None]]:
    """Show the progress of work on a service; yields a function to call with the share that is done, from 0 to 1."""
    console = Console(stderr=True)
    shown = Progress(
        TextColumn(name), BarColumn(), TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    )
    with shown:
        task = shown.add_task(name, total=1.0)
        yield lambda share: shown.update(task, completed=share)


@contextmanager
def fit_progress(total: int | None) -> Iterator[Callable[[int, int, float], None]]:
    """Show how much of `total` bytes is read; yields a function to call with (bytes read, rows read, progressive loss)."""
    console = Console(stderr=True)
    shown = Progress(
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows, loss {task.fields[loss]:.4f}"),
        SpeedColumn("bytes"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with shown:
        task = shown.add_task("fit", total=total, rows=0, loss=float("nan"))
        yield lambda position, rows, loss: shown.update(task, completed=position, rows=rows, loss=loss)


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
    console = Console(stderr=True)
    shown = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip
    with shown:
        task = shown.add_task("first pass", total=None)
        yield lambda sentence: shown.update(task, description=sentence)
