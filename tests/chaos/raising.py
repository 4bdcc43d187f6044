"""`riata` with one event that cannot be learnt: whoever gets to the value 666.5 has learnt the rows before it, and then raises.

TEST_RAISES says what: `memory` as where none is left, else an arithmetic error as by a defect.
"""

from __future__ import annotations

import os

import numpy as np

from riata.base.arrays import BOOL
from riata.cli.app import main
from riata.learn.learner import Stepped
from riata.learn.truncated_gradient import TruncatedGradient
from riata.wire.batch import Batch, slice_rows
from tests.chaos.poisoned import POISON

RAISES = "TEST_RAISES"
_step = TruncatedGradient.step


def raising_step(self: TruncatedGradient, batch: Batch, skip: BOOL | None = None) -> Stepped:
    """Learn, unless a row that is not skipped holds the poison: then learn half, and raise."""
    for row in range(batch.n):
        held = batch.value[batch.indptr[row] : batch.indptr[row + 1]]
        if (held == POISON).any() and (skip is None or not skip[row]):
            _step(self, slice_rows(batch, 0, row), None if skip is None else skip[:row])
            raise MemoryError if os.environ.get(RAISES) == "memory" else ZeroDivisionError
    return _step(self, batch, np.zeros(batch.n, np.bool_) if skip is None else skip)


if __name__ == "__main__":
    TruncatedGradient.step = raising_step  # type: ignore[method-assign]
    main()
