"""`riata` with one event that kills: a process that learns the value 666.5 dies of SIGSEGV, as from a defect in machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from riata.base.arrays import BOOL
from riata.cli.main import main
from riata.learn.learner import Stepped
from riata.learn.mixed_gradient import MixedGradient
from riata.wire.batch import Batch, join_batches

POISON = 666.5
_step_all = MixedGradient.step_all


def poisoned_row(batch: Batch, skip: BOOL | None) -> int | None:
    """The first row with the poison that is not skipped; None if there is none."""
    for row in range(batch.n):
        held = batch.value[batch.indptr[row] : batch.indptr[row + 1]]
        if (held == POISON).any() and (skip is None or not skip[row]):
            return row
    return None


def dying_step(self: MixedGradient, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
    """Learn, unless a row that is not skipped has the poison."""
    if poisoned_row(join_batches(batches), skip) is not None:
        ctypes.string_at(0)  # this thread reads address 0; a signal sent would let it run on for a while
    return _step_all(self, batches, skip)


if __name__ == "__main__":
    MixedGradient.step_all = dying_step  # type: ignore[method-assign, assignment]
    main()
