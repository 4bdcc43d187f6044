"""Rows of Arrow columns in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from riata.base.limits import VALUE_ABS_MAX
from riata.wire.codes import BAD_NAME, DUPLICATE_KEY, LENGTHS_DIFFER, OK, OUT_OF_RANGE
from tests.twins.hashing import hash_name
from tests.twins.unicode import name_code


def read_lists(names: Sequence[bytes], values: Sequence[float], key: int) -> tuple[int, list[tuple[int, float]]]:
    """One row: its code, and its features by hash."""
    if len(names) != len(values):
        return LENGTHS_DIFFER, []
    for name in names:
        if not name or name_code(name) != OK:
            return name_code(name) or BAD_NAME, []
    if len(set(names)) < len(names):
        return DUPLICATE_KEY, []
    if not all(abs(value) <= VALUE_ABS_MAX for value in values):
        return OUT_OF_RANGE, []
    kept = [(hash_name(n, key, 0) >> 32, v) for n, v in zip(names, values, strict=True) if abs(v) >= 2.0**-1022]
    return OK, sorted(kept)
