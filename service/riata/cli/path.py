"""The command `riata path`: shows the regularisation path of a model, its number of weights by L1 penalty."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

EXAMPLE: Final = "Example: `riata path clicks --gammas 30` shows 30 penalties; `riata tune clicks --gamma 0.3` then applies one."


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

    from riata.cli.path_view import path_plots, path_table

    with connected(url) as riata:
        answer = riata.path(model, gammas, top=top, bottom=bottom)
    console = Console()
    for part in (path_table(answer), *path_plots(answer)):
        console.print(part)
