"""The command `riata metrics`: how well a model predicts, now and since its first event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLE: Final = "Example: `riata metrics clicks` shows the figures and the learning curve of a model."
COLUMNS: Final = 60
LINES: Final = 10
HORIZONS: Final = {
    "cumulative": "all events", "faded": "half-life", "window": "window", "recent": "last 1,000", "minute": "last minute",
}  # fmt: skip
ROWS: Final = (
    ("examples", "examples", ",.0f"),
    ("rows refused", "refused", ",.0f"),
    ("loss", "loss", ".4g"),
    ("loss of the base rate", "base_loss", ".4g"),
    ("log loss", "log_loss", ".4f"),
    ("log loss of the base rate", "base_log_loss", ".4f"),
    ("normalised entropy", "normalised_entropy", ".4f"),
    ("AUC", "auc", ".4f"),
    ("accuracy", "accuracy", ".4f"),
    ("base rate", "base_rate", ".4f"),
    ("predicted / observed", "calibration_ratio", ".3f"),
    ("calibration error", "calibration_error", ".3f"),
)


def metrics(
    model: ModelArgument = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer of the service as JSON.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show how well a model predicts, and its learning curve.

    Every event is predicted before it is learnt, so no figure is of events that the model has seen. Figures are over all events,
    over recent ones (each older event counts less), over a window of the newest, over the last 1,000, and over those that were
    learnt in the last minute.
    """
    from rich.console import Console
    from rich.markup import escape

    with connected(url) as riata:
        answer = riata.metrics(model, since=0)
    if as_json:
        typer.echo(json.dumps(answer))
        return
    console = Console()
    console.print(_table(answer))
    console.print(_curve(answer["history"]))
    for warning in answer["warnings"]:
        features = f" Features: {', '.join(warning['features'])}." if warning["features"] else ""
        console.print(f"[bold yellow]warning[/] {escape(warning['code'])}: {escape(warning['detail'] + features)}")


def _table(answer: Mapping[str, Any]) -> RenderableType:
    from rich.table import Table

    parts = [name for name in HORIZONS if name in answer]  # an older service has fewer
    table = Table(title=f"model {answer['model']['name']} at event {answer['model']['seq']}")
    table.add_column("")
    for part in parts:
        table.add_column(HORIZONS[part] + (f" {answer['faded']['half_life']:,}" if part == "faded" else ""), justify="right")
    for head, name, form in ROWS:
        cells = [answer[part].get(name) for part in parts]
        if name in ("loss", "base_loss") and answer["cumulative"]["log_loss"] is not None:
            continue  # the same as the log loss
        if any(cell is not None for cell in cells):
            table.add_row(head, *("" if cell is None else format(cell, form) for cell in cells))
    table.add_row("non-zero weights", f"{answer['non_zeros']:,}")
    return table


def _curve(history: list[Mapping[str, Any]]) -> RenderableType:
    from rich.panel import Panel

    from riata.cli.path_view import resampled
    from riata.cli.plot import draw, plot_text

    loss = "log_loss" if any("log_loss" in point for point in history) else "loss"
    title, base = loss.replace("_", " "), f"faded_base_{loss}"
    points = [point for point in history if None not in (point.get(f"faded_{loss}"), point.get(base))]
    if len(points) < 2:  # points of an older version do not have it
        base = f"base_{loss}"
        points = [point for point in history if None not in (point.get(f"faded_{loss}"), point.get(base))]
    if len(points) < 2:
        return Panel("the learning curve begins with more events", title=title, expand=False)
    places = [float(point["examples"]) for point in points]
    series = [resampled(places, [float(point[name]) for point in points], COLUMNS) for name in (base, f"faded_{loss}")]
    plot = draw(series, COLUMNS, LINES)
    ends = f"{points[0]['examples']:,} events at the left, {points[-1]['examples']:,} at the right"
    named = [("base rate" if base.startswith("faded") else "base rate, all events", "yellow"), ("model", "bold cyan")]
    return Panel(plot_text(plot, named), title=f"{title}, faded", subtitle=ends, expand=False)
