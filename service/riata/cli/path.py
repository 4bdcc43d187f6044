"""The command `riata path`: shows the regularisation path of a model, its number of weights by L1 penalty."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, UrlOption, connected

EXAMPLE: Final = "Example: `riata path clicks --gammas 30`, then `riata tune clicks --gamma 0.3` to move there."


def path(
    model: Annotated[str, typer.Argument(help="Name of the model.")] = "default",
    gammas: Annotated[int, typer.Option(min=2, max=100, help="How many penalties.")] = 20,
    top: Annotated[float | None, typer.Option("--from", help="Largest penalty. [the smallest that leaves no weight]")] = None,
    bottom: Annotated[float | None, typer.Option("--to", help="Smallest penalty. [a hundredth of the current one]")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show how many weights other penalties would leave, without learning anything again.

    This works for models whose learner keeps curvature; for any other model the error message names such a learner. Losses are
    known for the penalties that the learner tries in addition to its own (its setting shadow).
    """
    from rich.console import Console

    from riata.cli.path_view import path_plots, path_table

    with connected(url) as riata:
        answer = riata.path(model, gammas, top=top, bottom=bottom)
    console = Console()
    for part in (path_table(answer), *path_plots(answer)):
        console.print(part)
