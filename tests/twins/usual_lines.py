"""Usual lines by the slow lanes, which read any line."""

from __future__ import annotations

from riata.wire.rows import Rules, SlowRow
from riata.wire.slow_lines import slow_svmlight, slow_vw

Found = list[tuple[int, float, bytes]] | None  # fingerprint, value, shown name


def usual_vw(line: bytes, rules: Rules) -> Found:
    """Records of a line, or None where it is refused."""
    row = slow_vw(line, rules)
    return [(print_, value, name) for print_, value, _, name in row.records] if isinstance(row, SlowRow) else None


def usual_svmlight(line: bytes, rules: Rules) -> Found:
    """Records of a line, or None where it is refused."""
    row = slow_svmlight(line, rules)
    return [(print_, value, name) for print_, value, _, name in row.records] if isinstance(row, SlowRow) else None


def read_any(line: bytes, rules: Rules) -> Found:
    """As `usual_vw`."""
    return usual_vw(line, rules)
