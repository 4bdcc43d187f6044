"""`riata path`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, UrlOption, connected

EXAMPLE: Final = "Example: `riata path clicks --gammas 30`, then `riata tune clicks --gamma 0.3` to move there."


def path(
    model: Annotated[str, typer.Argument(help="Name of the model.")] = "default",
    gammas: Annotated[int, typer.Option(min=2, max=100, help="How many penalties.")] = 20,
    top: Annotated[float | None, typer.Option("--from", help="Largest penalty. [the smallest that leaves no weight]")] = None,
    bottom: Annotated[float | None, typer.Option("--to", help="Smallest penalty. [a hundredth of the one in force]")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show how many weights other penalties would leave, without learning anything anew.

    For models whose learner keeps curvature; `riata path` of another model names one that does. Losses are known of the
    penalties that the learner tries beside its own (its setting shadow).
    """
    from rich.console import Console

    from riata.cli.path_view import path_plots, path_table

    with connected(url) as riata:
        answer = riata.path(model, gammas, top=top, bottom=bottom)
    console = Console()
    for part in (path_table(answer), *path_plots(answer)):
        console.print(part)
