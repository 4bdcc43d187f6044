"""What the columns and pairs of columns with shapes add to a margin, by value: `GET /models/{m}/shapes`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riata.base.arrays import F64
from riata.learn.learner import Weights
from riata.learn.slot_table import HASH_BITS
from riata.predict.name_book import NameBook


@dataclass(frozen=True, slots=True)
class ColumnEffect:
    """What a column adds: at x, `weight` * x and the value of the interval that x is in.

    feature : the first name with this hash, None if no name is stored; `names` are all of them
    edges   : upper ends of all intervals but the last
    values  : of the intervals; that of zero has 0
    range   : largest less smallest effect, from the upper end of the first interval to the lower end of the last
    """

    feature: str | None
    names: list[str]
    hash: int
    weight: float
    edges: list[float]
    values: list[float]
    range: float


@dataclass(frozen=True, slots=True)
class PairEffect:
    """What two columns that a row both has add together.

    features, hashes, edges : of the first column and of the second, as in `ColumnEffect`
    values                  : by interval of the first column, and of the second
    range                   : largest less smallest value
    """

    features: list[str | None]
    hashes: list[int]
    edges: list[list[float]]
    values: list[list[float]]
    range: float


def effects(weights: Weights, book: NameBook) -> tuple[list[ColumnEffect], list[PairEffect]]:
    """Return what each column with intervals and each pair adds to the margin, those with the largest range first."""
    shapes = weights.shapes
    if shapes is None:
        return [], []
    hashes = shapes.column.tolist()
    names = [book.in_slot(hash_, HASH_BITS) for hash_ in hashes]
    feature = [found[0] if found else None for found in names]
    columns = []
    for c, (hash_, weight) in enumerate(zip(hashes, weights.of(hashes), strict=True)):
        edges, values = shapes.edges_of(c), shapes.values_of(c)
        if not len(edges):  # an indicator, which only pairs have
            continue
        line = weight * edges
        reach = float(np.ptp([line + values[:-1], line + values[1:]]))
        columns.append(ColumnEffect(feature[c], names[c], hash_, weight, edges.tolist(), values.tolist(), reach))
    pairs = []
    for number, (a, b) in enumerate(shapes.pair.tolist()):
        values = shapes.values_of_pair(number)
        ends: list[F64] = [shapes.coarse_edges_of(c) for c in (a, b)]
        pair = ([feature[a], feature[b]], [hashes[a], hashes[b]], [one.tolist() for one in ends])
        pairs.append(PairEffect(*pair, values.tolist(), float(np.ptp(values))))
    return sorted(columns, key=lambda one: -one.range), sorted(pairs, key=lambda one: -one.range)
