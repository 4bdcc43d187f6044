"""The rows at which a learner searches a sample of its rows, and the values that have others in their place (`learn.apart`)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.apart import PARTS, Apart, read_apart
from riata.learn.far import Allowed, find_apart, find_far
from riata.learn.frozen import check_numbers
from riata.learn.held_rows import RowSample, rows_of
from riata.learn.learner import FarValue
from riata.learn.shapes import FOUND, Wanted, columns_of, sorted_values
from riata.wire.batch import Batch

FIRST: Final = 128  # rows
DECIDED: Final = 512  # rows: without columns until then, a learner need not search again
LAST: Final = 131_072  # rows
SAMPLE: Final = 2048  # rows; when there are so many, every second one is dropped
FEATURES: Final = 2**16  # of the sample; the same
FAR: Final = ("far_column", "far_value")
COUNTS: Final = 3
_NONE_FAR: Final[tuple[U32, F64]] = (np.zeros(0, np.uint32), np.zeros(0))


class Sought(NamedTuple):
    """The `sorted_values` of a sample as it is learnt, and the columns that values outside their limits have stretched."""

    hash: U32
    value: F64
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
        self.sample = RowSample(SAMPLE, FEATURES)
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

    def find(self, allowed: Allowed | None, wanted: Wanted = FOUND) -> Sought | None:
        """Find limits of the columns of the sample, and what is set apart; with None only which values are far. None for no
        columns."""
        sent = self.sample.rows()
        hash_, value = sorted_values(sent)
        begins, _ = columns_of(sent, hash_, value, wanted)
        if not len(begins):
            return None
        if allowed is None:
            self.far = find_far(hash_, value, hash_[begins])
            return Sought(hash_, value, [])
        self.apart, far, stretched = find_apart(hash_, value, sent.n, hash_[begins], self.apart, allowed)
        self.far = np.array([one for one, _ in far], np.uint32), np.array([x for _, x in far], np.float64)
        if self.apart is None:
            return Sought(hash_, value, stretched)
        if self.apart.keeps_features:
            return Sought(hash_, self.apart.limited(hash_, value), stretched)
        return Sought(*sorted_values(self.used(sent)), stretched)

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
