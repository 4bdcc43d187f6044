"""VW text line by line: `riata.wire.reference_lines` reads the lines, dictionaries sum them."""

from __future__ import annotations

from riata.wire.reference_lines import reference_vw
from riata.wire.rows import Refusal, Rules, SlowRow

TWINS_OF = ("wire/vw_text",)


def read_vw(body: bytes, rules: Rules) -> list[SlowRow | Refusal]:
    """Every line that is not blank, through the slow lane."""
    lines = [line.removesuffix(b"\r").lstrip(b" \t") for line in body.split(b"\n")]
    return [reference_vw(line, rules) for line in lines if line]


def read_front(line: bytes, rules: Rules) -> SlowRow | Refusal:
    """The front of a line is what it says before an empty namespace."""
    return reference_vw(line + b"|", rules)


def read_namespaces(line: bytes, rules: Rules) -> SlowRow | Refusal:
    """A line with nothing in front."""
    return reference_vw(line, rules._replace(labelled=0))
