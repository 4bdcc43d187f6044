"""The strongest few, by sorting all."""

from __future__ import annotations

from collections.abc import Iterable

TWINS_OF = ("learn/taylor_sketch/best",)


def sort_best(entries: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """Pairs of score and key: the highest score first, and of equal ones the lowest key."""
    return sorted(entries, key=lambda entry: (-entry[0], entry[1]))
