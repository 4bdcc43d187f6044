"""Limits of columns, and values far outside of them that repeat, which stand for something else, found in a sample of rows.

A value counts as at most NEAR times as far from the median as a quartile is from the other. So neither mistakes nor the large
values of a heavy tail move the linear part of a margin by much; shapes have numbers for them.

A value is far if it is FAR_TIMES times as far from the median as a quartile is from the other, and FAR_NEXT times as far as the
farthest value that is not. So columns with a heavy tail have none: their largest values are far from the middle, but not from
each other. Limits of a column are taken again with every sample.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.apart import LIMITS, PARTS, Apart, read_apart
from riata.learn.frozen import check_counts, check_numbers
from riata.learn.held_rows import RowSample, forgotten, names_of, rows_of
from riata.learn.learner import ColumnRange, FarValue, Learner, Sketch, Stepped, Weights, Wrapped, join_steps
from riata.learn.shapes import FOUND, ROWS_MIN, Wanted, columns_of, sorted_values
from riata.learn.spec import LearnerSettings
from riata.wire.batch import Batch, join_batches, slice_rows

NEAR: Final = 3.0
WIDE: Final = 10.0  # the same for a learner with standard errors, which hold where the margin is a straight line in heavy tails
FAR_TIMES: Final = 30.0
FAR_NEXT: Final = 10.0
VALUES_MIN: Final = 32  # of a column in the sample, or it has no limits yet
FAR_SHARE: Final = 0.02  # of the values that do not repeat, at most: more are a part of the column
REPEATS_MIN: Final = 3  # of a far value in the sample, and
REPEATS_SHARE: Final = 0.001  # of its rows, from which on it is set apart
SET_APART_MAX: Final = 256  # values


class Found(NamedTuple):
    """What a sample shows.

    apart     : values that are set apart, and limits of columns; None for none
    far       : hashes of columns, and far values of theirs that are not set apart
    stretched : hashes of columns that have limits for the first time, and values outside of them
    """

    apart: Apart | None
    far: list[tuple[int, float]]
    stretched: list[int]


class Allowed(NamedTuple):
    """near: NEAR or WIDE. room: for how many features; a value that is set apart is one more, and without room counts as the
    limit."""

    near: float = NEAR
    room: int = sys.maxsize


USUAL: Final = Allowed()


def find_apart(hash_: U32, value: F64, rows: int, column: U32, known: Apart | None, allowed: Allowed = USUAL) -> Found:
    """Find the values that are set apart and the limits of columns. What is set apart remains so.

    hash_, value : the features of a sample by hash, and by value in each
    rows         : of the sample
    column       : hashes of its numeric columns
    known        : what was found before
    """
    instead, used, limit = _of(known)
    most = min(SET_APART_MAX, allowed.room - 1 - int(np.count_nonzero(hash_[1:] != hash_[:-1])))
    repeats = max(REPEATS_MIN, REPEATS_SHARE * rows)
    far: list[tuple[int, float]] = []
    stretched: list[int] = []
    starts, ends = (np.searchsorted(hash_, column, side).tolist() for side in ("left", "right"))
    for one, start, end in zip(column.tolist(), starts, ends, strict=True):
        x = value[start:end]
        if one in instead:
            x = x[~np.isin(x, instead[one])]
        if len(x) < VALUES_MIN:
            continue
        middle, spread = float(x[len(x) // 2]), float(x[3 * len(x) // 4] - x[len(x) // 4])
        outside = _outside(x, middle, spread)
        found, count = np.unique(outside, return_counts=True) if len(outside) else (outside, outside)
        if spread == 0.0 or count[count < repeats].sum() > FAR_SHARE * len(x):
            continue
        low, high = middle - allowed.near * spread, middle + allowed.near * spread
        if one not in limit and not (low <= x[0] and x[-1] <= high):
            stretched.append(one)
        limit[one], used[one] = (low, high), middle
        if len(outside):
            free = most - sum(map(len, instead.values()))
            again = found[count >= repeats].tolist()[: max(free, 0)]
            instead.setdefault(one, []).extend(again)
            far += [(one, x) for x in found.tolist() if x not in again]
    return Found(_apart(instead, used, limit), far, stretched)


def _outside(x: F64, middle: float, spread: float) -> F64:
    """The values that are far. x : increasing"""
    if max(x[-1] - middle, middle - x[0]) <= FAR_TIMES * spread:
        return x[:0]
    distance = np.abs(x - middle)
    upper = np.sort(distance)[3 * len(x) // 4 :]
    gap = np.flatnonzero(upper[1:] > np.maximum(FAR_TIMES * spread, FAR_NEXT * upper[:-1]))
    outside: F64 = x[distance > (upper[gap[0]] if len(gap) else upper[-1])]
    return outside


def ranges_of(sample: Batch, column: Sequence[int]) -> dict[int, ColumnRange]:
    """The ranges of some columns, by hash. sample : as it is learnt"""
    found = {}
    for one in column:
        x = sample.value[sample.hash == one]
        if len(x):
            mean = float(x.mean())
            found[one] = ColumnRange(len(x) / sample.n, mean, float(((x - mean) ** 2).mean()), float(x.min()), float(x.max()))
    return found


def _of(known: Apart | None) -> tuple[dict[int, list[float]], dict[int, float], dict[int, tuple[float, ...]]]:
    """The values of each feature that are set apart, what the feature then counts as, and the limits of each column."""
    instead: dict[int, list[float]] = {}
    if known is None:
        return instead, {}, {}
    for feature, value in zip(known.feature.tolist(), known.value.tolist(), strict=True):
        instead.setdefault(feature, []).append(value)
    limits = zip(*known.limit.tolist(), strict=True)
    used = dict(zip(known.feature.tolist(), known.used.tolist(), strict=True))
    return instead, used, dict(zip(known.column.tolist(), limits, strict=True))


def _apart(instead: dict[int, list[float]], used: dict[int, float], limit: dict[int, tuple[float, ...]]) -> Apart | None:
    if not limit:
        return None
    pairs = [(feature, value) for feature in sorted(instead) for value in instead[feature]]
    column = sorted(limit)
    feature: I64 = np.array([feature for feature, _ in pairs], np.int64)
    counts_as = np.array([used[feature] for feature, _ in pairs], np.float64)
    limits = np.array([limit[one] for one in column]).T.reshape(LIMITS, -1)
    return Apart(feature, np.array([value for _, value in pairs], np.float64), counts_as, np.array(column, np.uint32), limits)


def find_far(hash_: U32, value: F64, column: U32) -> tuple[U32, F64]:
    """Values that are far from all others of their column, for a learner that sets none apart: hashes, and a value each.

    Only the lowest and the highest value can be, by the distance of the next one.

    hash_, value : the `sorted_values` of a sample
    """
    found: list[tuple[int, float]] = []
    for one in column.tolist():
        x = value[np.searchsorted(hash_, one) : np.searchsorted(hash_, one, side="right")]
        if len(x) < ROWS_MIN:
            continue
        middle, spread = x[len(x) // 2], x[3 * len(x) // 4] - x[len(x) // 4]
        for end in (x[0], x[-1]):
            others = x[x != end]
            next_ = np.abs(others - middle).max(initial=0.0) if len(others) else math.inf
            if abs(end - middle) > max(FAR_TIMES * spread, FAR_NEXT * next_) > 0.0:
                found.append((one, float(end)))
    return np.array([hash_ for hash_, _ in found], np.uint32), np.array([value for _, value in found], np.float64)


# The rows at which a learner searches a sample of its rows, and the values that have others in their place (`learn.apart`).


FIRST: Final = 128  # rows
DECIDED: Final = 512  # rows: without columns until then, a learner need not search again
LAST: Final = 131_072  # rows
SAMPLE: Final = 2048  # rows; when there are so many, every second one is dropped
SAMPLE_FEATURES: Final = 2**16  # of the sample; the same
FAR: Final = ("far_column", "far_value")
_NONE_FAR: Final[tuple[U32, F64]] = (np.zeros(0, np.uint32), np.zeros(0))


class Sought(NamedTuple):
    """The `sorted_values` of a sample as it is learnt, its columns, and those that values outside their limits have stretched."""

    hash: U32
    value: F64
    columns: list[int]
    stretched: list[int]


class LimitSearch:
    """At row FIRST, and whenever the number of rows has doubled, up to LAST, a learner searches a sample of them.

    rows, due : rows learnt, while it searches; and the row of the next search
    sample    : as they were sent
    apart     : values that have others in their place, as found; None for none
    far       : hashes and values that are far from all others and stay, as of the last search
    """

    def __init__(self, prefix: str) -> None:
        """prefix : of the names of the arrays of the sample"""
        self._prefix = prefix
        self.rows, self.due = 0, FIRST
        self.sample = RowSample(SAMPLE, SAMPLE_FEATURES)
        self.apart: Apart | None = None
        self.far = _NONE_FAR

    @property
    def ended(self) -> bool:
        """Whether there is no further search."""
        return self.due > LAST

    def part(self, start: int, n: int) -> int:
        """The end of the part of n rows, from `start` on, that ends at the next search."""
        return n if self.ended else min(n, start + self.due - self.rows)

    def add(self, sent: Batch, refused: BOOL) -> bool:
        """Go on with rows that were learnt unless refused. Returns whether to search now."""
        if self.ended:
            return False
        first, self.rows = self.rows, self.rows + sent.n - int(refused.sum())
        if -first % self.sample.stride < self.rows - first:
            self.sample.add(sent, np.flatnonzero(~refused), first)
        return self.rows == self.due

    def forget(self, keep: float) -> None:
        """Let rows of the sample count for a share `keep` when they are learnt again."""
        self.sample.hold(forgotten(self.sample.rows(), keep), self.sample.stride)

    def find(self, allowed: Allowed | None, wanted: Wanted = FOUND) -> Sought | None:
        """Find limits of the columns of the sample, and what is set apart; with None only which values are far. None for no
        columns."""
        sent = self.sample.rows()
        hash_, value = sorted_values(sent)
        begins, _ = columns_of(sent, hash_, value, wanted)
        if not len(begins):
            return None
        column = hash_[begins]
        if allowed is None:
            self.far = find_far(hash_, value, column)
            return Sought(hash_, value, column.tolist(), [])
        self.apart, far, stretched = find_apart(hash_, value, sent.n, column, self.apart, allowed)
        self.far = np.array([one for one, _ in far], np.uint32), np.array([x for _, x in far], np.float64)
        if self.apart is None:
            return Sought(hash_, value, column.tolist(), stretched)
        if self.apart.keeps_features:
            return Sought(hash_, self.apart.limited(hash_, value), column.tolist(), stretched)
        return Sought(*sorted_values(self.used(sent)), column.tolist(), stretched)

    def searched(self, again: bool = True) -> None:
        """Search next when the number of rows has doubled, or not again."""
        self.due = 2 * (self.due if again else LAST)
        if self.ended:
            self.sample.drop()

    def used(self, rows: Batch) -> Batch:
        """Rows as they are learnt and predicted."""
        return rows if self.apart is None else self.apart.rows(rows)

    def far_values(self) -> list[FarValue]:
        """Values that are set apart, and others that were far from all others when they were sought last."""
        found = [] if self.apart is None else list(zip(self.apart.feature.tolist(), self.apart.value.tolist(), strict=True))
        far = zip(self.far[0].tolist(), self.far[1].tolist(), strict=True)
        return [FarValue(*one, True) for one in found] + [FarValue(*one, False) for one in far if one not in found]

    def counts(self) -> list[int]:
        """The rows learnt, the row of the next search, and the stride of the sample."""
        return [self.rows, self.due, self.sample.stride]

    def arrays(self) -> Arrays:
        """Return copies of the sample as `arrays_of` names it, and of the parts of `apart`, if any."""
        return {**self.sample.arrays(self._prefix), **({} if self.apart is None else self.apart.parts())}

    def far_arrays(self) -> Arrays:
        """Return copies of `far`, by FAR."""
        return dict(zip(FAR, (np.array(each) for each in self.far), strict=True))

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of the sample; and of what was found."""
        apart = 0 if self.apart is None else sum(array.nbytes for array in self.apart.parts().values())
        return self.sample.nbytes, apart + sum(each.nbytes for each in self.far)

    @staticmethod
    def read(prefix: str, counts: I64, arrays: Arrays, far: bool) -> LimitSearch:
        """Return what `counts` and the arrays describe. Raises `Corrupt`. far : whether `far_arrays` are among them"""
        found = LimitSearch(prefix)
        sample = rows_of(arrays, prefix)
        found.rows, found.due, stride = counts.tolist()
        if found.due <= found.rows or stride < 1:
            raise Corrupt("learner state: the counts of the sample are out of range")
        if {*PARTS} & arrays.keys():
            if not {*PARTS} <= arrays.keys():
                raise Corrupt("learner state: a part of the values that have others in their place is missing")
            found.apart = read_apart(arrays)
        if far:
            column, value = (arrays[name] for name in FAR)
            if column.dtype != np.uint32 or column.ndim != 1:
                raise Corrupt("learner state: columns with far values are not a list of hashes")
            check_numbers(FAR[1], value, len(column))
            found.far = column.astype(np.uint32), value.astype(np.float64)
        found.sample.hold(sample, stride)
        return found


# A learner whose numeric columns have limits (`learn.apart`), found in a sample of its rows.
#
# When limits are found first, the learner begins anew and learns the rows so far with them: otherwise one that stands for a
# missing value would have set its scales. At later searches earlier rows stay as they were learnt.


COUNTS: Final = "limits"
_PREFIX: Final = "limits"
_OWN: Final = (COUNTS, *names_of(_PREFIX), *FAR)


class Limited(Wrapped):
    """Gives its rows to the learner inside with values within the limits of their columns, and indicators of those set apart."""

    def __init__(self, build: Callable[[Any], Learner], config: LearnerSettings, near: float) -> None:
        """Make an empty learner.

        build : makes the one inside, from its settings
        near  : as of `Allowed`
        """
        self._build, self._config, self._near, self._classes = build, config, near, 0
        self._inside, self._search, self._fresh = build(config), LimitSearch(_PREFIX), True

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of all batches in order, in parts that end where limits are found again."""
        if self._search.ended:
            return self._inside.step_all([self._search.used(batch) for batch in batches], skip)
        rows = batches[0] if len(batches) == 1 else join_batches(batches)
        done: list[Stepped] = []
        start = 0
        while start < rows.n or not done:
            stop = self._search.part(start, rows.n)
            done.append(self._learn(slice_rows(rows, start, stop), None if skip is None else skip[start:stop]))
            start = stop
        return join_steps(done)

    def weights(self) -> Weights:
        """Return the weights of the learner inside, and the values that have others in their place."""
        return replace(self._inside.weights(), apart=self._search.apart)

    def sketch(self) -> Sketch | None:
        """Return a copy of the curvature."""
        sketch = self._inside.sketch()
        return None if sketch is None else replace(sketch, limited=self._search.apart is not None)

    def adjust(self, config: Any) -> None:
        """Change a setting of the learner inside, and of the one with which it may begin anew."""
        self._config = config
        self._inside.adjust(config)

    def grow(self, classes: int) -> None:
        """Have at least this many classes, also when the learner begins anew."""
        self._classes = max(self._classes, classes)
        self._inside.grow(classes)

    def forget(self, keep: float) -> None:
        """Let the past count for a share `keep` of what it counted, also when the first rows are learnt again."""
        self._inside.forget(keep)
        if self._fresh:
            self._search.forget(keep)

    def far_values(self) -> list[FarValue]:
        """Return values that are set apart, or were far from all others of their column when limits were found last."""
        return self._search.far_values()

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results: the arrays of the learner inside, and

        limits     : i64[4]  rows learnt, while limits are sought; the row at which they are found next; stride of the sample;
                             whether the learner begins anew when they are found
        limits_... : the sample, as in `FirstRows`
        far_...    : hashes and values as of `LimitSearch`
        apart_...  : as in `Apart`, if any values have others in their place
        """
        counts = np.array([*self._search.counts(), self._fresh], np.int64)
        return {**self._inside.freeze(), COUNTS: counts, **self._search.arrays(), **self._search.far_arrays()}

    def thaw(self, arrays: Arrays) -> None:
        """Restore what `freeze` returned, or the state of a learner inside, whose limits are sought from here on. Raises
        `Corrupt`, with the state unchanged."""
        search, fresh = LimitSearch(_PREFIX), False
        if {*_OWN, *PARTS} & arrays.keys():
            if not {*_OWN} <= arrays.keys():
                raise Corrupt(f"learner state: expected arrays {sorted(_OWN)} among {sorted(arrays)}")
            check_counts(COUNTS, arrays[COUNTS], 4)
            counts = arrays[COUNTS].astype(np.int64)
            search, fresh = LimitSearch.read(_PREFIX, counts[:-1], arrays, far=True), bool(counts[-1])
        inside = self._empty()
        inside.thaw({name: array for name, array in arrays.items() if name not in (*_OWN, *PARTS)})
        self._inside, self._search, self._fresh = inside, search, fresh

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = self._inside.memory()
        sample, found = self._search.nbytes
        return {**parts, "limits": sample + found, "checkpoint": parts["checkpoint"] + sample + found + 4 * 8}

    def _empty(self) -> Learner:
        inside = self._build(self._config)
        inside.grow(self._classes)
        return inside

    def _learn(self, rows: Batch, skip: BOOL | None) -> Stepped:
        stepped = self._inside.step(self._search.used(rows), skip)
        if self._search.add(rows, stepped.refused):
            self._find()
        return stepped

    def _find(self) -> None:
        """Find limits; with the first ones begin anew, if the sample has all rows."""
        search = self._search
        search.find(Allowed(self._near, self._config.room()))
        if self._fresh and search.apart is not None and search.sample.stride == 1:
            self._inside = self._empty()
            self._inside.step(search.used(search.sample.rows()))
        self._fresh = self._fresh and search.apart is None
        search.searched(again=search.apart is not None or search.rows < DECIDED)


# A learner whose rows have indicators in place of values that are set apart (`learn.apart`).


class SettingApart(Wrapped):
    """Gives its rows to the learner inside with indicators in place of values that are set apart. It has no state."""

    def __init__(self, inside: Learner, apart: Apart) -> None:
        self._inside, self._apart = inside, apart

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order."""
        return self._inside.step(self._apart.rows(batch), skip)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of all batches in order."""
        return self._inside.step_all([self._apart.rows(batch) for batch in batches], skip)

    def weights(self) -> Weights:
        """Return the weights of the learner inside, and the values that are set apart."""
        weights = self._inside.weights()
        return replace(weights, apart=self._apart if weights.apart is None else self._apart.joined(weights.apart))
