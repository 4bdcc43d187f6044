"""Opens files of rows: CSV and Parquet files become lines of NDJSON, so that every verb reads them like other files.

A row of a CSV file is on the line of the NDJSON on which it ends in the file, and row i of a Parquet file on line i. So a
line that is named is one of the file. What the columns are is found before the first row is read, and shown.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedReader
from typing import IO, Final, cast

import typer

from riata.cli.source import Parts, can_go_back, open_source
from riata.cli.tables import TABLES, Layout, shown, with_known

SUFFIXES: Final = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
PARQUET_MAGIC: Final = b"PAR1"


@contextmanager
def open_rows(name: str, layout: Layout) -> Iterator[BufferedReader]:
    """Open a file of rows, or stdin for `-`. Raises `BadInput`, `Malformed`."""
    with open_source(name) as source, as_lines(source, name, layout) as lines:
        yield lines


@contextmanager
def as_lines(source: BufferedReader, name: str, layout: Layout) -> Iterator[BufferedReader]:
    """Yield `source` itself, or, if it is a table, its rows as NDJSON; tells on stderr what the columns are.

    Raises `BadInput`, `Malformed`.
    """
    form = layout.form if layout.form != "auto" else _table_form(source, name)
    if form not in TABLES:
        layout.require_no_columns(name)
        yield source
        return
    from riata.cli.csv_file import csv_rows  # other files do without these two
    from riata.cli.parquet import parquet_rows

    with tempfile.TemporaryFile() as copy:
        whole: IO[bytes] = cast("IO[bytes]", source)
        if not can_go_back(source):  # it is read twice: first for the kinds of its columns
            shutil.copyfileobj(source, copy)
            copy.seek(0)
            whole = copy
        layout = with_known(layout)
        if layout.kept is not None:  # a table has it as the id of its rows: it is no feature
            layout = replace(layout, roles=replace(layout.roles, event_id=layout.kept))
        rows = (csv_rows if form == "csv" else parquet_rows)(whole, name, layout)
        typer.echo(shown(name, rows, layout.labelled), err=True)
        yield BufferedReader(_Lines(rows.lines))


def is_table(lines: BufferedReader) -> bool:
    """Whether lines of `open_rows` are those of a table."""
    return isinstance(lines.raw, _Lines)


def _table_form(source: BufferedReader, name: str) -> str:
    if source.peek(len(PARQUET_MAGIC))[: len(PARQUET_MAGIC)] == PARQUET_MAGIC:
        return "parquet"
    plain = name.removesuffix(".gz").lower()
    return next((form for suffix, form in SUFFIXES.items() if plain.endswith(suffix)), "auto")


class _Lines(Parts):
    """Numbered lines as a file: each is on its own line number, and the lines between are blank."""

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        super().__init__(_placed(lines))


def _placed(lines: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    last = 0
    for number, line in lines:
        yield b"\n" * (number - last - 1) + line + b"\n"
        last = number
