"""What every learner promises, as tests. A learner's own tests inherit `LearnerContract` and say how to build one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import BOOL, Arrays
from riata.base.errors import Corrupt
from riata.learn.learner import Learner, Weights
from riata.learn.registry import build_learner
from riata.wire.batch import Batch
from tests.learn.streams import cut, sparse_events, to_batch
from tests.twins.shapes import added
from tests.twins.truncated_step import Event

Build = Callable[[], Learner]
ROWS = 240


def builds(configs: Mapping[str, Any], bits: int, classes: tuple[int, int] | None = None) -> Any:
    """A fixture `build` of `LearnerContract`: the learners of these configurations. classes : as of `build_learner`"""

    @pytest.fixture(params=list(configs))
    def build(_self: object, request: pytest.FixtureRequest) -> Build:
        return lambda: build_learner(configs[request.param], bits, classes=classes)

    return build


def same(left: Arrays, right: Arrays) -> bool:
    """Equal names, types and bits."""
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and left[name].tobytes() == right[name].tobytes() for name in left
    )


def served(weights: Weights, batch: Batch, row: int) -> float:
    """The margin that a server would answer, product by product in the order of the hashes."""
    batch, row = weights.used(cut(batch, row, row + 1)), 0
    beta = dict(zip(weights.slot.tolist(), weights.beta.tolist(), strict=True))
    margin = weights.intercept
    for p in range(int(batch.indptr[row]), int(batch.indptr[row + 1])):
        margin += beta.get(int(batch.hash[p]) >> (32 - weights.bits), 0.0) * float(batch.value[p])
    if weights.shapes is not None:
        own = slice(int(batch.indptr[row]), int(batch.indptr[row + 1]))
        for part in added(weights.shapes, dict(zip(batch.hash[own].tolist(), batch.value[own].tolist(), strict=True))):
            margin += part
    return margin


class LearnerContract:
    """Inherit, and define a fixture `build` that returns a function which makes an empty learner."""

    @pytest.fixture
    def batch(self) -> Batch:
        return to_batch(sparse_events(ROWS, seed=11))

    def test_state_does_not_depend_on_how_events_are_cut_into_batches(self, build: Build, batch: Batch) -> None:
        whole, single, uneven = build(), build(), build()
        expected = whole.step(batch).margin
        one_by_one = [single.step(cut(batch, i, i + 1)).margin[0] for i in range(batch.n)]
        edges = [0, 1, 1, 70, 99, 100, 101, 200, batch.n]
        pieces = [uneven.step(cut(batch, start, stop)).margin for start, stop in itertools.pairwise(edges)]
        assert np.array(one_by_one).tobytes() == expected.tobytes() == np.concatenate(pieces).tobytes()
        assert same(whole.freeze(), single.freeze())
        assert same(whole.freeze(), uneven.freeze())

    @pytest.mark.parametrize("skipped", [False, True])
    def test_batches_given_together_are_learnt_as_one_by_one(self, build: Build, skipped: bool) -> None:
        # Rows that are longer than the room for one, and more features than the lists have room for, in the middle of it.
        made = [
            sparse_events(n, seed, 3000, longest=longest) for n, seed, longest in ((7, 1, 9), (0, 2, 9), (9, 3, 700), (3, 4, 0))
        ]
        batches = [to_batch(events) for events in [*made, *made[2:], made[0]]]
        skip = np.arange(sum(batch.n for batch in batches)) % 4 == 1 if skipped else None
        together, single = build(), build()
        reported = together.step_all(batches, skip)
        ends = np.cumsum([batch.n for batch in batches])
        steps = [
            single.step(batch, None if skip is None else skip[end - batch.n : end])
            for batch, end in zip(batches, ends, strict=True)
        ]
        assert reported.margin.tobytes() == b"".join(step.margin.tobytes() for step in steps)
        assert reported.refused.tolist() == [row for step in steps for row in step.refused.tolist()]
        assert reported.label.tolist() == [label for batch in batches for label in batch.label.tolist()]
        assert reported.weight.tolist() == [weight for batch in batches for weight in batch.weight.tolist()]
        assert reported.refusals == sum(step.refusals for step in steps) == int(reported.refused.sum())
        assert same(together.freeze(), single.freeze())

    @pytest.mark.parametrize("at", [0, 1, 57, 100, 173, ROWS])
    def test_thawed_learner_continues_to_the_last_bit(self, build: Build, batch: Batch, at: int) -> None:
        steady, thawed = build(), build()
        steady.step(cut(batch, 0, at))
        thawed.step(cut(batch, 3, 50))  # what it held before must not shine through
        thawed.thaw(steady.freeze())
        assert same(thawed.freeze(), steady.freeze())
        left, right = steady.step(cut(batch, at, ROWS)), thawed.step(cut(batch, at, ROWS))
        assert left.margin.tobytes() == right.margin.tobytes()
        assert same(thawed.freeze(), steady.freeze())
        assert thawed.weights().beta.tobytes() == steady.weights().beta.tobytes()

    def test_looking_does_not_change_the_state(self, build: Build, batch: Batch) -> None:
        watched, alone = build(), build()
        for i in range(batch.n):
            watched.step(cut(batch, i, i + 1))
            watched.weights()
            if i % 20 == 0:
                watched.freeze()
                watched.memory()
                watched.sketch()
                watched.shadows()
                watched.closed_vocabulary()
        alone.step(batch)
        assert same(watched.freeze(), alone.freeze())

    def test_served_margin_equals_the_learners_to_the_last_bit(self, build: Build, batch: Batch) -> None:
        learner = build()
        for i in range(batch.n):
            weights = learner.weights()
            expected = served(weights, batch, i)
            assert float(learner.step(cut(batch, i, i + 1)).margin[0]) == expected

    def test_served_weights_are_sorted_finite_and_not_zero(self, build: Build, batch: Batch) -> None:
        learner = build()
        learner.step(batch)
        weights = learner.weights()
        assert len(weights.slot) > 0
        assert bool((np.diff(weights.slot.astype(np.int64)) > 0).all())
        assert bool(np.isfinite(weights.beta).all())
        assert bool((weights.beta != 0.0).all())

    def test_skipped_rows_are_predicted_and_leave_no_trace(self, build: Build, batch: Batch) -> None:
        skip = np.random.default_rng(5).random(batch.n) < 0.3
        some, rest = build(), build()
        stepped = some.step(batch, skip)
        kept = rows_one_by_one(batch, ~skip)
        assert stepped.refused.tolist() == skip.tolist()
        assert stepped.margin[~skip].tobytes() == rest.step(kept).margin.tobytes()
        assert bool(np.isfinite(stepped.margin).all())
        assert same(some.freeze(), rest.freeze())

    def test_row_without_a_label_is_refused_and_leaves_no_trace(self, build: Build, batch: Batch) -> None:
        learner = build()
        learner.step(batch)
        before = learner.freeze()
        stepped = learner.step(to_batch([Event([(7, 1.0), (2**31, 2.0)], float("nan"))]))
        assert stepped.refused.tolist() == [True]
        assert same(learner.freeze(), before)

    def test_frozen_arrays_are_copies(self, build: Build, batch: Batch) -> None:
        learner = build()
        learner.step(cut(batch, 0, 100))
        frozen = learner.freeze()
        kept = {name: array.copy() for name, array in frozen.items()}
        learner.step(cut(batch, 100, ROWS))
        assert same(frozen, kept)

    def test_empty_batch_and_empty_row_are_fine(self, build: Build) -> None:
        learner = build()
        assert len(learner.step(to_batch([])).margin) == 0
        assert learner.step(to_batch([Event([], 1.0)])).refused.tolist() == [False]

    def test_thaw_refuses_a_missing_a_strange_and_a_damaged_array(self, build: Build, batch: Batch) -> None:
        learner = build()
        learner.step(batch)
        frozen = learner.freeze()
        for name in frozen:
            for broken in _damaged(frozen, name):
                with pytest.raises(Corrupt):
                    learner.thaw(broken)
        with pytest.raises(Corrupt):
            learner.thaw({**frozen, "stranger": np.zeros(3)})
        assert same(learner.freeze(), frozen)  # nothing that was refused has left a mark
        learner.thaw(frozen)
        assert same(learner.freeze(), frozen)

    def test_memory_names_its_parts(self, build: Build, batch: Batch) -> None:
        learner = build()
        learner.step(batch)
        size = sum(array.nbytes for array in learner.freeze().values())
        parts = learner.memory()
        assert parts["checkpoint"] == size
        learner.step(batch)
        assert learner.memory()["checkpoint"] >= sum(array.nbytes for array in learner.freeze().values())
        assert all(size >= 0 for size in parts.values())


def rows_one_by_one(batch: Batch, keep: BOOL) -> Batch:
    """The rows of `batch` where `keep` is true, taken one row at a time."""
    rows = [i for i in range(batch.n) if keep[i]]
    spans = [slice(int(batch.indptr[i]), int(batch.indptr[i + 1])) for i in rows]
    return Batch(
        indptr=np.cumsum([0, *(span.stop - span.start for span in spans)]).astype(np.int64),
        hash=np.concatenate([batch.hash[span] for span in spans]),
        value=np.concatenate([batch.value[span] for span in spans]),
        label=batch.label[rows],
        weight=batch.weight[rows],
        event_id=batch.event_id[rows],
        has_id=batch.has_id[rows],
    )


def _damaged(frozen: Arrays, name: str) -> list[Arrays]:
    """States with one wrong array: missing, of another type, too long, not finite or out of order."""
    array = frozen[name]
    broken: list[Arrays] = [{key: value for key, value in frozen.items() if key != name}]
    broken.append({**frozen, name: np.zeros(array.shape, np.float32)})
    broken.append({**frozen, name: np.concatenate([array, array])[: len(array) + 1] if len(array) else np.zeros(1, array.dtype)})
    if array.dtype == np.float64 and len(array):
        poisoned = array.copy()
        poisoned[0] = np.nan
        broken.append({**frozen, name: poisoned})
    if array.dtype == np.uint32 and len(array) > 1:
        broken.append({**frozen, name: array[::-1].copy()})
    return broken
