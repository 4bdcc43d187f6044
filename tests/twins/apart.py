"""Rows with other values in place of those that are set apart or far outside, feature by feature."""

from __future__ import annotations

from collections.abc import Mapping

from riata.learn.apart import EVERY, Apart, indicator_of

TWINS_OF = ("apart",)


def instead(apart: Apart, row: Mapping[int, float]) -> dict[int, float]:
    """A row as it is learnt; row: the value of each hash."""
    used = dict(zip(zip(apart.feature.tolist(), apart.value.tolist(), strict=True), apart.used.tolist(), strict=True))
    limits = dict(zip(apart.column.tolist(), apart.limit.T.tolist(), strict=True))
    made: dict[int, float] = {}
    for hash_, x in row.items():
        if (hash_, x) in used or (EVERY, x) in used:
            made[indicator_of(hash_, x)] = 1.0
            counts_as = used.get((hash_, x), 0.0)
        else:
            low, high = limits.get(hash_, [x, x])
            counts_as = low if x < low else high if x > high else x
        if counts_as != 0.0:
            made[hash_] = counts_as
    return dict(sorted(made.items()))
