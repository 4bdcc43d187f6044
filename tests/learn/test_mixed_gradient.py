"""Truncated gradient with three step sizes, mixed by likelihood: the default learner."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt
from riata.learn.held_rows import no_first_rows
from riata.learn.learner import Learner
from riata.learn.mixed_gradient import MEMBERS, MixedGradient
from riata.learn.one_vs_rest import OneVsRest
from riata.learn.registry import build_learner
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.learn.truncated_gradient import TruncatedGradient
from riata.wire.batch import Batch
from tests.learn.contract import Build, LearnerContract, same, served
from tests.learn.streams import cut, sparse_events, to_batch
from tests.twins.mixed_step import Eager, learn_rows
from tests.twins.truncated_row import collect
from tests.twins.truncated_step import Event

BITS = 8  # 40 names in 256 slots: a few share one
DEFAULT = TruncatedGradientConfig()
VARIANTS = {
    "default": DEFAULT,
    "strong": replace(DEFAULT, gravity=0.01, period=7),
    "as in the paper": replace(DEFAULT, centred=False, calibrated=False, gravity=0.01, period=7, ceiling=math.inf),
    "round": replace(DEFAULT, rule="round", period=7),
    "gradient": replace(DEFAULT, step="gradient", gravity=0.01, period=7),
    "no intercept": replace(DEFAULT, intercept=False, period=7),
    "no base rate": replace(DEFAULT, base_rate=False, period=7),
    "no second order": replace(DEFAULT, second_order=False, period=7),
    "counts": replace(DEFAULT, scale="counts", accumulator=0.0, reach=math.inf),
}


class TestContract(LearnerContract):
    @pytest.fixture(params=list(VARIANTS))
    def build(self, request: pytest.FixtureRequest) -> Build:
        def empty() -> Learner:
            return MixedGradient(VARIANTS[request.param], BITS)

        return empty


@pytest.mark.parametrize("name", list(VARIANTS))
@pytest.mark.parametrize("longest", [8, 30])
def test_lazy_equals_eager(name: str, longest: int) -> None:
    events = sparse_events(200, seed=3, longest=longest)
    eager, lazy = Eager(VARIANTS[name], BITS), MixedGradient(VARIANTS[name], BITS)
    margins, refused = learn_rows(eager, events)
    stepped = lazy.step(to_batch(events))
    weights, (beta, intercept) = lazy.weights(), eager.served()
    expected = collect(beta)
    room = 1e-10 * max(1.0, max(abs(margin) for margin in margins))  # 200 steps of rounding
    assert stepped.margin == pytest.approx(margins, rel=1e-10, abs=room)
    assert stepped.refused.tolist() == refused
    assert weights.slot.tolist() == list(expected)
    assert weights.beta == pytest.approx(list(expected.values()), rel=1e-9, abs=1e-11)
    assert weights.intercept == pytest.approx(intercept, rel=1e-9, abs=1e-11)
    assert lazy.chosen()["share"] == pytest.approx([one.share for one in eager.members], rel=1e-9)
    other = lazy.chosen().get("second_order" if eager.second else "base_rate", 0.0)
    assert other == pytest.approx(eager.base, rel=1e-9, abs=1e-300)


def test_columns_are_centred_as_those_of_the_twin() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal([1000.0, 0.0, -3.0], [1.0, 1.0, 100.0], (300, 3))
    rows[rng.random(rows.shape) < 0.05] = np.nan
    label = rng.random(300) < 1.0 / (1.0 + np.exp(-np.nan_to_num(rows[:, 1])))
    events = [
        Event([((j + 1) << 24, float(x)) for j, x in enumerate(row) if not np.isnan(x)], float(y))
        for row, y in zip(rows, label, strict=True)
    ]
    eager, lazy = Eager(DEFAULT, BITS), MixedGradient(DEFAULT, BITS)
    margins, _ = learn_rows(eager, events)
    assert lazy.step(to_batch(events)).margin == pytest.approx(margins, rel=1e-7, abs=1e-7)
    assert len(lazy.freeze()["entry"]) == 3


@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e3, 1e12])
def test_margins_and_importances_of_every_size_move_as_the_twin_says(weight: float, size: float) -> None:
    """Exponentials far outside of the usual range, and travels beyond the quick method."""
    settings = replace(DEFAULT, centred=False)
    events = [Event([(1 << 31, size * (1.0 + i % 3))], float(i % 5 > 1), weight) for i in range(40)]
    eager, lazy = Eager(settings, BITS), MixedGradient(settings, BITS)
    margins, refused = learn_rows(eager, events)
    stepped = lazy.step(to_batch(events))
    assert stepped.margin == pytest.approx(margins, rel=1e-9, abs=1e-9)
    assert stepped.refused.tolist() == refused


def repeated(n: int) -> Batch:
    """Rows of one feature, of 300 in turn, whose label it decides: the larger the step, the better."""
    return to_batch([Event([((i % 300) << 22, 1.0)], float(i % 300 % 2)) for i in range(n)])


def test_the_best_step_has_the_largest_share_and_another_comes_back() -> None:
    steps = replace(DEFAULT, base_rate=False)
    rule, noise = (build_learner(steps, 10) for _ in range(2))
    batch = repeated(1200)
    random = replace(batch, label=np.random.default_rng(1).integers(0, 2, batch.n).astype(np.float64))
    rule.step(batch)
    noise.step(random)
    assert rule.chosen()["eta"] == noise.chosen()["eta"] == pytest.approx([0.6, 2.7, 24.3])
    assert rule.chosen()["share"][2] > 0.9
    assert noise.chosen()["share"][0] > 0.9
    for _ in range(10):
        rule.step(random)
    assert rule.chosen()["share"][0] > 0.9  # although it had a share of 1e-4 at most
    assert sum(rule.chosen()["share"]) == pytest.approx(1.0)
    explained, unexplained = (build_learner(replace(DEFAULT, second_order=False), 10) for _ in range(2))
    explained.step(batch)
    unexplained.step(random)
    assert explained.chosen()["base_rate"] == 0.0
    assert unexplained.chosen()["base_rate"] > 0.9
    assert build_learner(replace(DEFAULT, mixed=False), BITS).chosen() == {}


@pytest.mark.parametrize(
    "settings", [{"mixed": False}, {"eta": 0.5}, {"loss": "squared"}, {"loss": "hinge"}, {"normalised": False}]
)
def test_one_step_is_learnt_where_three_have_no_meaning(settings: dict[str, Any]) -> None:
    assert not TruncatedGradientConfig(**settings).is_mixed()
    assert DEFAULT.is_mixed()


def rare(n: int, positives: int, importance: float = 1.0) -> Batch:
    """Rows of five features that say nothing of the label, which is rarely 1."""
    rng = np.random.default_rng(positives)
    label = np.zeros(n)
    label[rng.choice(n, positives, replace=False)] = 1.0
    names = (rng.zipf(1.5, (n, 5)) % 400 << 14) + (np.arange(5) << 23)
    events = [Event([(name, 1.0) for name in row], y, importance) for row, y in zip(names.tolist(), label.tolist(), strict=True)]
    return to_batch(events)


def log_loss(learner: Learner, batch: Batch) -> float:
    return float(np.logaddexp(0.0, np.where(batch.label > 0.5, -1.0, 1.0) * learner.step(batch).answered).mean())


@pytest.mark.parametrize("positives", [50, 90])
def test_rare_labels_that_nothing_explains_are_predicted_as_by_their_rate(positives: int) -> None:
    batch = rare(10_000, positives)
    seen = np.cumsum(batch.label) - batch.label
    rate = (seen + 0.5) / (np.arange(batch.n) + 1.0)
    base = float(-np.log(np.where(batch.label > 0.5, rate, 1.0 - rate)).mean())
    assert log_loss(build_learner(DEFAULT, 18), batch) < 1.02 * base
    assert log_loss(build_learner(replace(DEFAULT, base_rate=False), 18), batch) > 1.03 * base


def test_importances_of_every_size_move_the_base_rate_as_the_twin_says() -> None:
    for importance in (0.01, 3.0, 1000.0):
        events = [Event([((i % 7 + 1) << 24, 1.0)], float(i % 9 == 0), importance) for i in range(100)]
        settings = replace(DEFAULT, second_order=False)
        eager, lazy = Eager(settings, BITS), MixedGradient(settings, BITS)
        margins, _ = learn_rows(eager, events)
        assert lazy.step(to_batch(events)).margin == pytest.approx(margins, rel=1e-9, abs=1e-9)
        assert 0.0 < eager.base == pytest.approx(lazy.chosen()["base_rate"], rel=1e-9)


def test_what_is_forgotten_makes_later_steps_larger() -> None:
    batch = to_batch(sparse_events(200, seed=11))
    forgetful, steady = MixedGradient(DEFAULT, BITS), MixedGradient(DEFAULT, BITS)
    for learner in (forgetful, steady):
        learner.step(cut(batch, 0, 150))
    before = served(steady.weights(), batch, 160)
    forgetful.forget(0.01)
    assert served(forgetful.weights(), batch, 160) == pytest.approx(before)
    frozen, kept = forgetful.freeze(), steady.freeze()
    assert frozen["squares"] == pytest.approx(0.01 * kept["squares"].astype(np.float64))
    for learner in (forgetful, steady):
        learner.step(cut(batch, 150, 200))
    moved, calm = forgetful.weights(), steady.weights()
    assert np.abs(moved.of(batch.hash)).sum() > np.abs(calm.of(batch.hash)).sum()


def test_the_size_of_a_checkpoint_is_known() -> None:
    learner = MixedGradient(replace(DEFAULT, gravity=0.01, period=7), 22)
    for start in range(0, 1000, 100):
        learner.step(to_batch(sparse_events(100, seed=start, features=1000)))
        frozen = learner.freeze()
        assert learner.memory()["checkpoint"] == sum(array.nbytes for array in frozen.values())


# States of ALGO_VERSION 8 and before.


def of_before(choice: int, settings: dict[str, Any], batch: Batch) -> tuple[TruncatedGradient, Arrays]:
    """A learner that an older version had chosen, and its state."""
    one = TruncatedGradient(replace(DEFAULT, mixed=False, **settings), BITS)
    one.step(batch)
    return one, {**one.freeze(), "tuned_counts": np.array([choice, 1], np.int64), **no_first_rows()}


@pytest.mark.parametrize(
    ("choice", "settings"),
    [(0, {}), (1, {"eta": 0.3}), (4, {"eta": 24.3, "accumulator": 0.3}), (6, {"eta": 8.1, "scale": "counts"})],
)
def test_an_older_state_predicts_as_it_did(choice: int, settings: dict[str, Any]) -> None:
    batch = to_batch(sparse_events(300, seed=11))
    before, state = of_before(choice, {**settings, "period": 7, "gravity": 1e-3}, cut(batch, 0, 250))
    learner = MixedGradient(replace(DEFAULT, period=7, gravity=1e-3), BITS)
    learner.thaw(state)
    old, new = before.weights(), learner.weights()
    if "scale" not in settings:  # the penalty is on another scale there
        assert new.slot.tolist() == old.slot.tolist()
        assert new.beta == pytest.approx(old.beta, rel=1e-12)
    assert new.intercept == pytest.approx(old.intercept, rel=1e-12)
    first = learner.step(cut(batch, 250, 251)).margin
    assert first == pytest.approx(before.step(cut(batch, 250, 251)).margin, rel=1e-2, abs=1e-2)
    assert same(_thawed(learner).freeze(), learner.freeze())
    assert np.isfinite(learner.step(cut(batch, 251, 300)).margin).all()


def _thawed(learner: MixedGradient) -> MixedGradient:
    other = MixedGradient(learner.config, learner.bits)
    other.thaw(learner.freeze())
    return other


def test_rows_that_an_older_state_held_are_not_needed() -> None:
    batch = to_batch(sparse_events(30, seed=11))
    _, state = of_before(0, {}, batch)
    held: Arrays = dict(zip(no_first_rows(), (batch.indptr, batch.hash, batch.value, batch.label, batch.weight), strict=True))
    learner = MixedGradient(DEFAULT, BITS)
    learner.thaw({**state, **held, "tuned_counts": np.array([0, 0], np.int64)})
    assert learner.learnt == 30


def test_an_older_state_of_several_classes_goes_on() -> None:
    batch = to_batch(sparse_events(100, seed=11))
    batch = replace(batch, label=(np.arange(batch.n) % 3).astype(np.float64))
    before = OneVsRest(partial(TruncatedGradient, replace(DEFAULT, mixed=False), BITS), 3, 5)
    before.step(batch)
    learner = OneVsRest(partial(MixedGradient, DEFAULT, BITS), 3, 5)
    learner.thaw({**before.freeze(), "tuned_counts": np.array([0, 1], np.int64), **no_first_rows()})
    for old, new in zip(before.weights().heads or (), learner.weights().heads or (), strict=True):
        assert new.beta == pytest.approx(old.beta, rel=1e-12)
    other = OneVsRest(partial(MixedGradient, DEFAULT, BITS), 3, 5)
    other.thaw(learner.freeze())
    assert same(other.freeze(), learner.freeze())


def test_a_state_that_cannot_be_is_refused() -> None:
    learner = MixedGradient(DEFAULT, BITS)
    learner.step(to_batch(sparse_events(40, seed=11)))
    good = learner.freeze()
    member = good["member"].reshape(-1, MEMBERS)
    for number, value in ((0, [0.5, 0.4, 0.2]), (0, [1.0, 0.0, 0.0]), (3, [1.0, 11.0, 1.0]), (5, [0.0, -1.0, 0.0])):
        changed = member.copy()
        changed[number] = value
        with pytest.raises(Corrupt):
            learner.thaw({**good, "member": changed.ravel()})
    for base in ([0.1, 0.0, -1.0, 3.0], [good["base"][0], 0.0, 1.0], [0.9, 0.0, 1.0, 3.0]):
        with pytest.raises(Corrupt):
            learner.thaw({**good, "base": np.array(base)})
    with pytest.raises(Corrupt):
        learner.thaw({name: array for name, array in good.items() if name != "base"})
    _, older = of_before(0, {}, to_batch(sparse_events(40, seed=11)))
    for counts in ([8, 1], [-1, 1], [0]):
        with pytest.raises(Corrupt):
            learner.thaw({**older, "tuned_counts": np.array(counts, np.int64)})
    with pytest.raises(Corrupt):
        learner.thaw({name: array for name, array in older.items() if name != "scale"})
    assert same(learner.freeze(), good)
