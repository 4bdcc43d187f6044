"""`riata` with one event that cannot be learnt: at the value 666.5 the learner has learnt the rows before it, and then raises.

TEST_RAISES says what: `memory` as where none is left, else an arithmetic error as by a defect.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from riata.base.arrays import BOOL
from riata.cli.main import main
from riata.learn.learner import Stepped
from riata.learn.mixed_gradient import MixedGradient
from riata.wire.batch import Batch, join_batches, slice_rows
from tests.chaos.poisoned import poisoned_row

RAISES = "TEST_RAISES"
_step_all = MixedGradient.step_all


def raising_step(self: MixedGradient, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
    """Learn, unless a row that is not skipped has the poison; then learn the rows before it, and raise."""
    batch = join_batches(batches)
    row = poisoned_row(batch, skip)
    if row is not None:
        _step_all(self, [slice_rows(batch, 0, row)], None if skip is None else skip[:row])
        raise MemoryError if os.environ.get(RAISES) == "memory" else ZeroDivisionError
    return _step_all(self, batches, skip)


if __name__ == "__main__":
    MixedGradient.step_all = raising_step  # type: ignore[method-assign, assignment]
    main()
