"""Samples of the rows of a stream, evenly spaced; also with the margins about which a learner linearised them."""

from __future__ import annotations

import sys
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, Arrays
from riata.base.errors import Corrupt
from riata.learn.first_rows import arrays_of, copied, nbytes_of, no_rows, rows_of, without_ids
from riata.learn.frozen import check_counts, check_numbers
from riata.wire.batch import Batch, join_batches, select_rows, take_rows

ROWS: Final = 256
_PREFIX: Final = "sample"
MET: Final = "sample_met"
MARGIN: Final = "sample_margin"


class RowSample:
    """Rows 0, `stride`, 2 `stride`, ... of a stream. The stride doubles where they would reach a number of rows or features."""

    def __init__(self, rows: int, features: int = sys.maxsize) -> None:
        self.stride = 1
        self._rows_end, self._features_end = rows, features
        self._held: list[Batch] = []
        self._rows = self._features = 0

    def add(self, batch: Batch, learnt: I64, before: int) -> I64:
        """Add those rows of `batch` that belong to the sample, and return their numbers; others may leave it.

        learnt : numbers of the rows that have been learnt, after `before` others
        """
        kept = learnt[-before % self.stride :: self.stride]
        if not len(kept):
            return kept
        rows = copied(batch) if len(kept) == batch.n else take_rows(without_ids(batch), kept)  # readers use its memory again
        self._held.append(rows)
        self._rows, self._features = self._rows + rows.n, self._features + rows.nnz
        while self._rows > 1 and (self._rows >= self._rows_end or self._features >= self._features_end):
            held = self.rows()
            held = select_rows(held, np.arange(held.n) % 2 == 0)
            self.hold(join_batches([held]), 2 * self.stride)
        return kept

    def rows(self) -> Batch:
        """The sample."""
        if len(self._held) > 1:
            self._held = [join_batches(self._held)]
        return self._held[0] if self._held else no_rows()

    def hold(self, rows: Batch, stride: int) -> None:
        """Be the sample of `rows`."""
        self._held, self._rows, self._features, self.stride = [without_ids(rows)], rows.n, rows.nnz, stride

    def drop(self) -> None:
        """Hold no rows."""
        self._held, self._rows, self._features = [], 0, 0

    def arrays(self, prefix: str) -> Arrays:
        """Return copies of the rows as `arrays_of` names them."""
        return arrays_of(self._held, prefix)

    @property
    def nbytes(self) -> int:
        """Bytes of `arrays`."""
        return nbytes_of(self._rows, self._features)


class LinearisedSample:
    """A sample of at most ROWS rows.

    margin : f64[rows]  about which each was linearised
    """

    def __init__(self) -> None:
        self._sample, self._met = RowSample(ROWS + 1), 0
        self.margin = np.zeros(0)

    @property
    def rows(self) -> Batch:
        """The rows."""
        return self._sample.rows()

    @property
    def met(self) -> int:
        """How many rows were learnt."""
        return self._met

    def add(self, batch: Batch, margin: F64, learnt: BOOL) -> None:
        """Go on with the rows of `batch` that were learnt."""
        stride, numbers = self._sample.stride, np.flatnonzero(learnt)
        added = self._sample.add(batch, numbers, self._met)
        self._met += len(numbers)
        self.margin = np.concatenate([self.margin, margin[added]])[:: self._sample.stride // stride].copy()

    def arrays(self) -> Arrays:
        """Return copies of its state: sample_met i64[1], sample_margin f64[rows], and the rows as `arrays_of` names them."""
        return {MET: np.array([self._met]), MARGIN: self.margin.copy(), **self._sample.arrays(_PREFIX)}

    def restore(self, arrays: Arrays) -> None:
        """Restore a state. Raises `Corrupt`, with nothing changed."""
        check_counts(MET, arrays[MET])
        rows, met = rows_of(arrays, _PREFIX), int(arrays[MET].astype(np.int64)[0])
        stride = 1 << (-(-met // ROWS) - 1).bit_length() if met > ROWS else 1
        check_numbers(MARGIN, arrays[MARGIN], rows.n)
        if rows.n != -(-met // stride):
            raise Corrupt(f"learner state: {rows.n} rows are not the sample of {met}")
        self._sample.hold(rows, stride)
        self.margin, self._met = arrays[MARGIN].astype(np.float64), met

    @property
    def nbytes(self) -> int:
        """Bytes of `arrays`."""
        return self._sample.nbytes + self.margin.nbytes + 8
