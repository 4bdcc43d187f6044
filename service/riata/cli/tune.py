"""The command `riata tune`: changes the L1 penalty of a model."""

from __future__ import annotations

import math
from typing import Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

EXAMPLE: Final = "Example: `riata path clicks` shows the effect of each penalty; `riata tune clicks --gamma 0.3` applies one."


def tune(
    model: ModelArgument = "default",
    gamma: Annotated[float | None, typer.Option(help="New L1 penalty; a larger one leaves fewer non-zero weights.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Change the L1 penalty of a model while it learns.

    Nothing is learnt again. The change is an event of the model's log.
    """
    if gamma is None:
        raise BadInput(f"give the new penalty, such as --gamma 0.3; `riata path {model}` shows the effect of each", "bad_option")
    if not math.isfinite(gamma):
        raise BadInput(f"--gamma {gamma}: expected a finite number, such as 0.3", "bad_option")
    with connected(url) as riata:
        before = riata.model(model)
        answer = riata.change(model, gamma=gamma)
        after = riata.model(model)
    was = before["config"]["learner"].get("gamma", gamma)
    counts = f"{before['non_zeros']:,} -> {after['non_zeros']:,} non-zeros"
    typer.echo(f"model {model!r}: gamma {was:g} -> {gamma:g}, {counts}, from event {answer['seq']} on")
