"""Explains the margin of a row by its features, and lists the largest weights."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.apart import Part
from riata.learn.learner import Weights
from riata.learn.shapes import Shapes
from riata.learn.slot_table import HASH_BITS
from riata.predict.name_book import NameBook

SHAPES_BASE: Final = "(shapes)"  # name of what the shapes add to every row
NO_SLOT: Final = -1
LARGEST: Final = sys.float_info.max
SMALLEST_NORMAL: Final = sys.float_info.min  # the parsers drop features with smaller values


@frozen_dataclass(frozen=True, slots=True)
class Contribution:
    """The contribution of one feature to the margin. weight and contribution are 0.0 for a feature unknown to the model.

    shares_slot_with : other names seen in the same slot, in this row or before; the weight belongs to all of them
    slot             : of the model's table; NO_SLOT for a part of a shape
    column           : the name of what it is about: of an interval that of the column, of a pair those of both
    sent             : the value in whose place it is (`riata.learn.apart`); None if it was sent so
    """

    feature: str
    value: float
    weight: float
    contribution: float
    shares_slot_with: tuple[str, ...]
    slot: int
    column: str
    sent: float | None = None


@frozen_dataclass(frozen=True, slots=True)
class Explanation:
    """The parts of a margin.

    `bias` plus the contributions, added in the order given here (that of the feature hashes), equals
    exactly the margin that `score` returns: the same additions in the same order.

    unknown : names of features that no learnt row is known to have had
    """

    bias: float
    contributions: tuple[Contribution, ...]
    unknown: tuple[str, ...] = ()

    @property
    def margin(self) -> float:
        """The margin: the sum in this order."""
        total = self.bias
        for part in self.contributions:
            total = held(total + part.contribution)
        return total

    def by_column(self) -> list[dict[str, Any]]:
        """Return what each column adds, the largest first: its straight line and its interval together. Pairs of columns and all
        other features are by themselves."""
        total: dict[str, float] = {}
        for part in self.contributions:
            total[part.column] = held(total.get(part.column, 0.0) + part.contribution)
        return [{"feature": name, "contribution": total[name]} for name in sorted(total, key=lambda name: -abs(total[name]))]

    def answer(self) -> dict[str, Any]:
        """Return `bias` and `contributions` in the form of the HTTP answer, `by_column` where there are shapes, and `unknown` if
        there are such names."""
        contributions = [
            {
                "feature": part.feature,
                "value": part.value,
                "weight": part.weight,
                "contribution": part.contribution,
                "shares_slot_with": list(part.shares_slot_with),
                **({} if part.sent is None else {"sent": part.sent}),
            }
            for part in self.contributions
        ]
        by_column = {"by_column": self.by_column()} if any(part.slot == NO_SLOT for part in self.contributions) else {}
        unknown = {"unknown": list(self.unknown)} if self.unknown else {}
        return {"bias": self.bias, "contributions": contributions, **by_column, **unknown}


def held(number: float) -> float:
    """Return `number`, or the largest double of its sign if it is infinite."""
    return min(max(number, -LARGEST), LARGEST)


def explain(
    weights: Weights, named_row: Sequence[tuple[int, float, str]], shared: Callable[[int, int], list[str]]
) -> Explanation:
    """Split the margin of one row into the contributions of its features.

    named_row : (32-bit hash, value, name) of every feature, in the order of the request
    shared    : (slot, bits of the model's slots) -> names seen in it

    Features whose 32-bit hashes are equal are one feature to every learner: they appear once, names joined by " + ", values
    summed in the order of the request, as the parsers do.
    """
    merged: dict[int, tuple[float, list[str]]] = {}
    for hash32, value, name in named_row:
        total, names = merged.get(hash32, (0.0, []))
        merged[hash32] = (total + value, names if name in names else [*names, name])
    sent = [(h, x, names) for h, (x, names) in sorted(merged.items()) if abs(x) >= SMALLEST_NORMAL]
    row = [Part(h, x, names, " + ".join(names)) for h, x, names in sent] if weights.apart is None else weights.apart.row(sent)
    bits = weights.bits
    in_row: dict[int, list[str]] = {}
    for hash32, _, names, *_ in row:
        in_row.setdefault(hash32 >> (32 - bits), []).extend(names)
    parts, unknown = [], []
    for (hash32, value, names, column, was), weight in zip(row, weights.of([h for h, *_ in row]), strict=True):
        slot = hash32 >> (32 - bits)
        known = shared(slot, bits)
        others = dict.fromkeys(other for other in (*in_row[slot], *known) if other not in names)
        unknown += [name for name in names if weight == 0.0 and was is None and name not in known]
        contribution = held(weight * value) if weight != 0.0 else 0.0
        parts.append(Contribution(" + ".join(names), value, weight, contribution, tuple(others), slot, column, was))
    if weights.shapes is not None:
        values = [(hash32, value) for hash32, value, *_ in row]
        parts += shape_parts(weights.shapes, values, {one.hash: one.column for one in row})
    return Explanation(weights.intercept, tuple(parts), tuple(unknown))


def shape_parts(shapes: Shapes, row: Sequence[tuple[int, float]], name: Mapping[int, str]) -> list[Contribution]:
    """What the shapes add to the margin of a row, in the order in which it is added. A part is a feature with the value 1: what
    every row gets, the interval that the value of a column is in, or a pair of intervals.

    row, name : the features by increasing hash, and their names
    """
    labels = [(SHAPES_BASE, SHAPES_BASE)]
    for part in shapes.parts_of(row):
        columns = [name[int(shapes.column[column])] for column, _ in part]
        ranges = [shapes.range_of(column, interval, coarse=len(part) > 1) for column, interval in part]
        labels.append((" and ".join(map(_interval, columns, ranges)), " and ".join(columns)))
    return [
        Contribution(label, 1.0, value, value, (), NO_SLOT, column)
        for (label, column), value in zip(labels, shapes.added(row), strict=True)
    ]


def _interval(name: str, ends: tuple[float, float]) -> str:
    """Write an interval. Its ends have six digits, or as many as tell them apart; whole numbers have all."""
    for digits in range(6, 18):
        low, high = (f"{end:.0f}" if end.is_integer() else f"{end:.{digits}g}" for end in ends)
        if low != high:
            break
    return ("" if math.isinf(ends[0]) else f"{low} < ") + name + ("" if math.isinf(ends[1]) else f" <= {high}")


@frozen_dataclass(frozen=True, slots=True)
class NamedWeight:
    """One weight. `feature` is the first name seen in the slot (with the requested prefix), None if no name
    is stored; `names` are all of them; `std_error` is None if it is unknown."""

    feature: str | None
    slot: int
    weight: float
    names: tuple[str, ...]
    std_error: float | None = None


def top_weights(weights: Weights, errors: F64, top: int, prefix: str, book: NameBook) -> list[NamedWeight]:
    """Return the `top` weights of largest size, ties by slot; with a prefix only those in whose slot a name begins with it.

    errors : f64[nnz]  the standard error of each weight; NaN if it is unknown
    """
    slot, beta, bits = weights.slot, weights.beta, weights.bits
    chosen = np.arange(len(slot))
    if prefix:
        chosen = np.flatnonzero(np.isin(slot, np.array(book.slots_with(prefix, bits), np.uint32), assume_unique=True))
    size = np.abs(beta[chosen])
    if 0 < top < len(size):  # select before sorting: only the largest are sorted
        keep = size >= np.partition(size, len(size) - top)[len(size) - top]
        chosen, size = chosen[keep], size[keep]
    chosen = chosen[np.lexsort((slot[chosen], -size))[: max(top, 0)]]
    found = []
    for at, error in zip(chosen.tolist(), errors[chosen].tolist(), strict=True):
        names = tuple(book.in_slot(int(slot[at]), bits))
        feature = next((name for name in names if name.startswith(prefix)), None)
        found.append(NamedWeight(feature, int(slot[at]), float(beta[at]), names, None if math.isnan(error) else error))
    return found


# Groups and runs of features in an explanation: what each adds to a margin, beside what each feature adds.


@frozen_dataclass(frozen=True, slots=True)
class Run:
    """Features of one group that are in a model together. first, last : names of the first and the last of them, in order"""

    group: str
    first: str
    last: str
    features: int


@frozen_dataclass(frozen=True, slots=True)
class Partition:
    """The runs of a model that have a weight.

    of_slot : number of the run of each slot
    """

    runs: tuple[Run, ...]
    of_slot: Mapping[int, int]

    @staticmethod
    def of(partition: Sequence[Mapping[str, Any]]) -> Partition:
        """Make it from the runs of a refit: documents with `group`, `features`, `slots` and `weights`. Features of no group, and
        runs without a weight, are left out."""
        kept = [one for one in partition if one["group"] and any(one["weights"])]
        runs = tuple(Run(one["group"], one["features"][0], one["features"][-1], len(one["slots"])) for one in kept)
        return Partition(runs, {slot: number for number, one in enumerate(kept) for slot in one["slots"]})

    def answer(self, explanation: Explanation) -> list[dict[str, Any]]:
        """Return the runs that occur in a row with the sum of their contributions, the largest first."""
        total: dict[int, float] = {}
        for part in explanation.contributions:
            number = self.of_slot.get(part.slot)
            if number is not None:
                total[number] = total.get(number, 0.0) + part.contribution
        ordered = sorted(total, key=lambda number: (-abs(total[number]), number))
        return [
            {
                "group": run.group,
                "first": run.first,
                "last": run.last,
                "features": run.features,
                "contribution": total[number],
            }
            for number, run in ((number, self.runs[number]) for number in ordered)
        ]


# What the columns and pairs of columns with shapes add to a margin, by value: `GET /models/{m}/shapes`.


@frozen_dataclass(frozen=True, slots=True)
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


@frozen_dataclass(frozen=True, slots=True)
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
