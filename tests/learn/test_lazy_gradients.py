from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt
from riata.learn.taylor_state import LAZY
from riata.run.state.generations import check_generation, thaw_generation
from riata.run.state.model_state import ModelState
from riata.store import layout
from tests.chaos.test_crafted import saved_as
from tests.golden.make_lazy_sketch import events
from tests.learn.streams import to_batch

GOLDEN = Path(__file__).parents[1] / "golden"
ANSWERED = json.loads((GOLDEN / "lazy_sketch.json").read_text())


def stored() -> tuple[dict[str, Any], Arrays]:
    return layout.decode_checkpoint(gzip.decompress((GOLDEN / "lazy_sketch.bin.gz").read_bytes()))


def test_gradients_that_lacked_moves_are_those_that_the_older_release_answered() -> None:
    header, arrays = stored()
    tracked = arrays["learner.lazy_tracked"].astype(np.int64)
    assert 0 < len(tracked) < len(arrays["learner.member_beta"])
    assert np.count_nonzero(arrays["learner.lazy_moved"])
    sketch = ModelState.thaw(header, arrays).learner.sketch()
    assert sketch is not None
    expected = np.array(ANSWERED["gradient"])
    assert sketch.beta.tolist() == ANSWERED["beta"]
    np.testing.assert_allclose(sketch.gradient, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    assert np.abs(arrays["learner.member_gradient"] - expected).max() > 1e-3 * np.abs(expected).max()


def test_such_a_state_is_frozen_without_what_was_tracked_and_learns_on() -> None:
    header, arrays = stored()
    state = ModelState.thaw(header, arrays)
    again = state.freeze().arrays
    prefixed = {f"learner.{name}" for name in LAZY}
    assert again.keys() == arrays.keys() - prefixed
    assert {name for name in again if again[name].tobytes() != arrays[name].tobytes()} == {"learner.member_gradient"}
    state.learner.step(to_batch(events(7, 40)))
    once_more = ModelState.thaw(header, arrays)
    once_more.learner.thaw({name.removeprefix("learner."): array for name, array in again.items() if name.startswith("learner.")})
    once_more.learner.step(to_batch(events(7, 40)))
    left, right = state.learner.freeze(), once_more.learner.freeze()
    assert all(left[name].tobytes() == right[name].tobytes() for name in left)


def test_a_generation_of_the_older_release_verifies_by_the_digest_it_was_stored_with() -> None:
    data = gzip.decompress((GOLDEN / "lazy_sketch.bin.gz").read_bytes())
    saved, _ = saved_as(*stored())
    assert saved.state_digest.hex() == ANSWERED["digest"]
    check_generation(saved, data)
    assert thaw_generation(saved, data).learnt_under.algo_version == 2
    for read in (thaw_generation, check_generation):
        with pytest.raises(Corrupt, match="does not match its state digest"):
            read(replace(saved, state_digest=bytes(32)), data)


def put(name: str, at: int, value: float) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[f"learner.lazy_{name}"] = arrays[f"learner.lazy_{name}"].copy()
        arrays[f"learner.lazy_{name}"][at] = value

    return change


def shorten(name: str) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[f"learner.lazy_{name}"] = arrays[f"learner.lazy_{name}"][:-1]

    return change


def as_numbers(arrays: Arrays) -> None:
    arrays["learner.lazy_tracked"] = arrays["learner.lazy_tracked"].astype(np.float64)


def as_table(arrays: Arrays) -> None:
    arrays["learner.lazy_tracked"] = arrays["learner.lazy_tracked"].reshape(1, -1)


def without_reach(arrays: Arrays) -> None:
    del arrays["learner.lazy_reach"]


@pytest.mark.parametrize(
    "change",
    [
        put("tracked", 0, 10**9),
        put("tracked", 0, -1),
        put("tracked", 0, 1),
        put("settled", 0, np.nan),
        put("moved", 1, np.inf),
        shorten("settled"),
        shorten("moved"),
        as_numbers,
        as_table,
        without_reach,
    ],
)
def test_tracked_gradients_must_fit_the_block(change: Callable[[Arrays], None]) -> None:
    header, arrays = stored()
    arrays["learner.lazy_tracked"] = arrays["learner.lazy_tracked"].copy()
    arrays["learner.lazy_tracked"][1] = 1
    ModelState.thaw(header, arrays)
    change(arrays)
    with pytest.raises(Corrupt):
        ModelState.thaw(header, arrays)
