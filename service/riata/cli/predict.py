"""The command `riata predict FILE`: writes one prediction per row."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import (
    DEFAULT_URL,
    FORMATS,
    FormatOption,
    ModelOption,
    RowsPerRequest,
    UrlOption,
    connected,
    require_format,
)
from riata.cli.tables import CategoryOption, DropOption, EventIdOption, HeaderOption, LabelOption, Layout, layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from riata.cli.predictions import Answers, Asking, Kept
    from riata.cli.source import Rows

EXAMPLE: Final = """Examples:

- `riata predict clicks.ndjson --model clicks --explain > predictions.ndjson` asks a service.
- `riata predict churn.csv --model-file churn.riata --out churn.parquet` needs no service, and writes a table.
- `riata predict churn.csv --model churn --id customer --out scored.csv` keeps the column `customer` beside the predictions."""


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
        typer.Option(help="Add the interval that holds it with this probability, such as 0.95; needs standard errors."),
    ] = None,
    model_file: Annotated[
        Path | None, typer.Option(help="Predict with this file of `riata fit --out` or `riata export`, without a service.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file, whose name ends in .csv, .parquet or .ndjson. [default: stdout]")
    ] = None,
    label: LabelOption = None,
    drop: DropOption = None,
    category: CategoryOption = None,
    header: HeaderOption = None,
    event_id: EventIdOption = None,
    kept: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Keep this column beside the predictions: one of CSV and Parquet, or a key of NDJSON."
        ),
    ] = None,
) -> None:
    """Predict a file of rows, in order: print one line of JSON per row, or write a table with --out.

    Labels are removed from the rows before they are sent, so files for `riata observe` can be used here too. With --remember
    each prediction has a prediction_id; `riata observe` later accepts lines such as {"prediction_id": "…", "label": 1}.

    A row that cannot be predicted has its error in place of the prediction, and empty cells in CSV and Parquet. Such rows are
    counted by code at the end, the first ten are reported with line and column, and the exit code is then 1.
    """
    from riata.cli.open_table import is_table, open_rows
    from riata.cli.predictions import Asking, Kept, answers_of_file, answers_of_service, writer_to
    from riata.cli.progress import row_progress
    from riata.cli.source import chunks, read_rows

    asking = Asking()
    layout = replace(_layout(form, label, drop, category, event_id, kept), header=header, watcher=asking)
    with ExitStack() as stack:
        source = stack.enter_context(open_rows(file, layout))
        rows = read_rows(source, file, layout.line_form)
        beside = Kept(kept, is_table(source))
        write = stack.enter_context(writer_to(out, kept))
        options = {"model": model, "explain": explain, "remember": remember, "level": level}
        if model_file is None:
            ask = answers_of_service(stack.enter_context(connected(url)), options)
        else:
            ask = answers_of_file(_alone(model_file, explain or remember or level is not None))
        advance = stack.enter_context(row_progress("predicted"))
        features = unknown = 0
        for chunk in chunks(_unlabelled(rows, beside), rows_per_request, rows.header):
            answers = beside.beside(asking.answers(ask, chunk, rows.form, rows.header), chunk.numbers)
            write(asking.with_left_out(answers, chunk.numbers))
            advance(len(answers))
            unknown, features = (total + new for total, new in zip((unknown, features), _counted(answers), strict=True))
        if rest := asking.rest():
            write(rest)
    _tell(asking, unknown, features)


def _alone(model_file: Path, is_asked_more: bool) -> Path:
    """Return the file of a model, which is all that answers. Raises `BadInput` if more is asked of it."""
    if is_asked_more:
        raise BadInput("--explain, --remember and --level need a service; leave --model-file out", "bad_option")
    return model_file


def _tell(asking: Asking, unknown: int, features: int) -> None:
    """Say how many features were unknown and which rows were rejected; ends with 1 if any was."""
    if unknown:  # shows a column that is read otherwise than when the model learnt it, as without --category
        typer.echo(f"{unknown:,} of {features:,} features have no weight in the model", err=True)
    if asking.refusals.rows:
        asking.refusals.show()
        typer.echo(f"{asking.refusals.rows:,} rows rejected ({asking.refusals.by_code()})", err=True)
        raise typer.Exit(1)


def _counted(answers: Answers) -> tuple[int, int]:
    """Return how many features of the answers are unknown to the model, and how many there are."""
    predicted = [answer for answer in answers if "error" not in answer]
    unknown = sum(answer["unknown_features"] for answer in predicted)
    return unknown, unknown + sum(answer["known_features"] for answer in predicted)


def _layout(
    form: str, label: str | None, drop: list[str] | None, category: list[str] | None, event_id: str | None, kept: str | None
) -> Layout:
    from riata.cli.predictions import require_free

    require_format(form)
    require_free(kept, event_id)
    return replace(layout_of(form, label, drop, category, None, event_id, labelled=False), kept=kept)


def _unlabelled(rows: Rows, beside: Kept) -> Iterator[tuple[int, bytes]]:
    from riata.cli.labels import without_label

    return ((number, without_label(line, rows.form, rows.header)) for number, line in beside.taken(rows.lines))
