"""SVMlight text line by line: `riata.wire.readers.svmlight_reference` reads the lines, dictionaries sum them."""

from __future__ import annotations

from riata.wire.readers.svmlight_reference import reference_svmlight
from riata.wire.rows import Refusal, Rules, SlowRow

TWINS_OF = ("svmlight",)


def read_svmlight(body: bytes, rules: Rules) -> list[SlowRow | Refusal]:
    """Every line that is neither blank nor all comment, through the slow reader."""
    lines = [line.removesuffix(b"\r").lstrip(b" \t") for line in body.split(b"\n")]
    return [reference_svmlight(line, rules) for line in lines if line and not line.startswith(b"#")]
