"""Rows of Arrow columns in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from riata.wire.codes import BAD_NAME, DUPLICATE_KEY, HANDOVER, LENGTHS_DIFFER, NAME_TOO_LONG, OK, OUT_OF_RANGE
from tests.twins.hashing import hash_name

TWINS_OF = ("wire/readers/arrow/names", "wire/readers/arrow/rows")


def write_digits(indices: Sequence[int]) -> bytes:
    """The numbers one after another."""
    return "".join(map(str, indices)).encode()


def name_code(name: bytes) -> int:
    """What is wrong with a name."""
    if any(c >= 0x80 for c in name):
        return HANDOVER
    if not name or any(c < 32 or c == 127 for c in name):
        return BAD_NAME
    return NAME_TOO_LONG if len(name) > 256 else OK


def read_lists(names: Sequence[bytes], values: Sequence[float], key: int) -> tuple[int, list[tuple[int, float]]]:
    """One row: its code, and its features by hash."""
    if len(names) != len(values):
        return LENGTHS_DIFFER, []
    for name in names:
        if name_code(name) != OK:
            return name_code(name), []
    if len(set(names)) < len(names):
        return DUPLICATE_KEY, []
    if not all(abs(value) <= 1e6 for value in values):
        return OUT_OF_RANGE, []
    kept = [(hash_name(n, key, 0) >> 32, v) for n, v in zip(names, values, strict=True) if abs(v) >= 2.0**-1022]
    return OK, sorted(kept)
