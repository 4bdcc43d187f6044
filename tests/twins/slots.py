"""Lists of slots and columns of the table, the plain way."""

from __future__ import annotations

from collections.abc import Sequence

TWINS_OF = ("slot_table",)


def merge_tail(slot: Sequence[int], tail: Sequence[int]) -> list[int]:
    """The whole list in order; `tail` is its end, which is in it already."""
    return sorted([*slot[: len(slot) - len(tail)], *tail])


def pick(line: Sequence[Sequence[float]], slot: Sequence[int], column: int) -> tuple[list[float], list[float]]:
    """Two neighbouring columns of some lines."""
    return [line[at][column] for at in slot], [line[at][column + 1] for at in slot]


def prune(line: Sequence[Sequence[float]], column: int, floor: float, slot: Sequence[int]) -> list[int]:
    """The slots whose number in one column is above a floor in size, each once, in order."""
    return sorted({at for at in slot if abs(line[at][column]) > floor})
