"""Standards of numeric columns: which features have one, and rows, weights and sketches in units of it.

A value x becomes (x - middle) / spread. A column is a feature of at least nine rows of ten that has had a value other than 1: its
middle is the mean, absent values counting as zero, and its spread the root mean square about it. Other features with values other
than 1 keep zero as the middle, so that they stay sparse; their values are divided by their root mean square if that is above 1.
Features whose values are all 1, words and indicators, have no standard. A spread is rounded to a power of two, so that it changes
no digit of a value or of a weight. Labels that are numbers may have a standard too: their mean, weighted by importance, and the
root mean square about it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32
from riata.learn.learner import Sketch, Weights
from riata.wire.batch import Batch

COMMON: Final = 0.9  # share of the rows that have a column
FEW: Final = 16  # of so few rows, one more without the feature is taken into account: they may be alike by chance
NARROW: Final = 2.0**-40  # of the middle: distances up to it may be rounding errors
_HASH_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Standards:
    """Middles and spreads by slot.

    bits   : slots are hash >> (32 - bits)
    slot   : u32[m]  strictly increasing
    middle : f64[m]  0 unless the feature is a column
    spread : f64[m]  > 0, powers of two
    tail   : f64[m]  fourth power of the distance from the middle, over the square of the second, both means: 3 if normal,
                     9 if exponential; 0 unless the feature is a column that varies
    label_middle, label_spread : float  of the label; 0 and 1 if it has no standard
    """

    bits: int
    slot: U32
    middle: F64
    spread: F64
    tail: F64
    label_middle: float = 0.0
    label_spread: float = 1.0

    @staticmethod
    def none(bits: int) -> Standards:
        """No feature has a standard."""
        return Standards(bits, np.zeros(0, np.uint32), np.zeros(0), np.zeros(0), np.zeros(0))

    @staticmethod
    def of(rows: Batch, bits: int, columns: bool) -> Standards:
        """The standards of the features of some rows, in O(features log features). columns: whether a feature may have a middle,
        which needs an intercept."""
        key, x = _summed(rows, bits)
        slot, which = np.unique(key, return_inverse=True)
        if not len(slot):
            return Standards.none(bits)
        d, n = len(slot), rows.n
        total = n + int(n < FEW)
        count = np.bincount(which, minlength=d).astype(np.float64)
        low, high = np.full(d, math.inf), np.full(d, -math.inf)
        np.minimum.at(low, which, x)
        np.maximum.at(high, which, x)
        common = (count >= COMMON * n) & columns
        middle = np.where(common, np.bincount(which, x, d) / total, 0.0)
        constant = common & (low == high) & (count == total)
        middle[constant] = low[constant]
        absent = np.where(common, total - count, 0.0)
        away = (x - middle[which]) ** 2
        square = (np.bincount(which, away, d) + absent * middle * middle) / (count + absent)
        fourth = (np.bincount(which, away * away, d) + absent * (middle * middle) ** 2) / (count + absent)
        varies = common & (square > (NARROW * middle) ** 2)
        tail = np.where(varies, fourth, 0.0) / np.where(varies, square * square, 1.0)
        spread = np.sqrt(square)
        spread = np.where(common, np.where(spread > NARROW * abs(middle), spread, abs(middle)), np.maximum(spread, 1.0))
        spread = _power_of_two(spread)
        kept = ((low != 1.0) | (high != 1.0)) & (common | (spread > 1.0))
        return Standards(bits, slot[kept].astype(np.uint32), middle[kept], spread[kept], tail[kept])

    @staticmethod
    def of_labels(rows: Batch, bits: int, centred: bool) -> Standards:
        """The standard of the labels of some rows; features have none. centred: whether it has a middle."""
        whole = math.fsum(rows.weight.tolist())
        middle = math.fsum((rows.weight * rows.label).tolist()) / whole if centred else 0.0
        away = rows.label - middle
        spread = math.sqrt(math.fsum((rows.weight * away * away).tolist()) / whole)
        if not spread > NARROW * abs(middle):
            spread = abs(middle) or 1.0
        return replace(Standards.none(bits), label_middle=middle, label_spread=float(_power_of_two(np.array(spread))))

    def equal(self, other: Standards) -> bool:
        """Whether two give the same units, to the last bit."""
        names = ("slot", "middle", "spread", "label_middle", "label_spread")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    def find(self, slot: U32) -> tuple[I64, BOOL]:
        """Where slots are among those with a standard, and which of them are; the others are at 0."""
        at = np.searchsorted(self.slot, slot)
        at[at == len(self.slot)] = 0
        return at, (self.slot[at] == slot if len(self.slot) else np.zeros(len(slot), np.bool_))

    def apply(self, rows: Batch) -> Batch:
        """The rows in units of the standards. An absent value of a column is one of zero, so the row gets it."""
        if (self.label_middle, self.label_spread) != (0.0, 1.0):
            rows = replace(rows, label=(rows.label - self.label_middle) / self.label_spread)
        if not len(self.slot) or not rows.n:
            return rows
        row = np.repeat(np.arange(rows.n), np.diff(rows.indptr))
        key = rows.hash >> np.uint32(_HASH_BITS - self.bits)
        at, known = self.find(key)
        again = np.zeros(len(key), np.bool_)  # two features that share a slot add up, so only one is moved
        again[1:] = (key[1:] == key[:-1]) & (row[1:] == row[:-1])
        value = np.where(known, (rows.value - np.where(again, 0.0, self.middle[at])) / self.spread[at], rows.value)
        columns = np.flatnonzero(self.middle)
        met = known & (self.middle[at] != 0.0)
        present = np.zeros((rows.n, len(columns)), np.bool_)
        present[row[met], np.searchsorted(columns, at[met])] = True
        absent, which = np.nonzero(~present)
        if not len(absent):
            return replace(rows, value=value)
        new = columns[which]
        hash_ = self.slot[new] << np.uint32(_HASH_BITS - self.bits)
        # Features are in the order of rows and hashes, as are the new ones: none has to be sorted.
        place = np.searchsorted(row << _HASH_BITS | rows.hash, absent << _HASH_BITS | hash_, side="right")
        more = np.cumsum(np.bincount(absent, minlength=rows.n))
        return replace(
            rows,
            indptr=rows.indptr + np.concatenate(([0], more)),
            hash=np.insert(rows.hash, place, hash_),
            value=np.insert(value, place, -self.middle[new] / self.spread[new]),
        )

    def undo(self, weights: Weights) -> Weights:
        """Weights in the units of the input, with the same margins up to rounding."""
        beta, intercept = weights.beta * self.label_spread, weights.intercept * self.label_spread + self.label_middle
        weights = replace(weights, beta=beta, intercept=intercept)
        at, known = self.find(weights.slot)
        if not known.any():
            return weights
        beta = np.where(known, weights.beta / self.spread[at], weights.beta)
        moved = (beta * self.middle[at])[known]
        return replace(weights, beta=beta, intercept=weights.intercept - math.fsum(moved.tolist()))

    def undo_margin(self, margin: F64) -> F64:
        """Margins in the units of the label."""
        return margin * self.label_spread + self.label_middle

    def mark(self, sketch: Sketch) -> Sketch:
        """Tell a sketch in units of the standards what they are."""
        at, known = self.find(sketch.slot)
        known[:1] &= not sketch.intercept  # its slot means nothing
        outside, met = self.find(sketch.outside_slot)
        if not (known.any() or met.any()):
            return sketch
        return replace(
            sketch,
            middle=np.where(known, self.middle[at], 0.0),
            spread=np.where(known, self.spread[at], 1.0),
            outside_spread=np.where(met, self.spread[outside], 1.0),
            tail=np.where(known, self.tail[at], 0.0),
        )


def _summed(rows: Batch, bits: int) -> tuple[U32, F64]:
    """Slot and value of each feature of the rows; features that share a slot are one, whose value is their sum."""
    row = np.repeat(np.arange(rows.n), np.diff(rows.indptr))
    key = rows.hash >> np.uint32(_HASH_BITS - bits)
    first = np.ones(len(key), np.bool_)
    first[1:] = (key[1:] != key[:-1]) | (row[1:] != row[:-1])
    starts = np.flatnonzero(first)
    x = np.add.reduceat(rows.value, starts) if len(starts) else np.zeros(0)
    return key[starts], x


def _power_of_two(size: F64) -> F64:
    """The nearest power of two, on a scale of ratios."""
    part, exponent = np.frexp(size)
    found: F64 = np.ldexp(1.0, exponent - (part < math.sqrt(0.5)))
    return found
