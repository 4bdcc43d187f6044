"""A learner that chooses its own settings from the first rows: truncated gradient with `tuned`."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.learn import first_rows, tuned
from riata.learn.learner import Learner
from riata.learn.one_vs_rest import OneVsRest
from riata.learn.registry import build_learner
from riata.learn.truncated_gradient import TruncatedGradient, TruncatedGradientConfig
from riata.learn.tuned import Tuned
from riata.wire.batch import Batch
from tests.learn.contract import Build, LearnerContract, same
from tests.learn.streams import cut, sparse_events, to_batch
from tests.twins.truncated_step import Event

BITS = 10
OWN = ("tuned_counts", *first_rows.NAMES)
TRIED = TruncatedGradientConfig().candidates()


def of_rows(rows: int) -> Tuned[TruncatedGradientConfig]:
    """The default learner, with another number of first rows, and a choice from four on."""
    return Tuned(lambda own: TruncatedGradient(own, BITS), TRIED, rows, least=4)


def repeated(n: int) -> Batch:
    """Rows of one feature, of 300 in turn, whose label it decides: the larger the step, the better."""
    return to_batch([Event([((i % 300) << 22, 1.0)], float(i % 300 % 2)) for i in range(n)])


@pytest.mark.parametrize("rows", [64, 256])  # they are held for a part of the contract's stream, or for all of it
class TestContract(LearnerContract):
    @pytest.fixture
    def build(self, rows: int) -> Build:
        def empty() -> Learner:
            return of_rows(rows)

        return empty


def plain_choice(batch: Batch, before: int) -> int:
    """The candidate with the lowest log loss on rows that it predicts before it learns them; the first, if that is not 1 % less.
    The one before, if there are not eight rows of each label."""
    if min((batch.label == label).sum() for label in (0.0, 1.0)) < 8:
        return before
    losses = []
    for one in TRIED:
        margin = TruncatedGradient(one, BITS).step(batch).margin
        losses.append(float(batch.weight @ np.logaddexp(0.0, np.where(batch.label == 1.0, -margin, margin))))
    return int(np.argmin(losses)) if min(losses) < 0.99 * losses[0] else 0


def test_steps_and_scales_are_tried_where_they_have_a_meaning() -> None:
    steps = [(0.9, "largest"), (0.3, "largest"), (2.7, "largest"), (8.1, "largest"), (24.3, "largest")]
    steps += [(2.7, "counts"), (8.1, "counts"), (24.3, "counts")]
    assert [one.eta for one in TRIED] == pytest.approx([eta for eta, _ in steps])
    assert [one.scale for one in TRIED] == [scale for _, scale in steps]
    assert [one.accumulator for one in TRIED] == pytest.approx([0.03] * 4 + [0.3] + [0.03] * 3)
    assert not any(one.tuned for one in TRIED)
    alone: list[dict[str, Any]] = [{"tuned": False}, {"eta": 0.5}, {"loss": "squared"}, {"loss": "hinge"}, {"normalised": False}]
    for settings in alone:
        config = TruncatedGradientConfig(**settings)
        assert config.candidates() == [replace(config, tuned=False)]
    assert {one.scale for one in TruncatedGradientConfig(scale="counts").candidates()} == {"counts"}
    several = TruncatedGradientConfig().candidates_of_classes()
    assert several[:5] == TRIED[:5]
    assert several[5:] == [replace(one, accumulator=10.0 * 0.03) for one in TRIED[5:]]


def test_the_best_on_the_rows_so_far_goes_on() -> None:
    batch = to_batch(sparse_events(150, seed=11))
    expected, chosen = [TruncatedGradient(TRIED[0], BITS).step(cut(batch, 0, 4)).margin], [0]
    for n in (4, 8, 16, 32, 64):
        chosen.append(plain_choice(cut(batch, 0, n), chosen[-1]))
        going_on = TruncatedGradient(TRIED[chosen[-1]], BITS)
        going_on.step(cut(batch, 0, n))
        expected.append(going_on.step(cut(batch, n, batch.n if n == 64 else 2 * n)).margin)
    assert len(set(chosen)) > 1
    learner = of_rows(64)
    assert learner.step(batch).margin.tobytes() == np.concatenate(expected).tobytes()
    assert (learner.config, learner.ended) == (TRIED[chosen[-1]], True)
    arrays = learner.freeze()
    assert all(arrays[name].tobytes() == array.tobytes() for name, array in going_on.freeze().items())
    assert arrays["first_hash"].nbytes == 0


def test_long_rows_end_the_choice_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "FEATURES", 100)
    learner, batch = of_rows(64), repeated(200)
    learner.step(cut(batch, 0, 31))
    assert not learner.ended
    learner.step(to_batch([Event([(name << 16, 1.0) for name in range(80)], 1.0)]))
    assert learner.ended


def test_a_rule_of_labels_has_a_larger_step_than_noise() -> None:
    rule, noise = (build_learner(TruncatedGradientConfig(), BITS) for _ in range(2))
    batch = repeated(1200)
    rule.step(batch)
    noise.step(replace(batch, label=np.random.default_rng(1).integers(0, 2, batch.n).astype(np.float64)))
    assert rule.chosen()["eta"] >= 8.0 > 1.0 > noise.chosen()["eta"]
    assert not rule.chosen()["ended"]
    assert build_learner(TruncatedGradientConfig(tuned=False), BITS).chosen() == {}


def test_what_is_forgotten_counts_less_when_the_first_rows_are_learnt_again() -> None:
    batch = to_batch(sparse_events(64, seed=11))
    forgetful, copy = of_rows(64), of_rows(64)
    forgetful.step(cut(batch, 0, 60))
    forgetful.forget(0.01)
    copy.thaw(forgetful.freeze())
    for learner in (forgetful, copy):  # the 64th row is where they are learnt again
        learner.step(cut(batch, 60, 64))
    held = replace(batch, weight=np.where(np.arange(64) < 60, 0.01 * batch.weight, batch.weight))
    again = TruncatedGradient(TRIED[plain_choice(held, 0)], BITS)
    again.step(held)
    assert forgetful.weights().beta.tobytes() == again.weights().beta.tobytes()
    assert same(copy.freeze(), forgetful.freeze())


def test_candidates_that_were_dropped_are_the_same_when_they_have_learnt_the_rows_again() -> None:
    batch = to_batch(sparse_events(300, seed=11))
    kept, dropped = of_rows(256), of_rows(256)
    for start in range(0, 300, 50):
        assert (kept.memory()["candidates"] > 0) == (32 <= start <= 255)
        for learner in (kept, dropped):
            learner.step(cut(batch, start, start + 50))
        dropped.rest()
        assert dropped.memory()["candidates"] == 0
    assert kept.ended
    assert same(kept.freeze(), dropped.freeze())


def of_classes(classes: int, rows: int = 64) -> Tuned[TruncatedGradientConfig]:
    """The default learner of up to five classes, of which some are known, with other numbers of first rows."""

    def build(own: TruncatedGradientConfig) -> Learner:
        return OneVsRest(lambda: TruncatedGradient(own, BITS), 0, 5)

    return Tuned(build, TRIED, rows, least=16, classes=classes)


def with_classes(n: int) -> Batch:
    """Rows whose first feature decides their class: two of them at first, and a third from row 20 on."""
    batch = to_batch([event for event in sparse_events(2 * n, seed=11) if event.features][:n])
    first = batch.hash[batch.indptr[:-1]].astype(np.float64)
    return replace(batch, label=np.where(np.arange(n) < 20, first % 2, first % 3))


def class_losses(margin: F64, batch: Batch) -> float:
    """Of probabilities that sum to one over the classes that have had a row, this one among them."""
    total, known = 0.0, set()
    for row, label, weight in zip(margin.tolist(), batch.label.astype(int).tolist(), batch.weight.tolist(), strict=True):
        known.add(label)
        total -= weight * math.log(sigma(row[label]) / sum(sigma(row[k]) for k in known))
    return total


def sigma(margin: float) -> float:
    return 1.0 / (1.0 + math.exp(-margin))


def test_several_classes_have_one_choice_whenever_they_became_known() -> None:
    batch = with_classes(150)
    held = cut(batch, 0, 64)
    losses = []
    for one in TRIED:
        losses.append(class_losses(OneVsRest(partial(TruncatedGradient, one, BITS), 3, 5).step(held).margin, held))
    best = TRIED[int(np.argmin(losses))]
    assert min(losses) < 0.99 * losses[0]
    expected = OneVsRest(partial(TruncatedGradient, best, BITS), 3, 5)
    expected.step(batch)

    named, late, stopped = of_classes(3), of_classes(2), of_classes(2)
    named.step(batch)
    for learner in (late, stopped):
        learner.step(cut(batch, 0, 20))
        learner.grow(3)
    late.step(cut(batch, 20, 150))
    stopped.step(cut(batch, 20, 41))
    again = of_classes(3)
    again.thaw(stopped.freeze())
    assert again.memory()["candidates"] == 0  # each would be as large as the model
    again.step(cut(batch, 41, 150))
    for learner in (named, late, again):
        assert (learner.config, learner.ended) == (best, True)
        assert same(learner.freeze(), {**expected.freeze(), **{k: v for k, v in named.freeze().items() if k in OWN}})
    late.grow(5)
    assert late.step(cut(batch, 0, 3)).margin.shape == (3, 5)


def test_the_first_rows_of_many_classes_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = with_classes(40)
    monkeypatch.setattr(tuned, "FEATURES_OF_CLASSES", 4 * (cut(batch, 0, 32).nnz + 32))
    learner = of_classes(3)
    learner.step(cut(batch, 0, 31))
    assert not learner.ended
    learner.step(cut(batch, 31, 32))
    assert learner.ended


def test_a_state_of_several_classes_without_a_choice_goes_on_as_it_was() -> None:
    batch = with_classes(150)
    before = OneVsRest(partial(TruncatedGradient, TRIED[0], BITS), 3, 5)
    before.step(cut(batch, 0, 40))
    learner, other = of_classes(3), of_classes(3)
    learner.thaw(before.freeze())
    assert (learner.config, learner.ended) == (TRIED[0], True)
    rest = cut(batch, 40, 150)
    assert learner.step(rest).margin.tobytes() == before.step(rest).margin.tobytes()
    other.thaw(learner.freeze())
    assert same(other.freeze(), learner.freeze())


def test_a_state_that_cannot_be_is_refused() -> None:
    learner = of_rows(64)
    learner.step(repeated(40))
    good = learner.freeze()
    for counts in ([len(TRIED), 0], [0, 2], [0, 1]):  # no such candidate; no such flag; rows held for no purpose
        with pytest.raises(Corrupt):
            learner.thaw({**good, "tuned_counts": np.array(counts, np.int64)})
    assert same(learner.freeze(), good)
