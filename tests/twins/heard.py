"""Slow, obvious twin of `riata.predict.heard`."""

from __future__ import annotations

import re

from riata.predict.one_row import BYTES_MAX


def hear_row(heard: bytes, before: bytes, behind: bytes, is_query: bool, size_max: int) -> bytes | None:
    """The row of a request that is answered by it; None where it has another head, or is left."""
    if len(heard) > size_max:
        return None
    if is_query:
        found = re.fullmatch(re.escape(before) + b"(?P<row>.*)" + re.escape(behind), heard, re.DOTALL)
    else:
        length = b"(?P<length>0|[1-9][0-9]{0,5})"
        found = re.fullmatch(re.escape(before) + length + re.escape(behind) + b"(?P<row>.*)", heard, re.DOTALL)
    if found is None or not (is_query or int(found["length"]) == len(found["row"])):
        return None
    row = found["row"]
    return row if len(row) <= BYTES_MAX and row.isascii() else None
