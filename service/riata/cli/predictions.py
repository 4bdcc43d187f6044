"""Where `riata predict` gets its answers, a service or a model in a file, and where it writes them: lines of JSON or a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from riata.base.directories import replaced
from riata.base.errors import BadInput
from riata.cli.connect import Refusals
from riata.cli.parquet import Writer
from riata.cli.source import Chunk, line_type

if TYPE_CHECKING:
    from riata.client import Riata

COLUMNS: Final = ("probability", "margin", "label", "std_error")
SUFFIXES: Final = (".csv", ".parquet", ".ndjson")
Answers = Sequence[dict[str, Any]]
Ask = Callable[[Chunk, str], Answers]  # of the rows of a chunk, which is in this format
Write = Callable[[Answers], None]


def answers_of_service(riata: Riata, options: dict[str, Any]) -> Ask:
    """Ask a service, with these options of `Riata.predict`."""
    from riata.client import ApiRefused

    def ask(chunk: Chunk, form: str) -> Answers:
        try:
            answers: Answers = riata.predict(chunk.body, content_type=line_type(form), **options)
        except ApiRefused as error:
            Refusals().add(len(error.errors), error.errors, chunk.numbers)
            raise
        return answers

    return ask


def answers_of_file(path: Path) -> Ask:
    """Ask the model in a file. Raises `BadInput` if there is none."""
    from riata.model import Model, documents

    if not path.is_file():
        raise BadInput(f"{path}: there is no such file", "no_file")
    model = Model.from_file(path)

    def ask(chunk: Chunk, form: str) -> Answers:
        scores, errors = model.score_body(chunk.body, line_type(form))
        if errors:
            wrong = errors[0]
            raise BadInput(f"line {chunk.numbers[wrong.index]}: {wrong.detail}", wrong.code)
        return documents(scores, model.classes)

    return ask


@contextmanager
def writer_to(out: Path | None) -> Iterator[Write]:
    """Yield what writes answers: lines of JSON to stdout, or to the file `out`, which appears when it is complete.

    Raises `BadInput` (code `bad_option`) if its name has no known suffix.
    """
    if out is None:
        yield lambda answers: typer.echo("\n".join(map(_line, answers)))
        return
    if out.suffix not in SUFFIXES:
        raise BadInput(f"--out {out.name}: expected a name that ends in .csv, .parquet or .ndjson", "bad_option")
    with ExitStack() as stack:
        part = stack.enter_context(replaced(out))
        if out.suffix == ".parquet":
            writer = stack.enter_context(Writer(part, out.name, COLUMNS))
            yield writer.write
            writer.close()
        else:
            with part.open("w", encoding="utf-8", newline="") as file:
                if out.suffix == ".ndjson":
                    yield lambda answers: file.writelines(_line(answer) + "\n" for answer in answers)
                else:
                    table = csv.writer(file, lineterminator="\n")
                    table.writerow(COLUMNS)
                    yield lambda answers: table.writerows([[answer[name] for name in COLUMNS] for answer in answers])


def _line(answer: dict[str, Any]) -> str:
    return json.dumps(answer, separators=(",", ":"))
