"""The names of the columns of a CSV file: its first line, or what --header gives if the first line is data."""

from __future__ import annotations

import csv
import re
from collections.abc import Container, Sequence
from typing import Final

from riata.base.errors import BadInput, Malformed

_NUMBER: Final = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?")
ADVICE: Final = "the first line looks like data; name the columns with --header, such as --header label,age,city"


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
