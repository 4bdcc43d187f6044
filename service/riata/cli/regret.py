"""`riata regret MODEL`: how far a model was from the batch optimum at its last refit."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

EXAMPLE: Final = (
    "Example: `riata refit clicks --url http://127.0.0.1:8080` makes the comparison; `riata regret clicks` shows the last."
)


def regret(
    model: ModelArgument = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show how far a model was from the best weights for its events, at its last refit.

    Three figures, each for what it is: the objective of both on the same events; the loss of both on events that neither had
    learnt; and the sum of the losses that the model had while it learnt, less that of the optimum.
    """
    from riata.cli.refit_running import regret_lines

    with connected(url) as riata:
        found = riata.regret(model)
    if as_json:
        typer.echo(json.dumps(found))
        return
    window, verdict = found["window"], found["verdict"]
    for line in (
        f"refit     {found['refit']} of {found['created']}, events {window['from']} to {window['to']} of {window['of']}",
        *regret_lines(found, found["certificate"]),
        f"verdict   {verdict['decision']}: {verdict['why']}",
    ):
        typer.echo(line)
