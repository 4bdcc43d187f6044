"""`riata` whose learner of truncated gradients rests for each row: time to kill it while it learns."""

from __future__ import annotations

import time
from collections.abc import Sequence

from riata.base.arrays import BOOL
from riata.cli.main import main
from riata.learn.learner import Stepped
from riata.learn.mixed_gradient import MixedGradient
from riata.wire.batch import Batch

REST_S = 0.001
_step_all = MixedGradient.step_all


def slow_step(self: MixedGradient, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
    """Learn, and rest."""
    time.sleep(REST_S * sum(batch.n for batch in batches))
    return _step_all(self, batches, skip)


if __name__ == "__main__":
    MixedGradient.step_all = slow_step  # type: ignore[method-assign, assignment]
    main()
