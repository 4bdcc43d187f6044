"""The gate: who predicts the newest events better if both go on learning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import BadInput
from riata.learn.learner import Learner, Weights
from riata.learn.registry import build_learner
from riata.run.candidates.judging import BLOCKS, block_mean, decide, judge, losses, margins, probabilities, tail_size
from riata.run.state.config import read_config
from riata.wire.batch import Batch, slice_rows
from tests.learn.streams import cut
from tests.run.events import random_batch
from tests.twins.shapes import added


def learner_after(rows: Batch | None, kind: str = "truncated_gradient") -> Learner:
    learner = build_learner(read_config({"learner": {"kind": kind}}).learner, 12)
    if rows is not None:
        learner.step(rows)
    return learner


def stream(n: int, seed: int = 4) -> Batch:
    return random_batch(np.random.default_rng(seed), n)


@pytest.mark.parametrize(
    ("events", "size"), [(0, 0), (9_000, 4_500), (30_000, 10_000), (400_000, 40_000), (10**6, 10**5), (10**9, 10**5)]
)
def test_the_tail_is_a_tenth_within_bounds(events: int, size: int) -> None:
    assert tail_size(events) == size


def test_a_learner_that_has_learnt_more_is_promoted_and_one_that_has_learnt_less_is_rejected() -> None:
    rows = stream(1500)
    past, tail = slice_rows(rows, 0, 1000), [slice_rows(rows, 1000, 1200), slice_rows(rows, 1200, 1500)]
    better = judge(learner_after(None), learner_after(past), tail)
    assert (better["decision"], better["measure"], better["events"]) == ("PROMOTE", "log loss", 500)
    assert better["difference"] < -2 * better["standard_error"] < 0
    assert better["frozen_difference"] < better["difference"]  # the other one catches up while it learns
    worse = judge(learner_after(past), learner_after(None), tail)
    assert (worse["decision"], worse["difference"]) == ("REJECT", -better["difference"])
    assert worse["online"] == better["candidate"]


def test_equal_learners_are_held() -> None:
    rows = stream(1500)
    verdict = judge(learner_after(cut(rows, 0, 1000)), learner_after(cut(rows, 0, 1000)), [slice_rows(rows, 1000, 1500)])
    assert (verdict["decision"], verdict["difference"], verdict["standard_error"]) == ("HOLD", 0.0, 0.0)


def test_losses_are_those_before_each_step() -> None:
    rows = stream(900)
    past, tail = slice_rows(rows, 0, 300), slice_rows(rows, 300, 900)
    verdict = judge(learner_after(past), learner_after(past, "ftrl_proximal"), [tail])
    for kind, measured in (("truncated_gradient", verdict["online"]), ("ftrl_proximal", verdict["candidate"])):
        alone = learner_after(past, kind)
        before = [_probability(alone.weights(), tail, i) for i in range(600)]
        going = []
        for i in range(600):
            going.append(_probability(alone.weights(), tail, i))
            alone.step(cut(tail, i, i + 1))
        label = tail.label
        for probability, loss in ((going, measured["loss"]), (before, measured["frozen_loss"])):
            p = np.array(probability)
            assert loss == pytest.approx(float(-np.log(np.where(label == 1.0, p, 1.0 - p)).mean()), rel=1e-9)
        assert measured["calibration"] == pytest.approx(float(np.array(going).sum() / label.sum()), rel=1e-9)
    assert verdict["events"] == 600


def _probability(weights: Weights, rows: Batch, i: int) -> float:
    beta = dict(zip(weights.slot.tolist(), weights.beta.tolist(), strict=True))
    margin = weights.intercept
    for p in range(int(rows.indptr[i]), int(rows.indptr[i + 1])):
        margin += beta.get(int(rows.hash[p]) >> (32 - weights.bits), 0.0) * float(rows.value[p])
    if weights.shapes is not None:
        own = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
        margin += sum(added(weights.shapes, dict(zip(rows.hash[own].tolist(), rows.value[own].tolist(), strict=True))))
    return 1.0 / (1.0 + math.exp(-margin))


def test_margins_of_empty_rows_are_the_intercept() -> None:
    rows = stream(4)
    indptr = np.array([0, 0, 8, 8, 16, 32, 32], np.int64)
    some = Batch(indptr, rows.hash, rows.value, np.ones(6), np.ones(6), np.zeros((6, 16), np.uint8), np.zeros(6, np.bool_))
    weights = Weights(np.unique(rows.hash[:8] >> np.uint32(20)), np.ones(8), 0.25, "logistic", 12)
    found = margins(weights, some)
    assert found[[0, 2, 5]].tolist() == [0.25] * 3
    assert found[1] == pytest.approx(0.25 + rows.value[:8].sum())


@pytest.mark.parametrize(("positive", "enough"), [(99, False), (100, True)])
def test_a_tail_with_too_few_labels_of_a_class_is_refused(positive: int, enough: bool) -> None:
    rows = stream(1000)
    rows.label[:] = 0.0
    rows.label[:positive] = 1.0
    if enough:
        assert judge(learner_after(None), learner_after(None), [rows])["decision"] == "HOLD"
    else:
        with pytest.raises(BadInput, match="99 positive and 901 negative") as refused:
            judge(learner_after(None), learner_after(None), [rows])
        assert refused.value.code == "too_few_labels"


def figures(loss: float, calibration: float | None) -> dict[str, Any]:
    return {"loss": loss, "frozen_loss": 0.4, "calibration": calibration}


@pytest.mark.parametrize(
    ("difference", "error", "calibrations", "decision"),
    [
        (-0.01, 0.004, (1.0, 1.0), "PROMOTE"),
        (-0.01, 0.006, (1.0, 1.0), "HOLD"),
        (-0.0003, 0.0001, (1.0, 1.0), "HOLD"),  # certain, and less than a thousandth
        (-0.0005, 0.0001, (1.0, 1.0), "PROMOTE"),
        (0.01, 0.006, (1.0, 1.0), "HOLD"),
        (0.01, 0.004, (1.0, 1.0), "REJECT"),
        (-0.01, 0.004, (1.0, 1.03), "HOLD"),
        (-0.01, 0.004, (0.98, 1.03), "PROMOTE"),
        (-0.01, 0.004, (1.0, 0.97), "HOLD"),
        (-0.01, 0.004, (None, None), "PROMOTE"),
        (math.nan, math.nan, (1.0, 1.0), "HOLD"),
    ],
)
def test_a_decision(difference: float, error: float, calibrations: tuple[float | None, float | None], decision: str) -> None:
    online, candidate = figures(0.4, calibrations[0]), figures(0.4 + difference, calibrations[1])
    found, why = decide(online, candidate, difference, error)
    assert (found, f"standard error {error:.5f}" in why) == (decision, True)


def test_the_standard_error_of_a_mean_is_that_of_blocks() -> None:
    rng = np.random.default_rng(2)
    independent: F64 = rng.normal(1.0, 2.0, 5000)
    mean, error = block_mean(independent, np.ones(5000))
    assert mean == pytest.approx(float(independent.mean()))
    assert error == pytest.approx(2.0 / math.sqrt(5000), rel=0.3)
    alike = np.repeat(rng.normal(1.0, 2.0, BLOCKS), 100)  # a hundred neighbours are one observation
    assert block_mean(alike, np.ones(5000))[1] == pytest.approx(float(alike.std()) / math.sqrt(BLOCKS - 1), rel=1e-9)
    assert block_mean(independent, np.full(5000, 3.0)) == pytest.approx((mean, error))
    weight = np.where(np.arange(5000) < 2500, 1.0, 0.0)
    assert block_mean(independent, weight)[0] == pytest.approx(float(independent[:2500].mean()))


@pytest.mark.parametrize("link", ["logistic", "probit", "identity", "hinge"])
def test_losses_by_link(link: str) -> None:
    margin, label = np.array([-2.0, 0.0, 0.5, 3.0, 50.0]), np.array([0.0, 1.0, 1.0, 0.0, 0.0])
    found = losses(link, margin, label)  # type: ignore[arg-type]
    sign = 2 * label - 1
    if link == "hinge":
        assert found.tolist() == np.maximum(0, 1 - sign * margin).tolist()
        assert np.isnan(probabilities("hinge", margin)).all()
    elif link == "identity":
        assert found.tolist() == ((margin - label) ** 2).tolist()
    else:
        likely = [1 / (1 + math.exp(-m)) if link == "logistic" else 0.5 * math.erfc(-m / math.sqrt(2)) for m in sign * margin]
        assert found == pytest.approx([min(-math.log(max(p, 1e-15)), 40.0) for p in likely])
