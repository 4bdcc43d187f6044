"""Shapes of numeric columns, from their arrays: what they add to a margin, and the score test of a pair."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

import numpy as np

from riata.base.arrays import F64
from riata.learn.shapes import WHOLE_MAX, Shapes

TWINS_OF = ("shapes",)


def cells(shapes: Shapes, row: Mapping[int, float]) -> list[int]:
    """The cells of a row in order; row: the value of each hash."""
    first, found, interval, sizes = 0, [], {}, []
    for c, hash_ in enumerate(shapes.column.tolist()):
        edges = shapes.edge[shapes.start[c] : shapes.start[c + 1]].tolist()
        if hash_ in row:
            interval[c] = bisect_left(edges, row[hash_])
            if interval[c] != bisect_left(edges, 0.0):
                found.append(first + interval[c])
        first += len(edges) + 1
        sizes.append(len(edges) + 1)
    for a, b in shapes.pair.tolist():
        in_twos = [sizes[c] > WHOLE_MAX for c in (a, b)]
        across = [(sizes[c] + 1) // 2 if twos else sizes[c] for c, twos in zip((a, b), in_twos, strict=True)]
        if a in interval and b in interval:
            left, right = (interval[c] // 2 if twos else interval[c] for c, twos in zip((a, b), in_twos, strict=True))
            found.append(first + left * across[1] + right)
        first += across[0] * across[1]
    return found


def added(shapes: Shapes, row: Mapping[int, float]) -> list[float]:
    """What is added to the margin of a row, in order."""
    return [shapes.intercept, *(float(shapes.value[cell]) for cell in cells(shapes, row))]


def pair_score(a: F64, b: F64, away: F64, spread: F64) -> float:
    """The three score statistics of a pair of centred columns, summed."""
    total = 0.0
    for x in (a * b, (np.abs(a) - np.abs(a).mean()) * b, a * (np.abs(b) - np.abs(b).mean())):
        x = x - x.mean()
        information = float(spread @ (x * x))
        total += float(away @ x) ** 2 / information if information > 1e-9 else 0.0
    return total
