"""SVMlight text line by line: `riata.wire.readers.vw.reference` reads the lines, dictionaries sum them."""

from __future__ import annotations

import re

from riata.base.arrays import U8
from riata.wire.codes import BAD_INDEX, BAD_NUMBER, OK, QID_NOT_SUPPORTED, SYNTAX
from riata.wire.readers.svmlight.reference import reference_svmlight
from riata.wire.rows import Refusal, Rules, SlowRow
from riata.wire.scan.reference import decimal
from tests.twins.transpose import text_of

TWINS_OF = ("wire/readers/svmlight/body",)


def read_svmlight(body: bytes, rules: Rules) -> list[SlowRow | Refusal]:
    """Every line that is neither blank nor all comment, through the slow reader."""
    lines = [line.removesuffix(b"\r").lstrip(b" \t") for line in body.split(b"\n")]
    return [reference_svmlight(line, rules) for line in lines if line and not line.startswith(b"#")]


def read_pairs(line: bytes, rules: Rules) -> SlowRow | Refusal:
    """One line."""
    return reference_svmlight(line, rules)


def holds_hash(data: U8, start: int, stop: int) -> bool:
    """Ask Python."""
    return "#" in text_of(data, start, stop)


def read_pair(data: U8, start: int, stop: int) -> tuple[int, int, float, int]:
    """By regular expressions; where it ends means nothing where it is refused."""
    word = re.split("[ \t]", text_of(data, start, stop))[0]
    index, colon, value = word.partition(":")
    after, end = start + len(word), start + len(index)
    if not colon:
        return after, end, 0.0, SYNTAX
    if not is_index(data, start, end):
        return after, end, 0.0, QID_NOT_SUPPORTED if index == "qid" else BAD_INDEX
    number = decimal(value)
    return after, end, number or 0.0, BAD_NUMBER if number is None else OK


def is_index(data: U8, start: int, stop: int) -> bool:
    """A number that Python writes the same way."""
    text = text_of(data, start, stop)
    return text.isascii() and text.isdigit() and str(int(text)) == text and int(text) < 2**63
