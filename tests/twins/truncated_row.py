"""Lists of slots and columns of the table, the plain way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def collect(beta: Mapping[int, float]) -> dict[int, float]:
    """The non-zero weights by slot, in increasing order of slot."""
    return {slot: beta[slot] for slot in sorted(beta) if beta[slot] != 0.0}


def merge_tail(slot: Sequence[int], tail: Sequence[int]) -> list[int]:
    """The whole list in order; `tail` is its end, which is in it already."""
    return sorted([*slot[: len(slot) - len(tail)], *tail])


def pick(line: Sequence[Sequence[float]], slot: Sequence[int], column: int) -> tuple[list[float], list[float]]:
    """Two neighbouring columns of some lines."""
    return [line[at][column] for at in slot], [line[at][column + 1] for at in slot]
