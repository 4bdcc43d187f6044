"""The member of second order of the default learner, while a model has few features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.learn.learner import ColumnRange, Learner
from riata.learn.limits import FIRST, ranges_of
from riata.learn.mixed_gradient import MixedGradient
from riata.learn.registry import build_learner
from riata.learn.second_order import PEAK_MAX, VARIANCE, WEIGHTS
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.wire.batch import Batch
from tests.learn.contract import same, served
from tests.learn.streams import cut, sparse_events, to_batch
from tests.twins.second_order import Normal
from tests.twins.truncated_step import Event

ON = TruncatedGradientConfig()
OFF = replace(ON, second_order=False)
BITS = 12


def columns(n: int, d: int = 12) -> Batch:
    """Rows of columns that say nearly the same; the label is in their small differences."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(n, 1)) + 0.1 * rng.normal(size=(n, d))
    truth = 30.0 * (np.arange(d) % 3 - 1.0)
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-x @ truth))).astype(np.float64)
    events = [Event([((j + 1) << 24, float(v)) for j, v in enumerate(row)], y) for row, y in zip(x, label.tolist(), strict=True)]
    return to_batch(events)


def loss(learner: Learner, batch: Batch) -> float:
    return float(np.logaddexp(0.0, np.where(batch.label > 0.5, -1.0, 1.0) * learner.step(batch).answered).mean())


def test_columns_that_say_nearly_the_same_are_told_apart() -> None:
    batch = columns(1000)
    learner = MixedGradient(ON, BITS)
    assert loss(learner, batch) < 0.85 * loss(MixedGradient(OFF, BITS), batch)
    assert learner.chosen()["second_order"] > 0.9


@pytest.mark.parametrize(("features", "has"), [(WEIGHTS - 1, True), (WEIGHTS, False)])
def test_with_too_many_features_the_base_rate_takes_its_place(features: int, has: bool) -> None:
    events = [Event([((i % features + 1) << 20, 1.0)], float(i % 4 == 0)) for i in range(2 * features)]
    learner = MixedGradient(ON, BITS)
    learner.step(to_batch(events))
    assert ("second_order" in learner.chosen(), "base_rate" in learner.chosen()) == (has, not has)
    assert len(learner.freeze()["second_weight"]) == (features + 1 if has else 0)
    row = to_batch([Event([(1 << 31, 1.0)], 1.0)])
    assert served(learner.weights(), row, 0) == learner.step(row).margin[0]
    assert learner.memory()["checkpoint"] == sum(array.nbytes for array in learner.freeze().values())
    assert has or learner.memory()["second_order"] == 0


def test_it_ends_when_others_have_made_the_labels_much_likelier() -> None:
    """The label is that of the row before, which steps of constant size follow and an average does not."""
    rng = np.random.default_rng(2)
    label = np.cumsum(rng.random(9000) < 0.01) % 2
    learner = MixedGradient(replace(ON, calibrated=False), BITS)
    learner.step(to_batch([Event([(1 << 24, 1.0)], float(y)) for y in label]))
    assert learner.chosen()["base_rate"] == 0.0
    assert len(learner.freeze()["second_weight"]) == 0


def _numbers(learner: MixedGradient) -> tuple[F64, F64]:
    frozen = learner.freeze()
    return frozen["second_weight"].astype(np.float64), frozen["second_covariance"].astype(np.float64)


def test_what_is_forgotten_makes_variances_grow_up_to_those_at_first() -> None:
    learner = MixedGradient(ON, BITS)
    learner.step(columns(500))
    weight, covariance = _numbers(learner)
    learner.forget(0.5)
    assert np.array_equal(_numbers(learner)[0], weight)
    assert _numbers(learner)[1] == pytest.approx(2.0 * covariance)
    learner.forget(1e-9)
    diagonal = np.cumsum(np.arange(1, len(weight) + 1)) - 1
    assert _numbers(learner)[1][diagonal[1:]] == pytest.approx(VARIANCE / learner.freeze()["second_peak"].astype(np.float64) ** 2)
    learner.step(columns(500))
    assert np.isfinite(np.concatenate(_numbers(learner))).all()


def test_a_column_whose_largest_value_was_a_mistake_begins_anew() -> None:
    batch = columns(400)
    spoilt = replace(batch, value=np.where(np.arange(len(batch.value)) % 240 == 120, 1e6, batch.value))
    learner = MixedGradient(ON, BITS)
    learner.step(cut(spoilt, 0, 200))
    peak = learner.freeze()["second_peak"].astype(np.float64)
    assert peak.max() > 100.0
    learner.mend({1 << 24: ColumnRange(1.0, 0.0, 1.0, -3.0, 3.0)})
    mended = learner.freeze()
    assert mended["second_peak"].astype(np.float64)[0] == 3.0
    assert mended["second_weight"].astype(np.float64)[1] == 0.0
    assert served(learner.weights(), batch, 200) == learner.step(cut(batch, 200, 201)).margin[0]


# Weights in units of the deviations of columns.


def far_columns(n: int, seed: int = 3) -> tuple[Batch, F64]:
    """Rows of columns far from zero, the last of which is often absent, and their values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)) * [1.0, 5.0, 0.2, 1.0] + [30.0, -200.0, 9.0, 4.0]
    x[rng.random(n) < 0.4, 3] = 0.0
    margin = (x - x.mean(axis=0)) @ [2.0, -0.6, 20.0, 0.5]
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)
    events = [
        Event([((j + 1) << 24, float(value)) for j, value in enumerate(row) if value], y)
        for row, y in zip(x, label.tolist(), strict=True)
    ]
    return to_batch(events), x


def again(learner: Learner, batch: Batch) -> None:
    learner.learn_again(batch, ranges_of(batch, np.unique(batch.hash).tolist()), far=False)


def test_rows_learnt_again_in_units_of_deviations_are_those_of_the_twin() -> None:
    batch, x = far_columns(100)
    learner, normal = MixedGradient(ON, BITS), Normal(ON.reach)
    learner.step(batch)
    again(learner, batch)
    slots = [(j + 1) << 24 >> (32 - BITS) for j in range(4)]
    normal.scale(dict(zip(slots, x.T, strict=True)))
    for row, y in zip(x, batch.label, strict=True):
        normal.learn(dict(zip(slots, row.tolist(), strict=True)), y, 1.0)
    expected = normal.weights()
    assert _numbers(learner)[0] == pytest.approx([expected[None], *(expected[slot] for slot in slots)], rel=1e-6)
    assert served(learner.weights(), batch, 0) == learner.step(cut(batch, 0, 1)).margin[0]
    learner.forget(1e-9)
    frozen = learner.freeze()
    diagonal = np.cumsum(np.arange(1, 6)) - 1
    assert _numbers(learner)[1][diagonal] == pytest.approx(frozen["second_given"].astype(np.float64))


def test_it_begins_anew_only_with_all_that_was_learnt() -> None:
    batch, _ = far_columns(100)
    for settings, rows in ((ON, cut(batch, 0, 99)), (OFF, batch)):
        learner = MixedGradient(settings, BITS)
        learner.step(batch)
        before = learner.freeze()
        again(learner, rows)
        assert same(learner.freeze(), before)


def test_columns_that_hardly_vary_or_are_too_large_keep_their_variances() -> None:
    rng = np.random.default_rng(1)
    x = np.stack([1e9 + rng.normal(size=50), rng.normal(size=50) * 4.0 * PEAK_MAX, rng.normal(size=50)])
    batch = to_batch([Event([((j + 1) << 24, v) for j, v in enumerate(row)], float(i % 2)) for i, row in enumerate(x.T.tolist())])
    learner = MixedGradient(ON, BITS)
    learner.step(batch)
    again(learner, batch)
    given = learner.freeze()["second_given"].astype(np.float64)
    assert (given > 0.0).tolist() == [True, False, False, True]
    assert np.isfinite(np.concatenate(_numbers(learner))).all()


def test_small_tables_far_from_zero_are_predicted_better() -> None:
    batch, _ = far_columns(400)
    scaled, by_peaks = (build_learner(replace(ON, learns_again=how), BITS) for how in (True, False))
    assert loss(scaled, cut(batch, 0, FIRST)) == loss(by_peaks, cut(batch, 0, FIRST))
    assert loss(scaled, cut(batch, FIRST, 400)) < 0.97 * loss(by_peaks, cut(batch, FIRST, 400))


def test_rows_that_were_forgotten_count_less_when_they_are_learnt_again() -> None:
    batch, _ = far_columns(FIRST)
    variances = []
    for keep in (1.0, 0.1):
        learner = build_learner(ON, BITS)
        learner.step(cut(batch, 0, FIRST - 1))
        learner.forget(keep)
        learner.step(cut(batch, FIRST - 1, FIRST))
        variances.append(learner.freeze()["second_covariance"].astype(np.float64)[2])  # of the first column
    assert variances[1] > 3.0 * variances[0]


def test_values_of_any_size_leave_its_numbers_finite() -> None:
    sizes = [1e-130, 1e-9, 1.0, 1e9, 1e130]  # the first and the last are not learnt
    events = [Event([((j + 1) << 24, size * (1 + i % 3)) for j, size in enumerate(sizes)], float(i % 2)) for i in range(50)]
    learner = MixedGradient(ON, BITS)
    stepped = learner.step(to_batch(events))
    assert not stepped.refused.any()
    assert np.count_nonzero(learner.freeze()["second_peak"]) == 3
    assert np.isfinite(np.concatenate(_numbers(learner))).all()


def test_a_state_that_cannot_be_is_refused() -> None:
    learner = MixedGradient(ON, BITS)
    learner.step(to_batch(sparse_events(40, seed=11)))
    good = learner.freeze()
    assert len(good["second_weight"]) > 2
    wrong = {
        "second_weight": good["second_weight"][1:],
        "second_peak": -good["second_peak"].astype(np.float64),
        "second_covariance": np.full(len(good["second_covariance"]), np.nan),
        "second_given": np.full(len(good["second_given"]), -1.0),
        "second_slot": good["second_slot"][::-1].copy(),
        "base": np.array([0.0, 0.0, 1.0, 1.0]),
    }
    for name, array in wrong.items():
        with pytest.raises(Corrupt):
            learner.thaw({**good, name: array})
    with pytest.raises(Corrupt):
        learner.thaw({name: array for name, array in good.items() if name != "second_peak"})
    with pytest.raises(Corrupt):
        MixedGradient(OFF, BITS).thaw(good)
    assert same(learner.freeze(), good)
