"""The command `riata observe FILE`: sends labelled rows to a running service."""

from __future__ import annotations

import gzip
import os
import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from riata.base.errors import BadInput, RiataError
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
)
from riata.cli.model_setup import HEAD_ROWS, InteractionsOption, crosses_of, require_own_labels, setting_of
from riata.cli.option_groups import takes_groups
from riata.cli.refusals import Refusals
from riata.cli.source import GZIP_MAGIC, Chunk, Rows, can_go_back, chunks, line_type
from riata.cli.tables import ColumnOptions, PositiveOption, SubjectOption, Watcher
from riata.wire.readers import FILE_READERS, reader_named

if TYPE_CHECKING:
    from riata.client import Observed, Riata
    from riata.client.errors import RowProblem
    from riata.wire.given import Given
    from riata.wire.row_ids import Told
    from riata.wire.tables import BadRow

EXAMPLE: Final = """Examples:

- `riata observe clicks.ndjson.gz` sends the rows of a file to the model `default`.
- `riata observe churn.csv --label churned --drop id --model churn --labels 0/1` creates a model for a table.
- `zcat clicks.vw.gz | riata observe - --model clicks --labels=-1/+1` creates the model `clicks` if it does not exist."""
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source", metavar="NAME",
        help="Name of the rows, part of their event ids: a row that was sent under it before is not learnt again. "
        "[default: the name of the file, without directory and suffix; of stdin none]",
    ),
]  # fmt: skip
AgainOption = Annotated[bool, typer.Option("--again", help="Learn all rows again, also those that were sent before.")]
INTERRUPTED: Final = 130  # the exit code of a program that Ctrl-C ended
_REUSED: Final = "this row was sent before with other types of values, or its event_id with other values; it is not learnt again"
_SUFFIXES: Final = (".csv", ".tsv", ".txt", ".parquet", ".ndjson", ".jsonl", ".json")
_SAMPLE_BYTES: Final = 2**22  # of a file, whose rows are counted to guess how many it has


@takes_groups
def observe(
    file: Annotated[str, typer.Argument(help=f"Labelled rows: {FORMATS}; may be gzipped; - is stdin.")],
    *,
    url: UrlOption = DEFAULT_URL,
    model: ModelOption = "default",
    form: FormatOption = "auto",
    rows_per_request: RowsPerRequest = 1000,
    labels: Annotated[
        str | None, typer.Option(help="0/1, -1/+1, real or classes: create the model with these labels if it does not exist.")
    ] = None,
    learner: LearnerOption = None,
    label_weight: LabelWeightOption = None,
    columns: ColumnOptions,
    positive: PositiveOption = None,
    subject: SubjectOption = None,
    interactions: InteractionsOption = None,
    source: SourceOption = None,
    again: AgainOption = False,
) -> None:
    """Send a file of labelled rows to a running service.

    Of a CSV or Parquet file the command shows what each column is before anything is sent: label, number or category. Fields that
    the model knows are read by their kinds (`riata fields`).
    Every row counted as accepted is durable. Rejected rows are counted by code, the first ten are reported with line and column,
    and the exit code is then 1.

    Each row has an event id: a digest of the name of the file, the values of the row, and how often the same row came before in
    the file. So a file may be sent again after Ctrl-C or a crash, or when it has grown or was corrected: only rows that are new
    are learnt. Rows of stdin have ids with --source NAME only.
    """
    from riata.cli.connect import behind, kinds_of
    from riata.cli.model_setup import POSITIVE_WEIGHT, ensure_model
    from riata.cli.open_table import open_rows
    from riata.cli.progress import row_progress
    from riata.cli.source import read_rows

    if (learner is not None or label_weight is not None or interactions) and labels is None:
        raise BadInput("--learner, --label-weight and -q apply to a new model only; give its --labels too", "bad_option")
    settings = [] if label_weight is None else [f"{POSITIVE_WEIGHT}={label_weight}"]
    sending = Sending(model, source_of(file, source, again), file)
    layout = columns.layout(form, positive, subject, labels=labels, watcher=sending)
    with sending.ending(), ExitStack() as stack:
        service = cache(lambda: stack.enter_context(connected(url)))
        layout = replace(layout, known=lambda: kinds_of(service(), model))
        opened, riata = stack.enter_context(open_rows(file, layout)), service()
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


# Sends the rows of a file to a model: each with an event id of its own, bad rows left out and counted, ready to be run again.
#
# An id is a digest of the name of the source, the values of the row, and how often the same row came before in the file
# (`riata.wire.row_ids`). So a file that is sent again, after it grew or after a crash, adds only the rows that are new.


def source_of(file: str, name: str | None, again: bool) -> str | None:
    """Return the name under which rows are sent, None if they get no ids. Raises `BadInput` (code `bad_option`)."""
    if name is None and file != "-":
        base = PurePath(file).name
        base = base.removesuffix(".gz")
        suffixes = [*_SUFFIXES, *(suffix for reader in FILE_READERS.values() for suffix in reader.suffixes)]
        name = next((base[: -len(suffix)] for suffix in suffixes if base.lower().endswith(suffix)), base) or base
    if not again:
        return name
    if name is None:
        raise BadInput("--again: rows of stdin have ids only with --source NAME, and are always learnt without", "bad_option")
    return f"{name}#{secrets.token_hex(4)}"


class Sending(Watcher):
    """Sends rows to a model, and counts what becomes of them. `source`: the name of the rows; None: they get no ids."""

    def __init__(self, model: str, source: str | None, file: str) -> None:
        self.accepted = self.duplicate = 0
        self.refusals = Refusals()
        self.rows: int | None = None  # of a table
        self._model, self._source, self._file = model, source, file
        self._told: deque[Told] = deque()  # of rows of a table that were read and not sent
        self._last = 0  # line up to which every row has its answer
        self._warned = self._by_row = False
        self._labels: Mapping[Given, int] | None = None  # of a table
        self._ids = None
        if source is not None:
            from riata.wire.row_ids import RowIds

            self._ids = RowIds(source)

    def begins(self, rows: int) -> None:
        """There are so many rows in a table."""
        self.rows = rows

    def labels(self, found: Mapping[Given, int]) -> None:
        """These are the labels of a table."""
        self._labels = found

    def judge(self, opened: BufferedReader, rows: Callable[[], Rows], setting: str | None) -> Rows:
        """Begin to read the rows, after a look at their labels: all of a table and of a file, the first 1,000 of stdin.

        rows    : begins to read them, from where `opened` is
        setting : `labels` of the model; None if it is not known, then the service judges each request

        Raises `OtherLabels` if all labels are those of another setting.
        """
        start = opened.tell() if can_go_back(opened) else None
        found = rows()
        if setting is None:
            return found
        self._by_row = True
        if self._labels is not None:
            require_own_labels(self._labels.items(), setting, is_table=True)
            return found
        first = [] if start is not None else [*islice(found.lines, HEAD_ROWS)]
        label = reader_named(found.form)[1].label
        given = Counter(label(line, found.header) for _, line in first or found.lines)
        require_own_labels(given.items(), setting, is_table=False)
        if start is None:
            return replace(found, lines=chain(first, found.lines))
        opened.seek(start)
        return rows()

    def made(self, example: dict[str, Any]) -> None:
        """Note the next row of a table."""
        if self._ids is not None:
            self._told.append(self._ids.told(example))

    def refuses(self, row: BadRow) -> None:
        """Count a row of a table that is left out."""
        self.refusals.add_row(row)

    def run(self, riata: Riata, rows: Rows, rows_per_request: int, advance: Callable[[int], None]) -> None:
        """Send every row. Raises what the client raises."""
        self._warn(riata)
        for chunk in chunks(rows.lines, rows_per_request, rows.header):
            self._count(self._send(riata, chunk, line_type(rows.form)), chunk)
            self._last = chunk.numbers[-1]
            advance(len(chunk.numbers))

    def _send(self, riata: Riata, chunk: Chunk, content_type: str) -> Observed:
        from riata.client import ApiNotFound, ApiRefused
        from riata.client.observing import none_accepted

        try:
            return riata.observe(
                chunk.body, model=self._model, content_type=content_type, ids=self._ids_of(chunk), by_row=self._by_row
            )
        except ApiNotFound as error:
            raise BadInput(f"{error.detail}; give --labels to create it, such as --labels 0/1", error.code) from None
        except ApiRefused as error:
            return none_accepted(error)

    def _ids_of(self, chunk: Chunk) -> bytes | None:
        if self._ids is None:
            return None
        if self.rows is None:
            return self._ids.ids([*map(self._ids.line_digest, chunk.lines)])
        return self._ids.ids(self._ids.digests([self._told.popleft() for _ in chunk.lines]))

    def _count(self, answer: Observed, chunk: Chunk) -> None:
        self.accepted += answer.accepted
        self.duplicate += answer.duplicate
        self.refusals.add(answer.rejected, self._errors_of(answer), chunk.numbers, answer.codes)
        if answer.duplicate and not self._warned and self._source is not None:
            self._warned = True
            told = "rows of this file were sent before; they are not learnt again"
            typer.echo(f"{told} (--again learns all of them again, --source NAME says that they are others)", err=True)

    def _errors_of(self, answer: Observed) -> list[RowProblem]:
        if self._ids is None:
            return answer.errors
        return [replace(one, detail=_REUSED) if one.code == "id_reused" else one for one in answer.errors]

    def _warn(self, riata: Riata) -> None:
        """Say before a row is sent if the file is longer than the service remembers ids."""
        known = riata.version().get("dedupe_events")
        if self._source is None or known is None:
            return
        rows = self.rows if self.rows is not None else rows_about(self._file)
        if rows > known:
            about = "" if self.rows is not None else "about "
            typer.echo(
                f"{self._file} has {about}{rows:,} rows, and the service knows the ids of the last {known:,} events "
                "(dedupe_events): if it is sent again, rows before these are learnt again",
                err=True,
            )

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Tell the counts at the end, whatever ends it. Ctrl-C and refused rows are exit codes."""
        try:
            yield
        except KeyboardInterrupt:
            self._end("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except (RiataError, OSError):
            if self._last:
                self._end("stopped")
            raise
        self._tell()
        if self.refusals.rows:
            raise typer.Exit(1)

    def _end(self, word: str) -> None:
        self._tell()
        where = f"{word} after line {self._last}"
        if self._source is None:
            typer.echo(f"{where}: go on from line {self._last + 1}; rows of the request under way may be learnt", err=True)
        else:
            option = f" with --source {self._source}" if "#" in self._source else ""
            typer.echo(f"{where}: send the file again{option}; rows that were sent are not learnt again", err=True)

    def _tell(self) -> None:
        self.refusals.show()
        by_code = self.refusals.by_code()
        codes = f" ({by_code})" if by_code else ""
        typer.echo(f"{self.accepted} accepted, {self.duplicate} duplicate, {self.refusals.rows} rejected{codes}")
        if self.duplicate and self._source is not None:
            typer.echo(f"{self.duplicate:,} rows were sent before under the name {self._source!r}", err=True)


def rows_about(file: str) -> int:
    """Return about how many rows a file of lines has, from its beginning; 0 if that cannot be said, as of stdin."""
    if file == "-" or not os.path.isfile(file):
        return 0
    size = os.path.getsize(file)
    with Path(file).open("rb") as plain:
        packed = plain.read(2) == GZIP_MAGIC
        plain.seek(0)
        unpacked = cast("IO[bytes]", gzip.GzipFile(fileobj=plain)) if packed else plain
        try:
            sample = unpacked.read(_SAMPLE_BYTES)
        except (OSError, EOFError):
            return 0  # damaged, which is said when it is read
        return sample.count(b"\n") * size // max(plain.tell(), 1)
