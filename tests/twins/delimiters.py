"""Delimiters of a row, byte by byte."""

from __future__ import annotations

TWINS_OF = ("wire/scan/delimiters",)


def _is_mark(c: int, form: int) -> bool:
    if form == 0:
        return c < 32 or c == 127 or c in b'"\\,}'
    return c <= 32 or c == 127 or c == 58 or c == (124 if form == 1 else 35)


def mark_row(data: bytes, p: int, stop: int, form: int) -> list[int]:
    """Positions up to the first newline; or, in whole blocks of 64 bytes, as far as the one that holds `stop`."""
    found = []
    while p <= stop:
        for at in range(p, p + 64):
            if _is_mark(data[at], form):
                found.append(at)
            if data[at] == 10:
                return found
        p += 64
    return found


def take_in(body: bytes) -> list[int]:
    """0, and the position after each newline and after the one that is appended to the body."""
    return [0, *(i + 1 for i, c in enumerate(body + b"\n") if c == 10)]
