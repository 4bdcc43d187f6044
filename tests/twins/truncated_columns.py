"""Numeric columns, the plain way: a dictionary of entries for each set of slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TWINS_OF = ("learn/truncated_gradient/columns",)

SETS, WAYS = 512, 4


@dataclass
class Column:
    """The values of a feature since the row after `since` others."""

    since: int
    values: list[float]
    lost: int = 0  # rows that others took away


@dataclass
class Book:
    """Columns by set and slot."""

    sets: dict[int, dict[int, Column]] = field(default_factory=dict)

    def find(self, slot: int) -> Column | None:
        return self.sets.get(slot % SETS, {}).get(slot)


def centre_row(book: Book, learnt: int, reach: float, x: Mapping[int, float]) -> dict[int, tuple[float, float]]:
    """Centre and scale of the features that are centred."""
    found = {}
    for slot, value in x.items():
        column = book.find(slot)
        if column is None:
            continue
        rows = len(column.values) - column.lost
        share = (rows + 1) / (learnt - column.since + 3)
        mean = column.values[0] if len(set(column.values)) == 1 else sum(column.values) / rows
        centre = min(1.0, max(0.0, (share - 0.5) / 0.4)) * mean
        if centre != 0.0:
            old, least, distance = max(abs(one - centre) for one in column.values), 2.0**-40 * abs(centre), abs(value - centre)
            if old > least:
                found[slot] = centre, max(old, min(distance, reach * old))
            else:  # constant until now
                found[slot] = (centre, distance) if distance > least else (value, least)
    return found


def note_row(book: Book, learnt: int, x: Mapping[int, float]) -> None:
    """Add the values of a row, as they were learnt."""
    for slot, value in x.items():
        column = book.find(slot)
        if column is not None:
            column.values.append(value)
        elif value != 1.0:
            _enter(book, slot, value, learnt)


def _enter(book: Book, slot: int, value: float, learnt: int) -> None:
    inside = book.sets.setdefault(slot % SETS, {})
    if len(inside) < WAYS:
        inside[slot] = Column(learnt, [value])
        return
    for one in list(inside):
        inside[one].lost += 1
        if inside[one].lost >= len(inside[one].values):
            del inside[one]
