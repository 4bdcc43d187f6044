"""Reading a generation back: as a whole if a model continues from it, in little memory if it is only checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from riata.base.errors import Corrupt
from riata.run.state.config import Change, read_config
from riata.run.state.generations import check_generation, thaw_generation
from riata.run.state.model_state import ModelState
from riata.store import records
from riata.store.store import Generation, Record
from tests.fuzz.targets.state import SKETCH, observed, rows

LARGE = 26  # bits: a table of 2 GiB


def saved(learner: dict[str, Any], bits: int = LARGE) -> tuple[Generation, bytes]:
    state = ModelState("m", bytes(16))
    payload = Change(read_config({"learner": learner, "encoder": {"bits": bits}})).payload()
    state.apply(Record("m", "config", 1, 1, 0, payload, bytes(32), records.next_chain(state.chain, bytes(32))))
    state.apply(observed(state, rows(5, 60)))
    frozen = state.freeze()
    content = frozen.encode()
    place = (state.applied, state.chain, state.lineage)
    return Generation(1, 0, *place, 1, 2, 0, 1, len(content), bytes(32), frozen.digest(), False, {}), content


LEARNERS: dict[str, dict[str, Any]] = {
    "adaptive": {},
    "not normalised": {"rate": "adaptive", "normalised": False, "step": "gradient"},
    "constant": {"rate": "constant", "normalised": False, "step": "gradient", "gravity": 1e-4},
    "ftrl": {"kind": "ftrl_proximal"},
    "hybrid": {**SKETCH, "k": 5, "warm_up": 10, "shadow": [0.1]},
    "strict": {**SKETCH, "mode": "strict", "k": 5},
    "diag": {**SKETCH, "mode": "diag", "block": 1},
    "exact, then hybrid": {**SKETCH, "mode": "exact", "features_max": 8, "beyond": "hybrid"},
}
STEP: dict[str, str] = {"truncated_gradient": "eta", "ftrl_proximal": "alpha", "taylor_sketch": "gamma"}


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_check_takes_memory_for_the_weights_that_there_are(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generation, content = saved(LEARNERS[learner])
    tables: list[int] = []
    thaw = ModelState.thaw

    def noted(*args: Any) -> ModelState:
        state = thaw(*args)
        tables.append(state.memory()["table"])
        return state

    monkeypatch.setattr(ModelState, "thaw", staticmethod(noted))
    check_generation(generation, content)
    assert tables[-1] < 2**15  # a segment of the map, and lines


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_check_compares_every_bit(learner: str) -> None:
    generation, content = saved(LEARNERS[learner], 12)
    step = STEP[LEARNERS[learner].get("kind", "truncated_gradient")]
    other, _ = saved({**LEARNERS[learner], step: 0.25}, 12)
    check_generation(generation, content)
    for read in (check_generation, thaw_generation):
        with pytest.raises(Corrupt, match="does not match its state digest"):
            read(replace(generation, state_digest=other.state_digest), content)
