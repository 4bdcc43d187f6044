"""The command `riata metrics`: how well a model predicts, now and since its first event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from riata.cli.connect import DEFAULT_URL, UrlOption, connected

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLE: Final = "Example: `riata metrics clicks` shows the figures and the learning curve of a model."
COLUMNS: Final = 60
LINES: Final = 10
ROWS: Final = (
    ("examples", "examples", ",.0f"),
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
    model: Annotated[str, typer.Argument(help="Name of the model.")] = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer of the service as JSON.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show how well a model predicts, and its learning curve.

    Every event is predicted before it is learnt, so no figure is of events that the model has seen. Figures are over all events,
    over recent ones (each older event counts less), and over a window of the newest.
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

    parts = ("cumulative", "faded", "window")
    table = Table(title=f"model {answer['model']['name']} at event {answer['model']['seq']}")
    for name, head in zip(("", *parts), ("", "all events", f"half-life {answer['faded']['half_life']:,}", "window"), strict=True):
        table.add_column(head, justify="right" if name else "left")
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
    from riata.cli.plot import draw
    from riata.cli.plot_text import plot_text

    points = [p for p in history if p.get("faded_log_loss") is not None and p.get("base_log_loss") is not None]
    if len(points) < 2:
        return Panel("the learning curve begins with more events", title="log loss", expand=False)
    places = [float(p["examples"]) for p in points]
    series = [resampled(places, [float(p[name]) for p in points], COLUMNS) for name in ("base_log_loss", "faded_log_loss")]
    plot = draw(series, COLUMNS, LINES)
    ends = f"{points[0]['examples']:,} events at the left, {points[-1]['examples']:,} at the right"
    return Panel(
        plot_text(plot, [("base rate", "yellow"), ("model", "bold cyan")]), title="log loss", subtitle=ends, expand=False
    )
