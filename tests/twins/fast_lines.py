"""Usual lines by the slow lanes, which read any line."""

from __future__ import annotations

from riata.wire.reference_lines import reference_svmlight, reference_vw
from riata.wire.rows import Rules, SlowRow

TWINS_OF = ("wire/fast_lines", "wire/vw_text")

Found = list[tuple[int, float, bytes]] | None  # fingerprint, value, shown name


def fast_vw(line: bytes, rules: Rules) -> Found:
    """Records of a line, or None where it is refused."""
    row = reference_vw(line, rules)
    return [(print_, value, name) for print_, value, _, name in row.records] if isinstance(row, SlowRow) else None


def fast_svmlight(line: bytes, rules: Rules) -> Found:
    """Records of a line, or None where it is refused."""
    row = reference_svmlight(line, rules)
    return [(print_, value, name) for print_, value, _, name in row.records] if isinstance(row, SlowRow) else None


def read_any(line: bytes, rules: Rules) -> Found:
    """As `fast_vw`."""
    return fast_vw(line, rules)
