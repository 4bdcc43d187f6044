"""The command `riata predict FILE`: writes one prediction per row."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
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
    kinds_of,
)
from riata.cli.option_groups import takes_groups
from riata.cli.tables import ColumnOptions, Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from riata.cli.source import Rows
import csv
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from riata.base.directories import replaced
from riata.base.errors import RiataError
from riata.cli.parquet import Writer
from riata.cli.refusals import Refusals
from riata.cli.source import Chunk, body_of, line_type

if TYPE_CHECKING:
    from riata.client import Riata
    from riata.client.errors import RowProblem
    from riata.wire.tables import BadRow

EXAMPLE: Final = """Examples:

- `riata predict clicks.ndjson --model clicks --explain > predictions.ndjson` asks a service.
- `riata predict churn.csv --model-file churn.riata --out churn.parquet` needs no service, and writes a table.
- `riata predict churn.csv --model churn --id customer --out scored.csv` keeps the column `customer` beside the predictions."""


@takes_groups
def predict(
    file: Annotated[str, typer.Argument(help=f"Rows: {FORMATS}; may be gzipped; - is stdin.")],
    *,
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
        typer.Option(help="Add an interval of the probability at this level, such as 0.95; needs standard errors."),
    ] = None,
    model_file: Annotated[
        Path | None, typer.Option(help="Predict with this file of `riata fit --out` or `riata export`, without a service.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file, whose name ends in .csv, .parquet or .ndjson. [default: stdout]")
    ] = None,
    columns: ColumnOptions,
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
    from riata.cli.progress import row_progress
    from riata.cli.source import chunks, read_rows

    require_free(kept, columns.event_id)
    asking = Asking()
    layout = columns.layout(form, labelled=False, kept=kept, watcher=asking)
    with ExitStack() as stack:
        options = {"model": model, "explain": explain, "remember": remember, "level": level}
        service = cache(lambda: stack.enter_context(connected(url)))
        if model_file is None:
            ask, known = answers_of_service(service, options)
        else:
            ask, known = answers_of_file(_alone(model_file, explain or remember or level is not None))
        source = stack.enter_context(open_rows(file, replace(layout, known=known)))
        rows = read_rows(source, file, layout.line_form)
        beside = Kept(kept, is_table(source))
        write = stack.enter_context(writer_to(out, kept))
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
    """Say how many features were unknown, how many rows have no standard error and why, and which rows were rejected; ends with 1
    if any was."""
    if unknown:  # shows a column that is read otherwise than when the model learnt it, as without --category
        typer.echo(f"{unknown:,} of {features:,} features have no weight in the model", err=True)
    for why, rows in asking.without.items():
        typer.echo(f"{rows:,} rows have no standard error: {why}", err=True)
    if asking.refusals.rows:
        asking.refusals.show()
        typer.echo(f"{asking.refusals.rows:,} rows rejected ({asking.refusals.by_code()})", err=True)
        raise typer.Exit(1)


def _counted(answers: Answers) -> tuple[int, int]:
    """Return how many features of the answers are unknown to the model, and how many there are."""
    predicted = [answer for answer in answers if "error" not in answer]
    unknown = sum(answer["unknown_features"] for answer in predicted)
    return unknown, unknown + sum(answer["known_features"] for answer in predicted)


def _unlabelled(rows: Rows, beside: Kept) -> Iterator[tuple[int, bytes]]:
    from riata.cli.model_setup import without_label

    return ((number, without_label(line, rows.form, rows.header)) for number, line in beside.taken(rows.lines))


# Where `riata predict` gets its answers, a service or a model in a file, and where it writes them: lines of JSON or a table.


Answers = Sequence[dict[str, Any]]
Ask = Callable[[Chunk, str], Answers]  # of the rows of a chunk, which is in this format. Raises `NotPredicted`
Kinds = Callable[[], Mapping[str, str]]  # of the fields that the model knows
COLUMNS: Final = ("probability", "margin", "label", "std_error")
WHY_NOT: Final = "std_error_why_not"  # of a row that has none although the model has standard errors
FIGURES: Final = frozenset(
    {*COLUMNS, WHY_NOT, "known_features", "unknown_features", "prediction_id", "interval", "contributions", "bias"}
)
SUFFIXES: Final = (".csv", ".parquet", ".ndjson")
Write = Callable[[Answers], None]


# Asks for the predictions of a file, in order. A row that cannot be predicted has an error in its place; the others go on.


class NotPredicted(RiataError):
    """No row of a chunk was predicted, because of the rows in `errors`, or of more."""

    code = "rows_refused"

    def __init__(self, detail: str, errors: Sequence[RowProblem]) -> None:
        super().__init__(detail)
        self.errors = errors


class Asking(Watcher):
    """Watches the rows of a table, and asks for those that are read.

    refusals : what was not predicted so far
    without  : how many rows have no standard error although the model has them, by the reason
    """

    def __init__(self) -> None:
        self.refusals, self.without = Refusals(), Counter[str]()
        self._left: deque[tuple[int, dict[str, Any]]] = deque()  # rows of a table that are left out

    def refuses(self, row: BadRow) -> None:
        """Note a row that is left out."""
        self.refusals.add_row(row)
        reason = row.reason if row.column is None else f"column {row.column!r}: {row.reason}"
        self._left.append((row.row, _error(row.row, row.code, reason)))

    def answers(self, ask: Ask, chunk: Chunk, form: str, header: bytes) -> Answers:
        """Return an answer or an error for each row of a chunk. Raises `NotPredicted` if no row can be blamed."""
        found: list[dict[str, Any]] = [{} for _ in chunk.lines]
        at, part = list(range(len(chunk.lines))), chunk
        while at:
            try:
                answers = ask(part, form)
            except NotPredicted as error:
                named = {at[one.index]: one for one in error.errors if 0 <= one.index < len(at)}
                if not named:
                    raise
                self.refusals.add(len(named), error.errors, part.numbers)
                for i, one in named.items():
                    found[i] = _error(chunk.numbers[i], one.code, one.detail)
                at = [i for i in at if i not in named]  # an answer names the first few: ask again about the others
                lines = [chunk.lines[i] for i in at]
                part = Chunk(body_of(b"\n".join(lines) + b"\n", header), [chunk.numbers[i] for i in at], lines)
                continue
            for i, answer in zip(at, answers, strict=True):
                found[i] = answer
            self.without.update(answer[WHY_NOT] for answer in answers if WHY_NOT in answer)
            break
        return found

    def with_left_out(self, answers: Answers, numbers: Sequence[int]) -> Answers:
        """Return answers of the rows with these numbers, with the errors of rows of the table that come between them."""
        if not self._left:
            return answers
        found = [*zip(numbers, answers, strict=True)]
        while self._left and self._left[0][0] < numbers[-1]:
            found.append(self._left.popleft())
        return [answer for _, answer in sorted(found, key=lambda one: one[0])]

    def rest(self) -> Answers:
        """Return the errors of rows of the table that come after all others."""
        rest = [error for _, error in self._left]
        self._left.clear()
        return rest


def _error(line: int, code: str, detail: str) -> dict[str, Any]:
    return {"line": line, "error": code, "detail": detail}


def answers_of_service(service: Callable[[], Riata], options: dict[str, Any]) -> tuple[Ask, Kinds]:
    """Ask a service, with these options of `Riata.predict`."""
    from riata.client import ApiRefused

    def ask(chunk: Chunk, form: str) -> Answers:
        try:
            answers: Answers = service().predict(chunk.body, content_type=line_type(form), **options)
        except ApiRefused as error:
            if error.code != NotPredicted.code:
                raise
            raise NotPredicted(error.detail, error.errors) from None
        return answers

    return ask, lambda: kinds_of(service(), options["model"])


def answers_of_file(path: Path) -> tuple[Ask, Kinds]:
    """Ask the model in a file, also for the kinds of its fields. Raises `BadInput` if there is none."""
    from riata.client.errors import RowProblem
    from riata.model import Model, documents
    from riata.wire.given import OTHERS

    if not path.is_file():
        raise BadInput(f"{path}: there is no such file", "no_file")
    model = Model.from_file(path)

    def ask(chunk: Chunk, form: str) -> Answers:
        scores, errors = model.score_body(chunk.body, line_type(form))
        if errors:
            problems = [RowProblem(wrong.index, wrong.code, wrong.detail) for wrong in errors]
            raise NotPredicted("rows cannot be predicted", problems)
        return documents(scores, model.classes)

    return ask, lambda: model.fields | ({} if model.meets_fields else {OTHERS: "off"})


@contextmanager
def writer_to(out: Path | None, kept: str | None = None) -> Iterator[Write]:
    """Yield what writes answers: lines of JSON to stdout, or to the file `out`, which appears when it is complete.

    kept : a column of texts that answers have beside the figures; it comes first

    Raises `BadInput` (code `bad_option`) if its name has no known suffix.
    """
    if out is None:
        yield lambda answers: typer.echo("\n".join(map(_line, answers)))
        return
    if out.suffix not in SUFFIXES:
        raise BadInput(f"--out {out.name}: expected a name that ends in .csv, .parquet or .ndjson", "bad_option")
    texts = () if kept is None else (kept,)
    columns = (*texts, *COLUMNS)
    with ExitStack() as stack:
        part = stack.enter_context(replaced(out))
        if out.suffix == ".parquet":
            writer = stack.enter_context(Writer(part, out.name, columns, texts))
            yield writer.write
            writer.close()
        else:
            with part.open("w", encoding="utf-8", newline="") as file:
                if out.suffix == ".ndjson":
                    yield lambda answers: file.writelines(_line(answer) + "\n" for answer in answers)
                else:
                    table = csv.writer(file, lineterminator="\n")
                    table.writerow(columns)
                    yield lambda answers: table.writerows([[answer.get(name) for name in columns] for answer in answers])


def require_free(column: str | None, event_id: str | None) -> None:
    """Raise `BadInput` (code `bad_option`) if answers have a figure of this name, or if there is a column of ids too."""
    if column is not None and event_id is not None:
        raise BadInput("--event-id: --id leaves its column out of the features already; give one of them", "bad_option")
    if column in FIGURES:
        raise BadInput(f"--id {column}: predictions have a column of this name; rename it", "bad_option")


class Kept:
    """Takes a column out of the rows that are asked, and puts it beside their answers.

    column : its name; None to keep none
    """

    def __init__(self, column: str | None, of_table: bool) -> None:
        self._column = column
        self._key = "event_id" if of_table else column  # the rows of a table have the column as their event id
        self._held: dict[int, str | None] = {}

    def taken(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yield numbered lines without it. Raises `BadInput` (code `no_column`) if a row does not have it."""
        if self._key is None:
            yield from lines
            return
        for number, line in lines:
            row = _object(line)
            if row is None or (self._key not in row and self._key != "event_id"):
                wanted = f"expected a row in JSON with the key {self._column!r}" if row is None else f"no key {self._column!r}"
                raise BadInput(f"line {number}: --id: {wanted}", "no_column")
            value = row.pop(self._key, None)
            self._held[number] = None if value is None else value if isinstance(value, str) else json.dumps(value)
            yield number, json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()

    def beside(self, answers: Answers, numbers: Sequence[int]) -> Answers:
        """Return the answers of the rows with these numbers, with the column."""
        if self._column is None:
            return answers
        return [{self._column: self._held.pop(number), **answer} for number, answer in zip(numbers, answers, strict=True)]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _line(answer: dict[str, Any]) -> str:
    return json.dumps(answer, separators=(",", ":"))
