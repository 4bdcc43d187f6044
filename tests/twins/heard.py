"""Slow, obvious twins of `riata.predict.heard`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from riata.predict.one_row import BYTES_MAX, LEFT, RowAnswer

TWINS_OF = ("predict/heard",)


def hear_rows(heard: bytes, before: bytes, behind: bytes, is_query: bool, size_max: int) -> bytes | None:
    """The row of a request; None where it has another head."""
    if len(heard) > size_max:
        return None
    if is_query:
        found = re.fullmatch(re.escape(before) + b"(?P<row>.*)" + re.escape(behind), heard, re.DOTALL)
    else:
        length = b"(?P<length>0|[1-9][0-9]{0,5})"
        found = re.fullmatch(re.escape(before) + length + re.escape(behind) + b"(?P<row>.*)", heard, re.DOTALL)
    if found is None or not (is_query or int(found["length"]) == len(found["row"])):
        return None
    return found["row"]


def answer_rows(
    rows: Sequence[bytes | None], groups: Sequence[int], first: int, answer: Callable[[bytes], RowAnswer | None]
) -> tuple[int, list[RowAnswer]]:
    """Where the group of the row at `first` ends, and the answers to its rows."""
    stop = first
    while stop < len(rows) and groups[stop] == groups[first]:
        stop += 1
    return stop, [
        LEFT if row is None or len(row) > BYTES_MAX or not row.isascii() else answer(row) or LEFT for row in rows[first:stop]
    ]
