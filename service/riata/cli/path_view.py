"""Formats the response of /path as a table and as small plots in the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table

from riata.cli.plot import draw, plot_text

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
