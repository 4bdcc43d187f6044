"""Combinations of the features of crossed fields, with itertools."""

from __future__ import annotations

import itertools
import math
from typing import Final, NamedTuple

from riata.wire.codes import TOO_MANY_CROSSED
from tests.twins.hashing import hash_name

TWINS_OF = ("rows",)

Record = tuple[int, float, int]  # fingerprint, value, kind
CROSSED = 16


class Crosses(NamedTuple):
    """Fields that are crossed, and the factor of the values of their combinations."""

    fields: list[list[int]]
    scale: float = 1.0


NONE: Final = Crosses([])


def by_field(records: list[Record]) -> dict[int, list[int]]:
    """Positions of the features of each field: that of the last plain record."""
    field, positions = -1, dict[int, list[int]]()
    for i, (fingerprint, value, kind) in enumerate(records):
        if kind & 3 == 0:
            field = fingerprint
        if value != 0.0:
            positions.setdefault(field, []).append(i)
    return positions


def combined(records: list[Record], cross: list[int]) -> list[tuple[int, ...]]:
    """Positions of the parts of every combination, in the order of the fields and then of the row."""
    fields = by_field(records)

    def is_once(parts: tuple[int, ...]) -> bool:
        for k in range(len(parts) - 1):
            if cross[k] == cross[k + 1] and not (
                parts[k] < parts[k + 1] or (parts[k] == parts[k + 1] and records[parts[k]][1] != 1.0)
            ):
                return False
        return True

    return [parts for parts in itertools.product(*(fields.get(field, []) for field in cross)) if is_once(parts)]


def fingerprint_of(fingerprints: list[int]) -> int:
    """The hash of the first with the eight bytes of the others, one after another."""
    whole = fingerprints[0]
    for part in fingerprints[1:]:
        whole = hash_name(part.to_bytes(8, "little"), whole, 4)
    return whole


def cross_row(records: list[Record], crosses: Crosses) -> list[Record] | int:
    """The records with those of the combinations behind them; a code if there are too many."""
    added: list[Record] = []
    for cross in crosses.fields:
        for parts in combined(records, cross):
            rank = {field: k for k, field in enumerate(cross)}  # of one field, the smaller fingerprint is first
            ordered = sorted(zip(cross, parts, strict=True), key=lambda pair: (rank[pair[0]], records[pair[1]][0]))
            value = math.prod(records[i][1] for _, i in ordered) * crosses.scale
            added.append((fingerprint_of([records[i][0] for _, i in ordered]), value, CROSSED))
            if len(added) > 4096:
                return TOO_MANY_CROSSED
    return records + added
