"""Offsets of Arrow columns in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

TWINS_OF = ("wire/readers/arrow/columns",)


def place_offsets(offsets: Sequence[int], by: int, most: int) -> tuple[bool, list[int]]:
    """Whether they increase from 0 or above to `most` or below, and each of them, `by` more."""
    good = list(offsets) == sorted(offsets) and offsets[0] >= 0 and offsets[-1] <= most
    return good, [offset + by for offset in offsets]
