"""After any sequence of operations on a state, its checkpoints can be read, a killed service starts from them, and replay gives
the same bits.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run.journeys import CASES, Journey

SOAKED = range(1, 40)


@pytest.mark.parametrize(("learner", "labels"), CASES)
def test_a_journey_of_a_state_leaves_nothing_that_cannot_be_read(learner: str, labels: str, tmp_path: Path) -> None:
    Journey(0, learner, labels, tmp_path).travel()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SOAKED)
@pytest.mark.parametrize(("learner", "labels"), CASES)
def test_many_journeys_of_a_state_leave_nothing_that_cannot_be_read(learner: str, labels: str, seed: int, tmp_path: Path) -> None:
    Journey(seed, learner, labels, tmp_path).travel()
