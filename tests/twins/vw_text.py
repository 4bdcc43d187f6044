"""VW text line by line: `riata.wire.readers.vw.reference` reads the lines, dictionaries sum them."""

from __future__ import annotations

from riata.wire.readers.vw.reference import reference_vw
from riata.wire.rows import Refusal, Rules, SlowRow

TWINS_OF = ("wire/readers/vw/body", "wire/readers/vw/fast")


def read_vw(body: bytes, rules: Rules) -> list[SlowRow | Refusal]:
    """Every line that is not blank, through the slow reader."""
    lines = [line.removesuffix(b"\r").lstrip(b" \t") for line in body.split(b"\n")]
    return [reference_vw(line, rules) for line in lines if line]


def read_front(line: bytes, rules: Rules) -> SlowRow | Refusal:
    """The front of a line is what it says before an empty namespace."""
    return reference_vw(line + b"|", rules)


def read_namespaces(line: bytes, rules: Rules) -> SlowRow | Refusal:
    """A line with nothing in front."""
    return reference_vw(line, rules._replace(labelled=0))


def read_any(line: bytes, rules: Rules) -> list[tuple[int, float, bytes]] | None:
    """Fingerprint, value and shown name of every record of a line; None if it is refused."""
    row = reference_vw(line, rules)
    return [(fingerprint, value, name) for fingerprint, value, _, name in row.records] if isinstance(row, SlowRow) else None


def fast_vw(line: bytes, rules: Rules) -> list[tuple[int, float, bytes]] | None:
    """As `read_any`."""
    return read_any(line, rules)
