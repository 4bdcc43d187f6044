"""Queries by `urllib.parse`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from riata.wire.rows import Rules
from riata.wire.scan.reference import Record, feature_records

TWINS_OF = ("predict/query",)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def decode_part(text: bytes, name: bool) -> tuple[int, bytes]:
    """Where a name or a value ends, and what it is; -1 if a byte cannot be in a query."""
    end = re.compile(b"[&=]" if name else b"&").search(text)
    part = text[: end.start()] if end else text
    if any(not 0x21 <= c <= 0x7E or c == 0x23 for c in part):
        return -1, b""
    return len(part), unquote_to_bytes(part.replace(b"+", b" "))


def query_records(query: bytes, rules: Rules) -> list[Record]:
    """What `feature_records` makes of every pair, numbers read by Python."""
    records: list[Record] = []
    for name, text in parse_qsl(query.decode(), keep_blank_values=True):
        value: Any = float(text) if _NUMBER.fullmatch(text) else text
        records.extend(feature_records(name, value, rules))
    return records


def join_lists(names: list[tuple[int, bool]]) -> list[bool]:
    """Of (fingerprint, whether it is the key of a string): which stay keys."""
    return [not is_string or (name, True) not in names[:i] for i, (name, is_string) in enumerate(names)]
