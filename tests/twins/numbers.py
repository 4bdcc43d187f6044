"""Decimal text to a double the obvious way: a regular expression, and Python's float."""

from __future__ import annotations

import re

TWINS_OF = ("text",)

_JSON = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ANY = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def parse_number(text: bytes, json: bool) -> float | None:
    """The number; None if it is none in this grammar."""
    return float(text) if (_JSON if json else _ANY).fullmatch(text) else None
