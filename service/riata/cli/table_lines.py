"""The rows of a table as lines of NDJSON. A row that cannot be one is left out, if somebody counts it, and the others go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from riata.base.errors import BadInput
from riata.cli.tables import Layout
from riata.wire.tables import BadRow, Roles, example

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
