"""What a model is, how well it predicts, and why: `riata metrics`, `weights`, `shapes`, `explain`, `card` and `path`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from riata.base.errors import BadInput, nearest
from riata.cli.connect import DEFAULT_URL, JsonOption, ModelArgument, ModelOption, UrlOption, connected

if TYPE_CHECKING:
    from rich.console import RenderableType


# The largest weights, by name.


WEIGHTS_EXAMPLE: Final = "Example: `riata weights clicks --top 20 --prefix country=`"
BAR_COLUMNS: Final = 24


def weights(
    model: ModelArgument = "default",
    top: Annotated[int, typer.Option(min=1, max=10_000, help="Number of weights to show.")] = 20,
    prefix: Annotated[str, typer.Option(help="Show only features whose names begin with this text, such as country=.")] = "",
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show the weights of a model that are largest in magnitude.

    A weight is what one unit of its feature adds to the margin; for a logistic model these are log-odds.
    """
    from rich.console import Console
    from rich.table import Table

    with connected(url) as riata:
        answer = riata.weights(model, top=top, prefix=prefix)
    if as_json:
        typer.echo(json.dumps(answer))
        return
    rows = read_weights(answer)
    errors = [row.get("std_error") for row in answer["weights"]]
    table = Table(title=f"model {answer['model']['name']} at event {answer['model']['seq']}: {answer['non_zeros']:,} weights")
    table.add_column("feature", overflow="fold")
    table.add_column("weight", justify="right")
    if any(error is not None for error in errors):
        table.add_column("std. error", justify="right")
    table.add_column("")
    largest = max((abs(weight) for _, weight in rows), default=0.0)
    for (name, weight), error in zip(rows, errors, strict=True):
        shown = () if len(table.columns) == 3 else ("" if error is None else f"{error:.4f}",)
        table.add_row(name, f"{weight:+.4f}", *shown, bar(weight, largest, BAR_COLUMNS))
    table.caption = f"intercept {answer['intercept']:+.4f}"
    if shaped := answer.get("shaped_columns"):  # an older service says nothing of them
        table.caption += f"; {shaped} columns also have shapes, see `riata shapes`"
    Console().print(table)


# Parses the response of /weights into names and numbers, and draws a number as a bar.


def read_weights(answer: Any) -> list[tuple[str, float]]:
    """Return (name, weight) of each listed weight. A slot that several features share has all of their names."""
    found = answer.get("weights") if isinstance(answer, dict) else answer
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return [(_name(row), float(row["weight"])) for row in rows if isinstance(row.get("weight"), int | float)]


def _name(row: dict[str, Any]) -> str:
    names = [str(name) for name in row.get("names") or []]
    if len(names) > 1:
        return " / ".join(names)
    return str(row.get("feature") or (names[0] if names else f"slot {row.get('slot')}"))


def bar(value: float, largest: float, columns: int) -> str:
    """Return a bar to the right of the middle if `value` is positive, otherwise to the left; `largest` fills one side."""
    side = columns // 2
    length = round(side * min(abs(value) / largest, 1.0)) if largest > 0.0 else 0
    left, right = ("", "\u2588" * length) if value >= 0.0 else ("\u2588" * length, "")
    return f"{left:>{side}}\u2502{right:<{side}}"


# The shapes of numeric columns.


SHAPES_EXAMPLE: Final = """Examples:

- `riata shapes clicks` lists the columns and the pairs of columns, those that move the margin most first.
- `riata shapes clicks --column age` lists the intervals of one column, and what values in them add.
- `riata shapes clicks --json` prints all numbers, also those of pairs."""
BLOCKS: Final = "▁▂▃▄▅▆▇█"


def shapes(
    model: ModelArgument = "default",
    column: Annotated[str, typer.Option(help="Show the intervals of this column.")] = "",
    of_class: Annotated[
        str | None, typer.Option("--class", help="Of a model of several classes: the class that is meant.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show what the values of numeric columns add to the margin.

    A value adds the weight of its column times itself, and a number for the interval that it is in. A pair of columns adds a
    number for each pair of intervals. The range is the largest less the smallest that a column or a pair adds.
    """
    from rich.console import Console
    from rich.table import Table

    with connected(url) as riata:
        answer = riata.shapes(model, of_class=of_class)
    if as_json:
        typer.echo(json.dumps(answer))
        return
    if answer["why_not"] is not None:
        typer.echo(f"model {answer['model']['name']} has no shapes: {answer['why_not']}")
        return
    table = Table(title=f"model {answer['model']['name']} at event {answer['model']['seq']}: shapes of numeric columns")
    table.caption = f"intercept {answer['intercept']:+.4f}; share of the shapes in the mixture {answer['share']:.4f}"
    if column:
        _add_intervals(table, _column_of(answer["columns"], column))
    else:
        _add_columns(table, answer)
    Console().print(table)


def _add_columns(table: Any, answer: dict[str, Any]) -> None:
    table.add_column("column, or pair", overflow="fold")
    for name in ("weight", "range", "from"):
        table.add_column(name, justify="right")
    for name in ("adds", "to"):
        table.add_column(name)
    for one in answer["columns"]:
        edges, ends = one["edges"], _ends(one)
        drawn = ramp(middles := [(low + high) / 2 for low, high in ends], min(middles), max(middles))
        table.add_row(_known(one), f"{one['weight']:+.4g}", f"{one['range']:.3f}", f"{edges[0]:g}", drawn, f"{edges[-1]:g}")
    for one in answer["pairs"]:
        names = [
            _known({"feature": feature, "hash": hash_}) for feature, hash_ in zip(one["features"], one["hashes"], strict=True)
        ]
        table.add_row(" and ".join(names), "", f"{one['range']:.3f}", "", "", "")


def _add_intervals(table: Any, one: dict[str, Any]) -> None:
    edges, ends = one["edges"], _ends(one)
    largest = max(abs(end) for both in ends for end in both)
    for name in ("above", "up to", "adds, at first", "at last"):
        table.add_column(name, justify="right")
    table.add_column("")
    bounds = ["", *(f"{edge:g}" for edge in edges), ""]
    for low, high, (first, last) in zip(bounds, bounds[1:], ends, strict=False):
        table.add_row(low, high, f"{first:+.4f}", f"{last:+.4f}", bar((first + last) / 2, largest, BAR_COLUMNS))


def _ends(one: dict[str, Any]) -> list[tuple[float, float]]:
    """What a column adds at both ends of each interval; the first and the last have one end."""
    edges, weight = one["edges"], one["weight"]
    bounds = [edges[0], *edges, edges[-1]]
    return [
        (weight * low + value, weight * high + value) for low, high, value in zip(bounds, bounds[1:], one["values"], strict=False)
    ]


def _column_of(columns: list[dict[str, Any]], name: str) -> dict[str, Any]:
    found = {_known(one): one for one in columns}
    if name not in found:
        raise BadInput(f"column: {nearest(name[:64], found)}", "bad_option")
    return found[name]


def _known(one: dict[str, Any]) -> str:
    return str(one["feature"] or f"hash {one['hash']}")


def ramp(values: Sequence[float], low: float, high: float) -> str:
    """Return a character for each value, the higher the nearer it is to `high`."""
    steps = len(BLOCKS) / ((high - low) or 1.0)
    return "".join(BLOCKS[min(int((value - low) * steps), len(BLOCKS) - 1)] for value in values)


# The prediction for one row, and what each of its features adds to it.


EXPLAIN_EXAMPLE: Final = "Example: `riata explain age=40 country=de --model clicks`"


def explain(
    features: Annotated[list[str], typer.Argument(help="Features as NAME=VALUE. A number is a number, anything else a word.")],
    model: ModelOption = "default",
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Predict one row and show what each of its features adds to the margin."""
    from rich.console import Console
    from rich.table import Table

    row = {"features": _row(features)}
    with connected(url) as riata:
        answer = riata.explain(row, model=model)[0]
    if as_json:
        typer.echo(json.dumps(answer))
        return
    parts = sorted(answer["contributions"], key=lambda part: -abs(part["contribution"]))
    largest = max((abs(value) for value in (answer["bias"], *(part["contribution"] for part in parts))), default=0.0)
    table = Table()
    table.add_column("feature", overflow="fold")
    for name in ("value", "weight", "adds"):
        table.add_column(name, justify="right")
    table.add_column("")
    table.add_row("(intercept)", "", "", f"{answer['bias']:+.4f}", bar(answer["bias"], largest, BAR_COLUMNS))
    for part in parts:
        added = part["contribution"]
        cells = (f"{part['value']:g}", f"{part['weight']:+.4f}", f"{added:+.4f}")
        table.add_row(part["feature"], *cells, bar(added, largest, BAR_COLUMNS))
    console = Console()
    console.print(table)
    console.print(_sentence(answer), highlight=False)


def _sentence(answer: dict[str, Any]) -> str:
    """The prediction in words."""
    found = f"margin {answer['margin']:+.4f}"
    if (probability := answer.get("probability")) is not None:
        found = f"probability {probability:.4f}, {found}"
    if (unknown := answer["unknown_features"]) > 0:
        found += f"; {unknown} of {unknown + answer['known_features']} features have no weight"
    if names := answer.get("unknown"):
        found += f"; never learnt: {', '.join(names)}"
    return found


def _row(features: Iterable[str]) -> dict[str, Any]:
    """Return the features of a row. Raises `BadInput` if one has no value or comes twice."""
    row: dict[str, Any] = {}
    for feature in features:
        name, is_given, text = feature.partition("=")
        if not (name and is_given):
            raise BadInput(f"{feature[:64]}: expected NAME=VALUE, such as age=40 or country=de", "bad_option")
        if name in row:
            raise BadInput(f"{name[:64]}: given twice", "bad_option")
        try:
            row[name] = float(text)
        except ValueError:
            row[name] = text
    return row


# What a model is and how good it is, on one page.


CARD_EXAMPLE: Final = "Example: `riata card clicks --out clicks.md`"


def card(
    model: ModelArgument = "default",
    out: Annotated[Path | None, typer.Option(help="File to write. [default: standard output]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the card as JSON instead of Markdown.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show the card of a model: configuration, data, figures, warnings, largest weights and changes."""
    from riata.base.directories import write_whole

    with connected(url) as riata:
        content = riata.card(model, form="json" if as_json else "markdown")
    if out is None:
        typer.echo(content.decode().rstrip("\n"))
    else:
        write_whole(out, content)


# How well a model predicts, now and since its first event.


METRICS_EXAMPLE: Final = "Example: `riata metrics clicks` shows the figures and the learning curve of a model."
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
    as_json: JsonOption = False,
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
        console.print(f"[bold yellow]warning[/] {escape(warning['code'])}: {escape(warning_text(warning))}")


def warning_text(warning: Mapping[str, Any]) -> str:
    """What a warning of a model says, with the features that it concerns."""
    features = warning.get("features")
    return f"{warning['detail']} Features: {', '.join(features)}." if features else warning["detail"]


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

    from riata.cli.plot import draw, plot_text, resampled

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


# The regularisation path: the number of weights by L1 penalty.


PATH_EXAMPLE: Final = (
    "Example: `riata path clicks --gammas 30` shows 30 penalties; `riata tune clicks --gamma 0.3` then applies one."
)


def path(
    model: ModelArgument = "default",
    gammas: Annotated[int, typer.Option(min=2, max=100, help="Number of penalties to show.")] = 20,
    top: Annotated[float | None, typer.Option("--from", help="Largest penalty. [the smallest that leaves no weight]")] = None,
    bottom: Annotated[float | None, typer.Option("--to", help="Smallest penalty. [a hundredth of the current one]")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show how many non-zero weights a model would have with other L1 penalties, without learning again.

    This works only if the learner keeps the curvature of the loss; otherwise the error message names such a learner. The loss is
    known for the current penalty and for the others that the learner tries (its setting shadow).
    """
    from rich.console import Console

    from riata.cli.plot import path_plots, path_table

    with connected(url) as riata:
        answer = riata.path(model, gammas, top=top, bottom=bottom)
    console = Console()
    for part in (path_table(answer), *path_plots(answer)):
        console.print(part)
