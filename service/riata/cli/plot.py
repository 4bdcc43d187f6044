"""Line plots in a terminal, drawn with Braille characters: two by four dots per cell, one line per series. Reports with plots."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from riata.base.errors import BadInput

BLANK: Final = 0x2800  # Unicode's Braille block begins with the empty cell
DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bit of the dot at row, column of a cell


@dataclass(frozen=True, slots=True)
class Plot:
    """A finished plot.

    cells     : cells[line][column] is (character, index of the series on top, or -1 for none)
    ends      : the line on which each series ends, -1 if the series is empty
    low, high : the y range
    """

    cells: list[list[tuple[str, int]]]
    ends: list[int]
    low: float
    high: float

    def lines(self) -> list[str]:
        """Return the lines of the plot as text, without colours."""
        return ["".join(character for character, _ in line) for line in self.cells]


def draw(series: Sequence[Sequence[float]], columns: int, lines: int) -> Plot:
    """Draw series of equal length over their common index; they span the whole width.

    If two series share a cell, the later one is on top. An empty series draws nothing; a constant one is a horizontal line.
    """
    values = [value for line in series for value in line]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    bits = [[0] * columns for _ in range(lines)]
    top = [[-1] * columns for _ in range(lines)]
    ends = []
    for number, line in enumerate(series):
        dots = _dots(line, columns * 2, lines * 4, low, high)
        ends.append(dots[-1][1] // 4 if dots else -1)
        for x, y in dots:
            bits[y // 4][x // 2] |= DOTS[y % 4][x % 2]
            top[y // 4][x // 2] = number
    cells = [[(chr(BLANK + bits[y][x]), top[y][x]) for x in range(columns)] for y in range(lines)]
    return Plot(cells, ends, low, high)


def _dots(line: Sequence[float], width: int, height: int, low: float, high: float) -> list[tuple[int, int]]:
    """Return the dots of one series: the level at each column, connected to the level of the previous column."""
    if not line:
        return []
    scale = (height - 1) / (high - low) if high > low else 0.0
    dots = []
    before: int | None = None
    for x in range(width):
        at = x * (len(line) - 1) / max(width - 1, 1)
        i = min(int(at), len(line) - 2) if len(line) > 1 else 0
        value = line[i] + (at - i) * (line[min(i + 1, len(line) - 1)] - line[i])
        y = height - 1 - round((value - low) * scale)
        start = y if before is None else before
        dots += [(x, step) for step in range(start, y, 1 if y > start else -1)] + [(x, y)]
        before = y
    return dots


# Renders a plot as coloured text, with its scale on the left and the names of the series at their ends.


def plot_text(plot: Plot, series: Sequence[tuple[str, str]], form: str = "8.4f") -> Text:
    """Return `plot` as text. series: name and style of each series; form: number format of the scale."""
    text = Text()
    width = len(format(0.0, form))
    for number, line in enumerate(plot.cells):
        level = {0: plot.high, len(plot.cells) - 1: plot.low}.get(number)
        text.append(f"{' ' * width if level is None else format(level, form)} ", "dim")
        for character, at in line:
            text.append(character, series[at][1] if at >= 0 else "")
        for (name, style), end in zip(series, plot.ends, strict=True):
            text.append(f" {name}" if end == number else "", style)
        text.append("\n" if number < len(plot.cells) - 1 else "")
    return text


# Formats the response of /path as a table and as small plots in the terminal.


COLUMNS: Final = 60
LINES: Final = 8


def path_table(answer: Mapping[str, Any]) -> RenderableType:
    """Return a table with one line per penalty; the penalty in force is marked."""
    source = answer["model"]
    table = Table(title=f"model {source['name']} at event {source['seq']}: penalties, largest first")
    for name in ("gamma", "non-zeros", "objective", "log loss", "faded"):
        table.add_column(name, justify="right")
    table.add_column("")
    for point in _points(answer):
        losses = (_loss(point["log_loss"]), _loss(point["faded_log_loss"]))
        mark = "in force" if point["in_force"] else ""
        style = "bold" if point["in_force"] else None
        cells = (f"{point['gamma']:.4g}", f"{point['non_zeros']:,}", f"{point['objective']:,.4g}", *losses, mark)
        table.add_row(*cells, style=style)
    if any(_is_own(point) for point in answer["points"]):
        table.caption = "the log loss of the penalty in force is that of the model, which may have had other penalties before"
    return table


def path_plots(answer: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Plot the number of weights over the logarithm of the penalty and, if at least two penalties have a loss, the loss."""
    points = [point for point in _points(answer) if point["gamma"] > 0.0]
    tried = [point for point in points if point["log_loss"] is not None]
    if len(points) >= 2:
        yield _panel("non-zeros", points, "non_zeros", "8,.0f")
    if len(tried) >= 2:
        yield _panel("log loss of the penalty in force and of the other penalties tried", tried, "log_loss", "8.4f")


def _points(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the points. The one in force gets the losses of the model itself if no shadow has any."""
    own = {name: answer[name] for name in ("log_loss", "faded_log_loss")}
    return [{**point, **own} if _is_own(point) else point for point in answer["points"]]


def _is_own(point: Mapping[str, Any]) -> bool:
    return bool(point["in_force"]) and point["log_loss"] is None


def _panel(title: str, points: Sequence[Mapping[str, Any]], name: str, form: str) -> RenderableType:
    heights = resampled([math.log(point["gamma"]) for point in points], [float(point[name]) for point in points], COLUMNS)
    plot = draw([heights], COLUMNS, LINES)
    ends = f"gamma {points[0]['gamma']:.3g} at the left, {points[-1]['gamma']:.3g} at the right"
    return Panel(plot_text(plot, [("", "bold cyan")], form), title=title, subtitle=ends, expand=False)


def resampled(places: Sequence[float], heights: Sequence[float], columns: int) -> list[float]:
    """Interpolate linearly at `columns` evenly spaced places from first to last. `places` decrease or increase."""
    found = []
    left = 0
    for i in range(columns):
        place = places[0] + (places[-1] - places[0]) * i / max(columns - 1, 1)
        while left < len(places) - 2 and (place - places[left + 1]) * (places[-1] - places[0]) > 0.0:
            left += 1
        width = places[left + 1] - places[left]
        share = min(max((place - places[left]) / width, 0.0), 1.0) if width else 0.0
        found.append(heights[left] + share * (heights[left + 1] - heights[left]))
    return found


def _loss(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


# A report that is shown, or printed as JSON, and drawn to a file: what commands that compare have in common.


def require_svg(plot: Path | None) -> None:
    """Raise `BadInput` (code `bad_option`) unless the file of a drawing, if there is one, ends in .svg."""
    if plot is not None and plot.suffix != ".svg":
        raise BadInput(f"--plot: {plot.name[:64]!r} does not end in .svg", "bad_option")


def give(
    report: dict[str, Any],
    plot: Path | None,
    svg_of: Callable[[dict[str, Any]], str],
    show: Callable[[dict[str, Any]], None],
    as_json: bool,
) -> None:
    """Draw a report to `plot`, if it is given, which is noted in the report as `plot`. Then show it, or print it as JSON."""
    from riata.base.directories import write_whole

    if plot is not None:
        write_whole(plot, svg_of(report).encode())
        report["plot"] = str(plot)
    if as_json:
        typer.echo(json.dumps(report))
    else:
        show(report)
