"""Numeric columns, the plain way: a dictionary of entries for each set of slots."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

TWINS_OF = ("truncated_gradient",)

SETS, WAYS = 512, 4


@dataclass
class Column:
    """The values of a feature in the rows of the survey, since the one after `since` others of them."""

    since: int
    values: list[float]
    between: list[float] = field(default_factory=list)  # in other rows, if it was centred
    lost: int = 0  # rows that others took away


@dataclass
class Book:
    """Columns by set and slot."""

    sets: dict[int, dict[int, Column]] = field(default_factory=dict)

    def find(self, slot: int) -> Column | None:
        return self.sets.get(slot % SETS, {}).get(slot)


def in_survey(learnt: int) -> bool:
    """All of the first 1024 rows, then one of 16: the golden section of 2^16, times the number of the 16, says which."""
    return learnt < 1024 or learnt % 16 == (learnt // 16 * 40503) % 2**16 // 2**12


SURVEYED = list(accumulate(map(in_survey, range(2**14)), initial=0))  # of the first rows


def centre_row(book: Book, learnt: int, reach: float, x: Mapping[int, float]) -> dict[int, tuple[float, float]]:
    """Centre and scale of the features that are centred."""
    found, before = {}, SURVEYED[learnt]
    for slot, value in x.items():
        column = book.find(slot)
        if column is None:
            continue
        rows, all_values = len(column.values) - column.lost, column.values + column.between
        share = (rows + 1) / (before - column.since + 3)
        mean = column.values[0] if len(set(all_values)) == 1 else sum(column.values) / rows
        centre = min(1.0, max(0.0, (share - 0.5) / 0.4)) * mean
        if centre != 0.0:
            absent = 1.0 - rows / max(before - column.since, rows)
            zero = min(1.0, math.sqrt(absent / 0.01)) * abs(centre)
            old, least, distance = (
                max(zero, *(abs(one - centre) for one in all_values)),
                2.0**-40 * abs(centre),
                abs(value - centre),
            )
            if old > least:
                found[slot] = centre, max(old, min(distance, reach * old))
            else:  # constant until now
                found[slot] = (centre, distance) if distance > least else (value, least)
    return found


def note_row(book: Book, learnt: int, x: Mapping[int, float], centred: Collection[int]) -> None:
    """Add the values of a row, as they were learnt."""
    for slot, value in x.items():
        column = book.find(slot)
        if not in_survey(learnt):
            if slot in centred and column is not None:
                column.between.append(value)
        elif column is not None:
            column.values.append(value)
        elif value != 1.0:
            _enter(book, slot, value, SURVEYED[learnt])


def _enter(book: Book, slot: int, value: float, before: int) -> None:
    inside = book.sets.setdefault(slot % SETS, {})
    if len(inside) < WAYS:
        inside[slot] = Column(before, [value])
        return
    for one in list(inside):
        inside[one].lost += 1
        if inside[one].lost >= len(inside[one].values):
            del inside[one]
