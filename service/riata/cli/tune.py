"""The command `riata tune`: changes the L1 penalty of a model."""

from __future__ import annotations

import math
from typing import Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import DEFAULT_URL, UrlOption, connected

EXAMPLE: Final = "Example: `riata tune clicks --gamma 0.3`; `riata path clicks` shows what it would leave."


def tune(
    model: Annotated[str, typer.Argument(help="Name of the model.")] = "default",
    gamma: Annotated[float | None, typer.Option(help="L1 penalty: a larger one leaves fewer weights.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Change the penalty of a model while it learns. Nothing is learnt again, and the change is an event of its log."""
    if gamma is None:
        raise BadInput(f"say what to change, as --gamma 0.3; `riata path {model}` shows what a penalty would leave", "bad_option")
    if not math.isfinite(gamma):
        raise BadInput(f"--gamma {gamma}: expected a finite number, as 0.3", "bad_option")
    with connected(url) as riata:
        before = riata.model(model)
        answer = riata.change(model, gamma=gamma)
        after = riata.model(model)
    was = before["config"]["learner"].get("gamma", gamma)
    counts = f"{before['non_zeros']:,} -> {after['non_zeros']:,} non-zeros"
    typer.echo(f"model {model!r}: gamma {was:g} -> {gamma:g}, {counts}, from event {answer['seq']} on")
