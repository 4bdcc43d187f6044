"""VW text line by line: `riata.wire.readers.vw_reference` reads the lines, dictionaries sum them."""

from __future__ import annotations

from riata.wire.readers.vw_reference import reference_vw
from riata.wire.rows import Refusal, Rules, SlowRow

TWINS_OF = ("vw",)


def read_vw(body: bytes, rules: Rules) -> list[SlowRow | Refusal]:
    """Every line that is not blank, through the slow reader."""
    lines = [line.removesuffix(b"\r").lstrip(b" \t") for line in body.split(b"\n")]
    return [reference_vw(line, rules) for line in lines if line]
