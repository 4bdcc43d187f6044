"""The command `riata explain`: the prediction for one row, and what each of its features adds to it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import DEFAULT_URL, ModelOption, UrlOption, connected

EXAMPLE: Final = "Example: `riata explain age=40 country=de --model clicks`"
BAR_COLUMNS: Final = 24


def explain(
    features: Annotated[list[str], typer.Argument(help="Features as NAME=VALUE. A number is a number, anything else a word.")],
    model: ModelOption = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer of the service as JSON.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Predict one row and show what each of its features adds to the margin."""
    from rich.console import Console
    from rich.table import Table

    from riata.cli.weights import bar

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
