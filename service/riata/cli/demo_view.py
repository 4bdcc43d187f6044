"""The output of `riata demo` while it runs: a live screen on a terminal, plain lines otherwise."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from riata.cli.metrics_view import Moment, Reading
from riata.cli.plot import draw
from riata.cli.plot_text import plot_text
from riata.cli.progress import SpeedColumn

PLOT_LINES: Final = 12
PLOT_COLUMNS_MAX: Final = 100
PLOT_COLUMNS_PLAIN: Final = 50
MARGIN_COLUMNS: Final = 26  # the scale on the left, the names on the right and the frame
SERIES: Final = (("base rate", "yellow"), ("model", "bold cyan"))  # the model's line is on top
LINES_IN_ALL: Final = 20  # plain lines over a whole run of known length
ROWS_A_LINE: Final = 20_000  # if the length is not known


class View(Protocol):
    """Shows the progress of a run."""

    def show(self, moment: Moment) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


def make_view(console: Console) -> View:
    """Return the live screen for a terminal, plain lines for anything else."""
    return LiveView(console) if console.is_terminal else LineView(console)


class LiveView:
    """Progress bar, learning curve and a table of figures, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._columns = max(1, min(console.width - MARGIN_COLUMNS, PLOT_COLUMNS_MAX))
        self._progress = Progress(
            TextColumn("[bold]{task.completed:,.0f}[/] events"), BarColumn(), SpeedColumn("events"), TimeRemainingColumn()
        )
        self._task = self._progress.add_task("events", total=None)
        self._live = Live(self._progress, console=console, refresh_per_second=8)

    def show(self, moment: Moment) -> None:
        """Draw `moment`."""
        self._progress.update(self._task, completed=moment.sent, total=moment.total)
        self._live.update(Group(self._progress, curve_panel(moment.curve, self._columns), figures_table(moment)))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()


class LineView:
    """One line for each part of the rows sent, and the curve at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0
        self._last: Moment | None = None

    def show(self, moment: Moment) -> None:
        """Write a line if one is due."""
        self._last = moment
        if moment.sent >= self._next and moment.curve:
            step = moment.total // LINES_IN_ALL if moment.total else ROWS_A_LINE
            self._next = moment.sent + max(step, 1)
            self._console.print(figures_line(moment), highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None and self._last is not None:
            self._console.print(curve_panel(self._last.curve, PLOT_COLUMNS_PLAIN))
            self._console.print(figures_line(self._last), highlight=False, soft_wrap=True)


def curve_panel(curve: list[Reading], columns: int) -> RenderableType:
    """Draw log loss over time, the model's and that of the base rate."""
    points = [(r.base_log_loss, r.log_loss) for r in curve if r.base_log_loss is not None and r.log_loss is not None]
    if len(points) < 2:
        return Panel("waiting for the first metrics", title="log loss")
    plot = draw([[base for base, _ in points], [model for _, model in points]], columns, PLOT_LINES)
    title = f"log loss over recent events (half-life {curve[-1].half_life:,} events)"
    return Panel(plot_text(plot, SERIES), title=title, expand=False)


def figures_table(moment: Moment) -> RenderableType:
    """Write the latest figures as a table."""
    table = Table(show_header=True, expand=False)
    cells = _figures(moment)
    for name in cells:
        table.add_column(name, justify="right")
    table.add_row(*cells.values())
    return table


def figures_line(moment: Moment) -> str:
    """Write the latest figures as one line."""
    return f"{moment.sent:>9,} events  " + "  ".join(f"{name} {value}" for name, value in _figures(moment).items())


def _figures(moment: Moment) -> dict[str, str]:
    last = moment.curve[-1] if moment.curve else None
    figures = {
        "log loss": _number(last.log_loss if last else None),
        "base": _number(last.base_log_loss if last else None),
        "normalised entropy": _number(last.normalised_entropy if last else None),
        "AUC": _number(last.auc if last else None),
        "non-zeros": f"{last.non_zeros:,}" if last else "-",
        "events/s": f"{moment.events_per_s:,.0f}",
    }
    return figures | ({"rejected": f"{moment.rejected:,}"} if moment.rejected else {})


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
