"""A sample of the rows of a stream, evenly spaced, each with the margin about which a learner linearised it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, Arrays
from riata.base.errors import Corrupt
from riata.learn.first_rows import arrays_of, nbytes_of, no_rows, rows_of
from riata.learn.frozen import check_counts, check_numbers
from riata.wire.batch import Batch, join_batches, select_rows

ROWS: Final = 256
_PREFIX: Final = "sample"
MET: Final = "sample_met"
MARGIN: Final = "sample_margin"


class RowSample:
    """Rows 0, s, 2 s, ... of those learnt, where s is the smallest power of two with which they are at most ROWS.

    rows   : the rows
    margin : f64[rows.n]  about which each was linearised
    """

    def __init__(self) -> None:
        self.rows, self.margin = no_rows(), np.zeros(0)
        self._met = 0

    def add(self, batch: Batch, margin: F64, learnt: BOOL) -> None:
        """Go on with the rows of `batch` that were learnt."""
        number = self._met + np.cumsum(learnt) - 1
        first, self._met = self._met, self._met + int(learnt.sum())
        stride = _stride(self._met)
        taken = learnt & (number % stride == 0)
        kept = np.arange(self.rows.n) % (stride // _stride(first)) == 0
        if taken.any() or not kept.all():
            rows = join_batches([select_rows(self.rows, kept), select_rows(batch, taken)])
            self.rows = replace(
                rows, event_id=np.zeros_like(rows.event_id), has_id=np.zeros(rows.n, np.bool_), subject=None, time=None
            )
            self.margin = np.concatenate([self.margin[kept], margin[taken]])

    def arrays(self) -> Arrays:
        """Return copies of its state: sample_met i64[1], sample_margin f64[rows], and the rows as `arrays_of` names them."""
        return {MET: np.array([self._met]), MARGIN: self.margin.copy(), **arrays_of([self.rows], _PREFIX)}

    def restore(self, arrays: Arrays) -> None:
        """Restore a state. Raises `Corrupt`, with nothing changed."""
        check_counts(MET, arrays[MET])
        rows, met = rows_of(arrays, _PREFIX), int(arrays[MET].astype(np.int64)[0])
        check_numbers(MARGIN, arrays[MARGIN], rows.n)
        if rows.n != -(-met // _stride(met)):
            raise Corrupt(f"learner state: {rows.n} rows are not the sample of {met}")
        self.rows, self.margin, self._met = rows, arrays[MARGIN].astype(np.float64), met

    @property
    def nbytes(self) -> int:
        """Bytes of `arrays`."""
        return nbytes_of(self.rows.n, self.rows.nnz) + self.margin.nbytes + 8


def _stride(met: int) -> int:
    return 1 << (-(-met // ROWS) - 1).bit_length() if met > ROWS else 1
