"""A learner of standardised columns, or of standardised labels, around any learner.

The first rows are held. Whenever their number has doubled, the standards of their features, or labels, are taken anew, and a
new learner learns them in these units from the beginning. After ROWS rows, or earlier if they have many features, the standards
remain: from there on they are no more than other units of measurement. So a learner has learnt every row in its own units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.frozen import check_counts, check_numbers, check_slots
from riata.learn.held_rows import NAMES, Around, FirstRows, no_first_rows, rows_of
from riata.learn.learner import Learner, Sketch, Stepped, Weights, step_each
from riata.wire.batch import Batch

C = TypeVar("C")

ROWS: Final = 1024  # a power of two
SLOTS: Final = "standard_slot"  # the frozen array of slots
_STANDARDS: Final = (SLOTS, "standard_middle", "standard_spread", "standard_tail")
_LABEL: Final = "standard_label"
_SETTLED: Final = "standard_settled"

COMMON: Final = 0.9  # share of the rows that have a column

FEW: Final = 16  # of so few rows, one more without the feature is taken into account: they may be alike by chance
NARROW: Final = 2.0**-40  # of the middle: distances up to it may be rounding errors
_HASH_BITS: Final = 32


def settled(arrays: Arrays) -> Arrays:
    """The state of a learner that has no standards and takes none any more, from that of the learner inside."""
    return {**arrays, **_frozen(Standards.none(1), True), **no_first_rows()}


class Standardised(Around, Generic[C]):
    """Gives its rows to the learner inside in units of their standards, and returns weights in the units of the input.

    Margins are those of the learner inside, which differ from those of the weights returned by rounding errors.
    """

    def __init__(
        self,
        build: Callable[[C, float], Learner],
        config: C,
        columns: bool,
        starts: bool = False,
        rows: int = ROWS,
        labels: bool = False,
    ) -> None:
        """Make an empty learner.

        build   : makes the empty learner of a configuration, from the share of label 1 in the rows that it will learn first
        columns : whether columns, or labels, are centred, for which the learner needs an intercept
        starts  : whether what it learns depends on that share
        rows    : number of first rows, a power of two
        labels  : whether labels are standardised, in place of features
        """
        self._build = build
        self._config = config
        self._columns = columns
        self._starts = starts
        self._labels = labels
        self._first = FirstRows(rows)
        self._inside = build(config, 0.5)
        self._bits = self._inside.weights().bits
        self._standards = Standards.none(self._bits)

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are predicted only."""
        return self._first.step(batch, skip, self._learn, self._again)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Learn the events of all batches: one batch at a time while rows are held."""
        if not self._first.ended:
            return step_each(self, batches, skip)
        stepped = self._inside.step_all([self._standards.apply(batch) for batch in batches], skip)
        label = np.concatenate([batch.label for batch in batches])
        return replace(stepped, margin=self._standards.undo_margin(stepped.margin), label=label)

    def weights(self) -> Weights:
        """Return the non-zero weights, in the units of the input."""
        return self._standards.undo(self._inside.weights())

    def sketch(self) -> Sketch | None:
        """Return a copy of the curvature, in units of the standards, which it names."""
        sketch = self._inside.sketch()
        return None if sketch is None else self._standards.mark(sketch)

    def adjust(self, config: C) -> None:
        """Change a setting of the learner inside, and of those that will be made."""
        self._config = config
        self._inside.adjust(config)

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results: the arrays of the learner inside, and

        standard_settled : i64[1]  1 if the standards remain
        standard_slot, standard_middle, standard_spread, standard_tail : u32[m], f64[m], f64[m], f64[m]  as in `Standards`
        standard_label : f64[2]  middle and spread of the label; only if labels are standardised
        first_indptr, first_hash, first_value, first_label, first_weight : the rows held, as in `Batch`; none once they remain
        """
        return {**self._inside.freeze(), **self._frozen()}

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        own = {_SETTLED, *_STANDARDS, *NAMES, *([_LABEL] if self._labels else [])}
        if not own <= arrays.keys():
            raise Corrupt(f"learner state: expected arrays {sorted(own)} among {sorted(arrays)}")
        slot, middle, spread, tail = (arrays[name] for name in _STANDARDS)
        check_slots(SLOTS, slot, self._bits)
        check_numbers("standard_middle", middle, len(slot))
        check_numbers("standard_spread", spread, len(slot), least=0.0)
        check_numbers("standard_tail", tail, len(slot), least=0.0)
        label = arrays[_LABEL] if self._labels else np.array([0.0, 1.0])
        check_numbers(_LABEL, label, 2)
        held = rows_of(arrays)
        check_counts(_SETTLED, arrays[_SETTLED])
        if (
            bool((spread == 0.0).any())
            or not float(label[1]) > 0.0
            or (held.n > 0 and bool(arrays[_SETTLED].astype(np.int64)[0]))
        ):
            raise Corrupt("learner state: a spread is zero, or rows are held for no purpose")
        self._inside.thaw({name: array for name, array in arrays.items() if name not in own})
        middle, spread, tail = (array.astype(np.float64) for array in (middle, spread, tail))
        units = float(label[0]), float(label[1])
        self._standards = Standards(self._bits, slot.astype(np.uint32), middle, spread, tail, *units)
        self._first.restore(held, bool(arrays[_SETTLED].astype(np.int64)[0]))

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = self._inside.memory()
        own = sum(array.nbytes for array in self._frozen().values())
        return {**parts, "standards": own, "checkpoint": parts["checkpoint"] + own}

    def _frozen(self) -> Arrays:
        label = np.array([self._standards.label_middle, self._standards.label_spread])
        own = {**_frozen(self._standards, self._first.ended), **self._first.arrays()}
        return {**own, **({_LABEL: label} if self._labels else {})}

    def _learn(self, rows: Batch, skip: BOOL) -> Stepped:
        stepped = self._inside.step(self._standards.apply(rows), skip)
        return replace(stepped, margin=self._standards.undo_margin(stepped.margin))

    def _again(self, held: Batch) -> None:
        """Take the standards of the rows held, and begin again."""
        of = Standards.of_labels if self._labels else Standards.of
        standards = of(held, self._bits, self._columns)
        before, self._standards = self._standards, standards
        if self._starts or not standards.equal(before):
            positive, whole = math.fsum((held.weight * held.label).tolist()), math.fsum(held.weight.tolist())
            rate = (positive + 0.5) / (whole + 1.0)
            self._inside = self._build(self._config, rate)
            self._inside.step(standards.apply(held))


def _frozen(standards: Standards, ended: bool) -> Arrays:
    arrays = np.array([ended], np.int64), standards.slot, standards.middle, standards.spread, standards.tail
    return {name: np.array(array) for name, array in zip((_SETTLED, *_STANDARDS), arrays, strict=True)}


# Standards of numeric columns: which features have one, and rows, weights and sketches in units of it.
#
# A value x becomes (x - middle) / spread. A column is a feature of at least nine rows of ten that has had a value other than 1:
# its
# middle is the mean, absent values counting as zero, and its spread the root mean square about it. Other features with values
# other
# than 1 keep zero as the middle, so that they stay sparse; their values are divided by their root mean square if that is above 1.
# Features whose values are all 1, words and indicators, have no standard. A spread is rounded to a power of two, so that it
# changes
# no digit of a value or of a weight. Labels that are numbers may have a standard too: their mean, weighted by importance, and the
# root mean square about it.


@frozen_dataclass(frozen=True, slots=True)
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
        still = (self.tail == 0.0) & (self.middle != 0.0)
        sketch = replace(sketch, still=(self.slot[still], self.middle[still]))
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
