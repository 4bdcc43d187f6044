"""SVMlight text line by line: `riata.wire.slow_lines` reads the lines, dictionaries sum them."""

from __future__ import annotations

from riata.base.arrays import U8
from riata.wire.codes import BAD_INDEX, BAD_NUMBER, OK, QID_NOT_SUPPORTED, SYNTAX
from riata.wire.rows import Refusal, Rules, SlowRow
from riata.wire.slow_lines import decimal, slow_svmlight
from tests.twins.lines import text_of


def read_svmlight(body: bytes, rules: Rules) -> list[SlowRow | Refusal]:
    """Every line that is neither blank nor all comment, through the slow lane."""
    lines = [line.removesuffix(b"\r").lstrip(b" \t") for line in body.split(b"\n")]
    return [slow_svmlight(line, rules) for line in lines if line and not line.startswith(b"#")]


def read_pairs(line: bytes, rules: Rules) -> SlowRow | Refusal:
    """One line."""
    return slow_svmlight(line, rules)


def read_pair(data: U8, start: int, colon: int, stop: int) -> tuple[float, int]:
    """By str methods."""
    if colon == stop:
        return 0.0, SYNTAX
    if not is_index(data, start, colon):
        return 0.0, QID_NOT_SUPPORTED if text_of(data, start, colon) == "qid" else BAD_INDEX
    number = decimal(text_of(data, colon + 1, stop))
    return (0.0, BAD_NUMBER) if number is None else (number, OK)


def is_index(data: U8, start: int, stop: int) -> bool:
    """A number that Python writes the same way."""
    text = text_of(data, start, stop)
    return text.isascii() and text.isdigit() and str(int(text)) == text and int(text) < 2**63
