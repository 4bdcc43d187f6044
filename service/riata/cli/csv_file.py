"""CSV files: their delimiter, what their columns are, and their rows. The cells are read by the `csv` module.

The kind that a field has in the model decides how its column is read. Any other column is of numbers if every cell in the file
is a number or says that there is none, and none begins with a zero as postal codes do; and of lists if every cell is empty or a
list of numbers as JSON writes it, such as the points of a curve. So the file is read twice, and no row is sent before every row
has been seen.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import chain, islice
from typing import IO, Any, Final

import msgspec

from riata.base.errors import BadInput, Malformed
from riata.cli.source import LINE_BYTES_MAX, not_utf8
from riata.cli.tables import Column, Layout, Rows, found_roles, size_of
from riata.cli.written_numbers import PLAIN, Form, WrittenNumbers, reads
from riata.wire.given import ABSENT, OTHERS
from riata.wire.tables import BadRow, NoLabel, NotFinite, Roles, example, given_labels, label_of, number_in, require_positive

DELIMITERS: Final = ",;\t|"
DELIMITER_NAMES: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
CHUNK_ROWS: Final = 1000
LABELS_SHOWN: Final = 4
_LABELS_COUNTED: Final = 1000
_CLASSES: Final = 2  # meanings of labels; with fewer, words that mean nothing are not a few bad rows
_OPEN: Final = "unexpected end of data"  # what the `csv` module says of a quote without its end
_UNIQUE_FROM: Final = 50  # rows: below that, a column of all different words may be one by chance
_NUMBER: Final = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?")
ADVICE: Final = "the first line looks like data; name the columns with --header, such as --header label,age,city"


@dataclass(slots=True)
class _Seen:
    """What the cells of a column were so far. values: counted, up to `_LABELS_COUNTED`; afterwards the column has many.

    is_list : whether every cell is empty or in brackets; None before there is one
    """

    numbers: WrittenNumbers = field(default_factory=WrittenNumbers)
    is_list: bool | None = None
    empty: int = 0
    values: Counter[str] = field(default_factory=Counter)

    def add(self, cells: Sequence[str]) -> None:
        self.empty += sum(not cell.strip() for cell in cells)
        self.numbers.add(cells)
        if not self.numbers.has_form and self.is_list is not False:
            held = [cell for cell in map(str.strip, cells) if cell]
            first = self.is_list or not held or _is_list(held[0])
            self.is_list = first and all(cell[0] == "[" and cell[-1] == "]" for cell in held) if held else self.is_list
        if len(self.values) <= _LABELS_COUNTED:
            self.values.update(cell.strip() for cell in cells)


def csv_rows(source: IO[bytes], name: str, layout: Layout) -> Rows:
    """Look at every row of a CSV file with a header, and return how to read it again. Raises `BadInput`, `Malformed`."""
    csv.field_size_limit(LINE_BYTES_MAX)
    start = source.tell()
    header, delimiter, seen, rows = _look(source, name, layout.header)
    source.seek(start)
    names, hidden = column_names(header, [one.values for one in seen], name)
    roles = found_roles(layout, names, hidden)
    if roles.label is not None:
        labels = seen[names.index(roles.label)].values
        if roles.positive is not None and len(labels) <= _LABELS_COUNTED:
            require_positive((value or None for value in labels), roles.positive)
        if layout.watcher is not None:
            layout.watcher.labels(given_labels(labels.items(), roles))
    columns = [_column(one, of, roles, rows, delimiter) for one, of in zip(names, seen, strict=True)]
    read = [
        _reader(column.kind, of.numbers.form(delimiter))
        if column.name not in (roles.label, roles.event_id, roles.subject)
        else _word
        for column, of in zip(columns, seen, strict=True)
    ]
    about = f"{size_of(rows, len(names))}, separated by {DELIMITER_NAMES[delimiter]}"
    if layout.watcher is not None:
        layout.watcher.begins(rows)
    made = _rows(source, name, delimiter, layout.header is None, [*zip(names, read, strict=True)])
    return Rows(columns, roles, about, lines_of(made, roles, layout, name, "line"))


def _look(source: IO[bytes], name: str, given: str | None) -> tuple[list[str], str, list[_Seen], int]:
    """Read the whole file: its header, its delimiter, what its columns hold, and how many rows it has.

    given : names of the columns, if the first line is a row
    """
    text = TextIOWrapper(source, "utf-8-sig", newline="")
    try:
        _, first = _first_line(text)
        if not first:
            raise Malformed(f"{name}: contains no rows", "empty_body")
        delimiter = max(DELIMITERS, key=lambda mark: len(next(csv.reader([first], delimiter=mark))))
        header = next(csv.reader([first], delimiter=delimiter))
        if given is not None:
            header = given_header(given, header, name)
        lines, skipped = (text, 1) if given is None else (chain([first], text), 0)
        seen, rows = [_Seen() for _ in header], 0
        bad: list[tuple[int, str]] = []
        cells = _good(_cells(lines, name, delimiter, len(header), skipped), bad)
        while chunk := list(islice(cells, CHUNK_ROWS)):
            rows += len(chunk)
            for one, column in zip(seen, zip(*chunk, strict=True), strict=True):
                one.add(column)
        if len(bad) > rows:
            line, why = bad[0]
            raise Malformed(f"{name}: line {line + skipped}: {why}; so are most rows", "lengths_differ")
        if not rows:
            raise Malformed(f"{name}: contains a header and no rows", "empty_body")
        return header, delimiter, seen, rows + len(bad)
    except UnicodeDecodeError as error:
        raise not_utf8(name, error) from None
    finally:
        text.detach()


def _good(cells: Iterator[tuple[int, list[str] | str]], bad: list[tuple[int, str]]) -> Iterator[list[str]]:
    """Yield the rows that can be read; the others go to `bad`."""
    for line, row in cells:
        if isinstance(row, str):
            bad.append((line, row))
        else:
            yield row


def _first_line(text: TextIOWrapper) -> tuple[int, str]:
    """Read up to the first line that is not blank. Returns how many blank ones came before, and the line; empty at the end."""
    blank, first = 0, text.readline()
    while first and not first.strip():
        blank, first = blank + 1, text.readline()
    return blank, first


def _cells(lines: Iterable[str], name: str, delimiter: str, width: int, skipped: int) -> Iterator[tuple[int, list[str] | str]]:
    """Yield (line, cells) of each row after the header, or the reason in place of the cells of a row that cannot be read. The
    line is relative to what was read before. skipped : 1 if a header was, for lines that the reason names"""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num
        try:
            row = next(reader, None)
        except csv.Error as error:
            if str(error) == _OPEN:
                told = f"the quote that opens in the row of line {start + skipped + 1} is not closed before the end of the file"
                raise Malformed(f"{name}: {told}; close it, or leave the row out", "malformed") from None
            yield reader.line_num, f"{error}{_over(start, reader.line_num, skipped)}"
            continue
        if row is None:
            return
        if len(row) == width:
            yield reader.line_num, row
        elif row:
            yield reader.line_num, f"{len(row)} cells, but the header has {width}{_over(start, reader.line_num, skipped)}"


def _over(start: int, stop: int, skipped: int) -> str:
    """Where a row begins, if that is on another line than its end."""
    return f", in a row that begins on line {start + skipped + 1}" if stop > start + 1 else ""


def _rows(
    source: IO[bytes], name: str, delimiter: str, has_header: bool, columns: Sequence[tuple[str, Callable[[str], Any]]]
) -> Iterator[Row]:
    """Yield the rows. columns : their names, and how their cells are read"""
    text = TextIOWrapper(source, "utf-8-sig", newline="")
    blank, first = _first_line(text)
    lines, skipped = (text, 1) if has_header else (chain([first], text), 0)
    before = blank + skipped
    for at, row in _cells(lines, name, delimiter, len(columns), skipped):
        line = before + at
        if isinstance(row, str):
            yield line, BadRow(line, None, row, "lengths_differ" if "cells, but" in row else "malformed")
        else:
            yield line, [(one, of(cell)) for (one, of), cell in zip(columns, row, strict=True)]
    text.detach()


def _column(name: str, seen: _Seen, roles: Roles, rows: int, delimiter: str) -> Column:
    form, known = seen.numbers.form(delimiter), roles.kinds.get(name)
    own = "curve" if form is None and seen.is_list else "category" if form is None or seen.numbers.zeros else "number"
    if form is None and _is_truth(seen.values) and roles.kinds.get(OTHERS) != "off":
        own = "boolean"
    kind = known or own
    if name == roles.label:
        return Column(name, kind, _label_about(name, seen, roles, form))
    about = [f"{seen.empty:,} empty"] if seen.empty else []
    if known not in (None, own) and name not in roles.named:
        about.append("known to the model")
    if kind == "number" and form not in (None, PLAIN):
        about.append(f"written as {seen.numbers.example!r}")
    if kind == "category" and known is None:
        words = [value for value in seen.values if not reads(number_in, value)]
        if form is not None:
            about.append(f"{seen.numbers.zeros!r} begins with a zero: --number {name}?")
        elif 2 * len(words) < len(seen.values):
            about.append(f"most cells are numbers, but {words[0]!r} is not")
    if kind == "category" and name not in roles.drop and name not in (roles.event_id, roles.subject):
        if known is None and _are_times(seen.values):
            about.append(f'times? set encoder.fields to {{"{name}": "time"}}')
        elif _UNIQUE_FROM <= rows == len(seen.values):
            about.append(f"a value a row: --drop {name}?")
    return Column(name, kind, ", ".join(about))


def _are_times(values: Iterable[str]) -> bool:
    """Whether every cell is a time, or says that there is none."""
    from riata.wire.fields import moment_of

    words = [value for value in values if value.lower() not in ABSENT]
    return bool(words) and all(moment_of(word) is not None for word in words)


def _is_truth(values: Iterable[str]) -> bool:
    """Whether every cell is true or false, or says that there is none."""
    words = {value.lower() for value in values} - ABSENT
    return bool(words) and words <= {"true", "false"}


def _label_about(name: str, seen: _Seen, roles: Roles, form: Form | None) -> str:
    """The values of the label and what they mean. Raises `BadInput` (code `bad_label`) if they are words without a meaning."""
    common = [(value, count) for value, count in seen.values.most_common() if value]
    if form != PLAIN and not roles.classes:
        meant, unknown = _meant(common, roles)
        if len({*meant.values()}) < _CLASSES or sum(unknown.values()) > seen.values.total() / 2:
            words = ", ".join(repr(value) for value, _ in common[:LABELS_SHOWN])
            raise BadInput(
                f"column {name!r}: the labels are {words}; say which one means 1, for example --positive {common[-1][0]}, or "
                "--labels classes",
                "bad_label",
            )
        known = [(value, count) for value, count in common if value in meant]
        return ", ".join(f"{value} = {meant[value]:g}: {count:,}" for value, count in known[:LABELS_SHOWN])
    return ", ".join(f"{value}: {count:,}" for value, count in common[:LABELS_SHOWN]) + (
        " …" if len(common) > LABELS_SHOWN else ""
    )


def _meant(common: list[tuple[str, int]], roles: Roles) -> tuple[dict[str, float], dict[str, int]]:
    """What values of a label mean, and how many rows have each of those that mean nothing: these rows will be refused."""
    meant: dict[str, float] = {}
    unknown: dict[str, int] = {}
    for value, count in common:
        try:
            meant[value] = label_of(value, roles.positive)
        except (NoLabel, NotFinite):
            continue
        except ValueError:
            unknown[value] = count
    return meant, unknown


def _word(cell: str) -> str | None:
    return cell.strip() or None


def _list(cell: str) -> Any:
    """The list in a cell, None if the cell is empty; a list that is not JSON stays a text, which no curve is."""
    try:
        return json.loads(cell) if cell.strip() else None
    except ValueError:
        return cell.strip()


def _is_list(cell: str) -> bool:
    """Whether a cell is a list of numbers, or of points that are lists of numbers."""
    found = _list(cell)
    points = [found] if isinstance(found, list) and not isinstance((found or [None])[0], list) else found
    return isinstance(points, list) and all(isinstance(p, list) and {*map(type, p)} <= {int, float} for p in points)


def _reader(kind: str, form: Form | None) -> Callable[[str], Any]:
    """Return what reads a cell of a column of this kind. What a number or a time is written as is for the service to read."""
    if kind in ("category", "list", "text", "curve"):
        return _list if kind == "curve" else _word
    number = (form or PLAIN).number

    def read(cell: str) -> float | str | None:
        if kind == "boolean" and cell.strip().lower() in ("true", "false"):
            return cell.strip().lower() == "true"
        try:
            return number(cell)
        except ValueError:
            return _word(cell)

    return read


# The names of the columns of a CSV file: its first line, or what --header gives if the first line is data.


def given_header(header: str, cells: Sequence[str], name: str) -> list[str]:
    """Return the names of --header. Raises `BadInput` (code `bad_option`) if they are not as many as the cells of a row."""
    names = next(csv.reader([header]), [])
    if len(names) != len(cells):
        raise BadInput(f"{name}: --header names {len(names)} columns, but the first line has {len(cells)} cells", "bad_option")
    return names


def column_names(header: Sequence[str], values: Sequence[Container[str]], name: str) -> tuple[list[str], frozenset[str]]:
    """The names of the columns, and those to be left out: a first column without a name is the index of a DataFrame.

    values : what the cells below are, for each column

    Raises `Malformed` (code `bad_header`), which says so if the line looks like data: it has numbers where names would be.
    """
    names = [cell.strip() for cell in header]
    hidden: frozenset[str] = frozenset()
    wrong = _wrong(names, values)
    if wrong is None and names[0] == "" and len(names) > 1:
        names[0] = "(index)"
        hidden = frozenset(names[:1])
        wrong = _wrong(names, values)
    if wrong is not None:
        raise Malformed(f"{name}: {wrong}", "bad_header")
    return names, hidden


def _wrong(names: Sequence[str], values: Sequence[Container[str]]) -> str | None:
    numbers = [one for one in names if one and _NUMBER.fullmatch(one)]
    # 2019 may be the name of a column; 5.1 and -3 are not, nor is a number that is among the cells of its column.
    data = [one for one, below in zip(names, values, strict=True) if one in numbers and (not one.isdecimal() or one in below)]
    unnamed = next((place for place, one in enumerate(names, 1) if not one and (place > 1 or len(names) == 1)), None)
    twice = next((one for one in names if one and names.count(one) > 1), None)
    told = f"column {unnamed} has no name in the header" if unnamed is not None else None
    told = f"two columns are called {twice!r}" if twice is not None and told is None else told
    if (numbers and told is not None) or data or (len(numbers) == len(names) > 1):
        return f"{list(names[:3])!r}{'…' if len(names) > 3 else ''}: {ADVICE}"
    return told


# The rows of a table as lines of NDJSON. A row that cannot be one is left out, if somebody counts it, and the others go on.


_encode: Final = msgspec.json.Encoder().encode
Row = tuple[int, Iterable[tuple[str, Any]] | BadRow]  # its line or number, and its values by column, or why there are none


def lines_of(rows: Iterable[Row], roles: Roles, layout: Layout, name: str, place: str) -> Iterator[tuple[int, bytes]]:
    """Yield (line in the file, example as JSON) of the rows that can be learnt.

    name, place : of the file, and of what a row has a number, a line or a row, for the error

    Raises `BadInput`, which names the row and the column, if there is no watcher of rows that are left out.
    """
    watcher = layout.watcher
    for number, values in rows:
        try:
            if isinstance(values, BadRow):
                raise values
            made = example(values, roles, number)
        except BadRow as bad:
            if watcher is None:
                raise BadInput(f"{name}: {place} {bad.detail.removeprefix('row ')}", bad.code) from None
            watcher.refuses(bad)
            continue
        if watcher is not None:
            watcher.made(made)
        yield number, _encode(made)
