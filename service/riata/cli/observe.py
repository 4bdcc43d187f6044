"""The command `riata observe FILE`: sends labelled rows to a running service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import (
    DEFAULT_URL,
    FORMATS,
    FormatOption,
    LearnerOption,
    ModelOption,
    Refusals,
    RowsPerRequest,
    UrlOption,
    connected,
    observed_of,
    require_format,
)

if TYPE_CHECKING:
    from riata.cli.source import Chunk
    from riata.client import Observed, Riata

EXAMPLE: Final = """Examples:

- `riata observe clicks.ndjson.gz` sends the rows of a file to the model `default`.
- `zcat clicks.vw.gz | riata observe - --model clicks --labels=-1/+1` creates the model `clicks` if it does not exist."""


def observe(
    file: Annotated[str, typer.Argument(help=f"Labelled rows: {FORMATS}; may be gzipped; - is stdin.")],
    url: UrlOption = DEFAULT_URL,
    model: ModelOption = "default",
    form: FormatOption = "auto",
    rows_per_request: RowsPerRequest = 1000,
    labels: Annotated[
        str | None, typer.Option(help="0/1, -1/+1 or real: create the model with these labels if it does not exist.")
    ] = None,
    learner: LearnerOption = None,
) -> None:
    """Send a file of labelled rows to a running service.

    Every row counted as accepted is durable. Rejected rows are reported with their line numbers, and the exit code is then 1.
    """
    from riata.cli.model_setup import ensure_model
    from riata.cli.progress import row_progress
    from riata.cli.source import chunks, line_type, open_source, read_rows

    require_format(form)
    if learner is not None and labels is None:
        raise BadInput("--learner applies to a new model only; give its --labels too", "bad_option")
    refusals, accepted, duplicate = Refusals(), 0, 0
    with open_source(file) as source, connected(url) as riata:
        rows = read_rows(source, file, form)
        if labels is not None and ensure_model(riata, model, labels, learner):
            typer.echo(f"created model {model!r} with labels {labels}", err=True)
        with row_progress("observed") as advance:
            for chunk in chunks(rows.lines, rows_per_request, rows.header):
                answer = _send(riata, chunk, model, line_type(rows.form))
                refusals.add(answer.rejected, answer.errors, chunk.numbers)
                accepted, duplicate = accepted + answer.accepted, duplicate + answer.duplicate
                advance(len(chunk.numbers))
    typer.echo(f"{accepted} accepted, {duplicate} duplicate, {refusals.rows} rejected")
    if refusals.rows:
        raise typer.Exit(1)


def _send(riata: Riata, chunk: Chunk, model: str, content_type: str) -> Observed:
    from riata.client import ApiRefused

    try:
        return riata.observe(chunk.body, model=model, content_type=content_type)
    except ApiRefused as error:
        return observed_of(error)
