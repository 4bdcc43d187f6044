"""Decimal text to a double the obvious way: a regular expression, and exact fractions."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np

from riata.base.arrays import U8

TWINS_OF = ("wire/scan/numbers", "wire/scan/simple_numbers")

_JSON = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_C = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_LOOKS = re.compile(r"[+-]?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")


def _match(text: str, json: bool) -> re.Match[str] | None:
    return (_JSON if json else _C).fullmatch(text)


def _text(data: U8, start: int, stop: int) -> str:
    return data[start:stop].tobytes().decode("latin-1")


def parse_number(data: U8, start: int, stop: int, json: bool) -> tuple[float, int]:
    """(value, 0) where the grammar holds, else (0.0, 1)."""
    text = _text(data, start, stop)
    return (float(text), 0) if _match(text, json) else (0.0, 1)


def parse_prefix(data: U8, start: int, stop: int, json: bool) -> tuple[float, int, int]:
    """Everything that looks like part of a number, if it is one."""
    found = _LOOKS.match(_text(data, start, stop))
    text = found.group() if found else ""
    return (float(text), 0, start + len(text)) if _match(text, json) else (0.0, 1, start)


def read_long(data: U8, start: int, stop: int, exponent: int) -> tuple[float, bool]:
    """All digits as one integer."""
    found = re.match(r"[0-9]*\.?[0-9]*", _text(data, start, stop))
    digits = (found.group() if found else "").replace(".", "")
    return float(f"{digits}e{exponent}"), True


def take_digits(data: U8, start: int, stop: int, digits: np.uint64, kept: int) -> tuple[np.uint64, int, int, bool, int]:
    """Find the run by a regular expression and append what there is room for."""
    found = re.match("[0-9]*", _text(data, start, stop))
    run = found.group() if found else ""
    before = str(int(digits)).rjust(kept, "0") if kept else ""
    every = (before + run).lstrip("0")
    kept_text, rest = every[:19], every[19:]
    return np.uint64(int(kept_text or "0")), len(kept_text), len(rest), rest.strip("0") != "", start + len(run)


def take_exponent(data: U8, start: int, stop: int) -> tuple[int, int]:
    """Read the exponent with Python's int; of no meaning where the end is -1."""
    found = re.match("[+-]?[0-9]+", _text(data, start, stop))
    return (int(found.group()), start + found.end()) if found else (0, -1)


def round_decimal(digits: np.uint64, exponent: int) -> tuple[float, bool]:
    """Round the exact fraction; Python's division of integers is correctly rounded."""
    if digits == 0 or exponent < -400:
        return 0.0, True
    if exponent > 400:
        return math.inf, True
    try:
        return float(Fraction(int(digits)) * Fraction(10) ** exponent), True
    except OverflowError:
        return math.inf, True


def leading_zeros(x: np.uint64) -> int:
    """64 less the length in bits."""
    return 64 - int(x).bit_length()


def multiply_wide(x: np.uint64, y: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Multiply with Python's integers."""
    product = int(x) * int(y)
    return np.uint64(product >> 64), np.uint64(product & (2**64 - 1))


def any_number(text: bytes, json: bool) -> float | None:
    """As `parse_number`: the number, or None."""
    pattern = (
        rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
        if json
        else rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    )
    return float(text) if re.fullmatch(pattern, text) else None
