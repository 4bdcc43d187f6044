"""After any sequence of operations on a state, its checkpoints can be read, a killed service starts from them, and replay gives
the same bits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from riata.run.writer import checkpointer
from riata.store import layout
from riata.store.store import Generation
from riata.watch.progressive import Progressive
from tests.run.journeys import CASES, Journey

SOAKED = range(1, 40)
MUTATED_MAX = 20  # journeys, within which a missing safeguard has to be noticed


def _keep_positions(_self: Progressive, _seq: int) -> None:
    """Treat the points of an imported curve as points of this log."""


def _do_not_thaw(_generation: Generation, content: bytes) -> None:
    layout.decode_checkpoint(content)


MUTANTS: dict[str, list[tuple[Any, str, Any]]] = {
    "positions of a curve kept at an import": [(Progressive, "carry", _keep_positions)],
    "and verified without thawing": [(Progressive, "carry", _keep_positions), (checkpointer, "check_generation", _do_not_thaw)],
}


@pytest.mark.parametrize(("learner", "labels"), CASES)
def test_a_journey_of_a_state_leaves_nothing_that_cannot_be_read(learner: str, labels: str, tmp_path: Path) -> None:
    Journey(0, learner, labels, tmp_path).travel()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_missing_safeguard_is_noticed_on_a_journey(mutant: str, tmp_path: Path) -> None:
    def notices(seed: int) -> bool:
        try:
            Journey(seed, "truncated", "0/1", tmp_path / str(seed)).travel()
        except AssertionError:
            return True
        return False

    with pytest.MonkeyPatch.context() as patch:
        for change in MUTANTS[mutant]:
            patch.setattr(*change)
        assert any(notices(seed) for seed in range(MUTATED_MAX)), mutant


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SOAKED)
@pytest.mark.parametrize(("learner", "labels"), CASES)
def test_many_journeys_of_a_state_leave_nothing_that_cannot_be_read(learner: str, labels: str, seed: int, tmp_path: Path) -> None:
    Journey(seed, learner, labels, tmp_path).travel()
