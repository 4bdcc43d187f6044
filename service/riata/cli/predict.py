"""The command `riata predict FILE`: writes one prediction per row to stdout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.cli.connect import (
    DEFAULT_URL,
    FORMATS,
    FormatOption,
    ModelOption,
    Refusals,
    RowsPerRequest,
    UrlOption,
    connected,
    require_format,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from riata.cli.source import Rows

EXAMPLE: Final = "Example: `riata predict clicks.ndjson --model clicks --explain > predictions.ndjson`"


def predict(
    file: Annotated[str, typer.Argument(help=f"Rows: {FORMATS}; may be gzipped; - is stdin.")],
    url: UrlOption = DEFAULT_URL,
    model: ModelOption = "default",
    form: FormatOption = "auto",
    rows_per_request: RowsPerRequest = 1000,
    explain: Annotated[bool, typer.Option("--explain", help="Add the contribution of every feature to each prediction.")] = False,
    remember: Annotated[
        bool, typer.Option("--remember", help="Make the service keep the features, so that a label can be sent later.")
    ] = False,
    level: Annotated[
        float | None,
        typer.Option(
            help="Add the interval that holds the probability with this probability, such as 0.95; needs a particle_filter."
        ),
    ] = None,
) -> None:
    """Predict a file of rows and print one line of JSON per row, in order.

    Labels are removed from the rows before they are sent, so files for `riata observe` can be used here too. With --remember
    each prediction has a prediction_id; `riata observe` later accepts lines such as {"prediction_id": "…", "label": 1}.
    """
    from riata.cli.progress import row_progress
    from riata.cli.source import chunks, line_type, open_source, read_rows
    from riata.client import ApiRefused

    require_format(form)
    with open_source(file) as source, connected(url) as riata:
        rows = read_rows(source, file, form)
        with row_progress("predicted") as advance:
            for chunk in chunks(_unlabelled(rows), rows_per_request, rows.header):
                try:
                    answers = riata.predict(
                        chunk.body,
                        model=model,
                        content_type=line_type(rows.form),
                        explain=explain,
                        remember=remember,
                        level=level,
                    )
                except ApiRefused as error:
                    Refusals().add(len(error.errors), error.errors, chunk.numbers)
                    raise
                typer.echo("\n".join(json.dumps(answer, separators=(",", ":")) for answer in answers))
                advance(len(answers))


def _unlabelled(rows: Rows) -> Iterator[tuple[int, bytes]]:
    from riata.cli.labels import without_label

    return ((number, without_label(line, rows.form, rows.header)) for number, line in rows.lines)
