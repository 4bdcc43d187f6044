"""The command `riata weights`: the largest weights of a model, by name."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

EXAMPLE: Final = "Example: `riata weights clicks --top 20 --prefix country=`"
BAR_COLUMNS: Final = 24


def weights(
    model: ModelArgument = "default",
    top: Annotated[int, typer.Option(min=1, max=10_000, help="Number of weights to show.")] = 20,
    prefix: Annotated[str, typer.Option(help="Only features whose names begin so.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer of the service as JSON.")] = False,
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
