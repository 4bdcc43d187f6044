"""The command `riata observe FILE`: sends labelled rows to a running service."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import (
    DEFAULT_URL,
    FORMATS,
    FormatOption,
    LabelWeightOption,
    LearnerOption,
    ModelOption,
    RowsPerRequest,
    UrlOption,
    connected,
    require_format,
)
from riata.cli.interactions import InteractionsOption, crosses_of
from riata.cli.label_check import setting_of
from riata.cli.sending import AgainOption, Sending, SourceOption, source_of
from riata.cli.tables import (
    CategoryOption,
    DropOption,
    EventIdOption,
    HeaderOption,
    LabelOption,
    PositiveOption,
    SubjectOption,
    layout_of,
)

EXAMPLE: Final = """Examples:

- `riata observe clicks.ndjson.gz` sends the rows of a file to the model `default`.
- `riata observe churn.csv --label churned --drop id --model churn --labels 0/1` creates a model for a table.
- `zcat clicks.vw.gz | riata observe - --model clicks --labels=-1/+1` creates the model `clicks` if it does not exist."""


def observe(
    file: Annotated[str, typer.Argument(help=f"Labelled rows: {FORMATS}; may be gzipped; - is stdin.")],
    url: UrlOption = DEFAULT_URL,
    model: ModelOption = "default",
    form: FormatOption = "auto",
    rows_per_request: RowsPerRequest = 1000,
    labels: Annotated[
        str | None, typer.Option(help="0/1, -1/+1, real or classes: create the model with these labels if it does not exist.")
    ] = None,
    learner: LearnerOption = None,
    label_weight: LabelWeightOption = None,
    label: LabelOption = None,
    drop: DropOption = None,
    category: CategoryOption = None,
    header: HeaderOption = None,
    positive: PositiveOption = None,
    event_id: EventIdOption = None,
    subject: SubjectOption = None,
    interactions: InteractionsOption = None,
    source: SourceOption = None,
    again: AgainOption = False,
) -> None:
    """Send a file of labelled rows to a running service.

    What the columns of a CSV or Parquet file are is found and shown before anything is sent: the label, numbers, and categories.
    Every row counted as accepted is durable. Rejected rows are counted by code, the first ten are reported with line and column,
    and the exit code is then 1.

    Each row has an event id: a digest of the name of the file, the values of the row, and how often the same row came before in
    the file. So a file may be sent again after Ctrl-C or a crash, or when it has grown or was corrected: only rows that are new
    are learnt. Rows of stdin have ids with --source NAME only.
    """
    from riata.cli.model_setup import POSITIVE_WEIGHT, ensure_model
    from riata.cli.open_table import open_rows
    from riata.cli.progress import row_progress
    from riata.cli.source import read_rows
    from riata.cli.waiting import behind

    require_format(form)
    if (learner is not None or label_weight is not None or interactions) and labels is None:
        raise BadInput("--learner, --label-weight and -q apply to a new model only; give its --labels too", "bad_option")
    settings = [] if label_weight is None else [f"{POSITIVE_WEIGHT}={label_weight}"]
    sending = Sending(model, source_of(file, source, again), file)
    layout = layout_of(form, label, drop, category, positive, event_id, subject, labels=labels, watcher=sending, header=header)
    with sending.ending(), open_rows(file, layout) as opened, connected(url) as riata:
        begin = partial(read_rows, opened, file, layout.line_form)
        rows = sending.judge(opened, begin, setting_of(riata, model, labels))
        crosses = crosses_of(interactions or (), rows.form, rows.head)
        if labels is not None and ensure_model(riata, model, labels, learner, crosses, settings):
            crossed = f" and {len(crosses)} crosses" if crosses else ""
            typer.echo(f"created model {model!r} with labels {labels}{crossed}", err=True)
        with row_progress("observed") as advance:
            sending.run(riata, rows, rows_per_request, advance)
        if sending.accepted and (told := behind(riata, model)):
            typer.echo(told, err=True)
