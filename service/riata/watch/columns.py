"""Which features have large values in many rows: columns that a learner without scaling of its own learns badly.

It looks at a sample of the rows since the process started, and is no part of the state of a model.
"""

from __future__ import annotations

from copy import copy
from typing import Final, NamedTuple

import numpy as np

from riata.learn.learner import Stepped
from riata.watch.observer import Observer, Rows

LARGE: Final = 10.0  # ten standard deviations of a scaled column
SHARE_MIN: Final = 0.05  # of the rows: rarer values are outliers
ROWS_MIN: Final = 50
TRACKED_MAX: Final = 256
ROWS_HALVED_AT: Final = 1 << 16  # older rows count half, so that a column that has been scaled is forgotten


class Column(NamedTuple):
    """A feature with large values. slot : hash >> (32 - bits); largest : the largest size of its values."""

    slot: int
    largest: float


class Columns(Observer):
    """Counts rows with large values, by feature."""

    def __init__(self, bits: int) -> None:
        self._shift = np.uint32(32 - bits)
        self._rows = 0.0
        self._found: dict[int, tuple[float, float]] = {}  # by slot: rows with a large value, and the largest

    def observe(self, rows: Rows, stepped: Stepped) -> None:  # noqa: ARG002
        """Look at the rows of the first batch: small batches are learnt many at a time."""
        batch = rows.batches[0]
        self._rows += batch.n
        size = np.abs(batch.value)
        for at in np.flatnonzero(size > LARGE).tolist():
            slot = int(batch.hash[at] >> self._shift)
            count, largest = self._found.get(slot, (0.0, 0.0))
            if count or len(self._found) < TRACKED_MAX:
                self._found[slot] = (count + 1.0, max(largest, float(size[at])))
        if self._rows > ROWS_HALVED_AT:
            self._rows /= 2.0
            self._found = {slot: (count / 2.0, largest) for slot, (count, largest) in self._found.items() if count > 1.0}

    def copy(self) -> Columns:
        """As of an `Observer`."""
        found = copy(self)
        found._found = dict(self._found)
        return found

    def large(self) -> list[Column]:
        """Return the features with a large value in SHARE_MIN of the rows or more, the largest first."""
        if self._rows < ROWS_MIN:
            return []
        many = [Column(slot, largest) for slot, (rows, largest) in self._found.items() if rows >= SHARE_MIN * self._rows]
        return sorted(many, key=lambda column: (-column.largest, column.slot))


def columns_as_asked(bits: int | None, held: Columns | None) -> Columns | None:
    """Return what looks at rows whose hashes have slots of this many bits; None if bits is None: nothing is to look."""
    return None if bits is None else held or Columns(bits)
