"""Standardised columns around FTRL-Proximal and the Taylor sketch, and standardised labels around truncated gradient."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import kurtosis

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.learn.ftrl_proximal import FtrlProximalConfig
from riata.learn.learner import Learner
from riata.learn.registry import build_learner
from riata.learn.standardised import FEW, Standardised, Standards
from riata.learn.taylor_config import TaylorSketchConfig
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.learn.truncated_gradient import TruncatedGradient
from riata.predict.uncertainty import Covariance
from riata.run.state.config import read_config
from riata.wire.batch import Batch
from tests.learn.contract import Build, LearnerContract, served
from tests.learn.streams import cut, sparse_events, to_batch
from tests.twins.truncated_step import Event

BITS = 10
CONFIGS: list[Any] = [
    FtrlProximalConfig(far_values="off"),
    TaylorSketchConfig(k=20, block=25, far_values="off"),
    TaylorSketchConfig(mode="exact", warm_up=100, far_values="off"),
]

SQUARED: Any = TruncatedGradientConfig(loss="squared")


def of_rows(config: Any, bits: int, rows: int) -> Standardised[Any]:
    """The learner of a configuration, with another number of first rows."""
    if isinstance(config, TruncatedGradientConfig):
        return Standardised(lambda own, _rate: TruncatedGradient(own, bits), config, True, rows=rows, labels=True)
    plain = replace(config, standardised=False)
    return Standardised(lambda own, _rate: build_learner(own, bits), plain, True, rows=rows)


def table(value: F64, label: F64) -> Batch:
    """Rows of all columns; a NaN is absent."""
    columns = range(value.shape[1])
    rows = [[((j + 1) << 24, float(x)) for j, x in zip(columns, row, strict=True) if not np.isnan(x)] for row in value]
    return to_batch([Event(row, float(y)) for row, y in zip(rows, label, strict=True)])


def labelled(n: int, seed: int) -> tuple[F64, F64]:
    """Three columns with mean 0 and spread 1, and labels that depend on two of them."""
    rng = np.random.default_rng(seed)
    value = rng.normal(size=(n, 3))
    return value, (rng.random(n) < 1 / (1 + np.exp(1.0 - value[:, 0] + value[:, 1]))).astype(np.float64)


def loss(margin: F64, label: F64) -> float:
    return float(np.logaddexp(0.0, np.where(label == 1.0, -margin, margin)).mean())


@pytest.mark.parametrize("rows", [64, 256])  # the rows are held for a part of the contract's stream, or for all of it
class TestContract(LearnerContract):
    @pytest.fixture(params=[*CONFIGS, SQUARED], ids=["ftrl", "hybrid", "exact", "squared"])
    def build(self, request: pytest.FixtureRequest, rows: int) -> Build:
        def empty() -> Learner:
            return of_rows(request.param, BITS, rows)

        return empty

    def test_served_margin_equals_the_learners_to_the_last_bit(self, build: Build, batch: Batch) -> None:
        """Up to rounding errors: a value is standardised before it meets a weight."""
        learner = build()
        for i in range(batch.n):
            expected = served(learner.weights(), batch, i)
            assert float(learner.step(cut(batch, i, i + 1)).margin[0]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n", [3, 40])
def test_the_standards_are_those_of_a_plain_computation(n: int) -> None:
    events = sparse_events(n, seed=3, features=12)
    for i, event in enumerate(events):
        more = [(2**31, 1e6 + i), (2**31 + 2**30, 7.0)]  # a column, and a constant one
        events[i] = replace(event, features=[*(pair for pair in event.features if pair[0] < 2**31), *more])
    found: dict[int, list[float]] = defaultdict(list)
    for event in events:
        row: dict[int, float] = defaultdict(float)
        for name, value in event.features:
            row[name >> (32 - BITS)] += value
        for slot, value in row.items():
            found[slot].append(value)
    expected, tails = {}, {}
    for slot, values in found.items():
        if 10 * len(values) >= 9 * n:
            every = values + [0.0] * (n - len(values) + (n < FEW))
            middle = sum(every) / len(every)
            spread = math.sqrt(sum((x - middle) ** 2 for x in every) / len(every)) or abs(middle)
            tails[slot] = kurtosis(every, fisher=False) if max(every) > min(every) else 0.0
        else:
            middle, spread = 0.0, max(1.0, math.sqrt(sum(x * x for x in values) / len(values)))
        spread = 2.0 ** round(math.log2(spread))
        if set(values) != {1.0} and (middle != 0.0 or spread > 1.0):
            expected[slot] = middle, spread
    standards = Standards.of(to_batch(events), BITS, columns=True)
    assert standards.slot.tolist() == sorted(expected)
    for slot, *numbers in zip(standards.slot.tolist(), standards.middle, standards.spread, strict=True):
        assert tuple(numbers) == pytest.approx(expected[slot], rel=1e-9)
    assert standards.tail.tolist() == pytest.approx([tails.get(slot, 0.0) for slot in sorted(expected)], rel=1e-9)
    assert Standards.of(to_batch(events), BITS, columns=False).middle.any() == False  # noqa: E712  an array's truth


@pytest.mark.parametrize("config", CONFIGS, ids=["ftrl", "hybrid", "exact"])
def test_units_and_origins_do_not_matter(config: Any) -> None:
    value, label = labelled(1500, 1)
    own, other = (of_rows(config, BITS, 512) for _ in range(2))
    known = loss(own.step(table(value, label)).margin, label)
    moved = table(value * np.array([1e4, 1e-3, 50.0]) + np.array([9e5, 0.7, -4e3]), label)
    assert loss(other.step(moved).margin, label) == pytest.approx(known, rel=0.03)
    assert known < 0.95 * loss(np.full(1500, math.log(label.mean() / (1 - label.mean()))), label)
    # Served in the units of the input, with a value that is absent as zero.
    holey = value[:40] * np.array([1e4, 1e-3, 50.0]) + np.array([9e5, 0.7, -4e3])
    holey[::2, 1] = np.nan
    rows = table(holey, label[:40])
    margin = other.step(rows, np.ones(40, np.bool_)).margin
    assert [served(other.weights(), rows, i) for i in range(40)] == pytest.approx(margin.tolist(), rel=1e-6)


@pytest.mark.parametrize("config", [*CONFIGS, TruncatedGradientConfig()], ids=["ftrl", "hybrid", "exact", "default"])
def test_a_unix_time_in_microseconds_and_a_few_huge_values_cost_other_rows_little(config: Any) -> None:
    value, label = labelled(1500, 9)
    time = 1.7e15 + 6e7 * np.arange(1500)
    spike = np.arange(1500) % 500 == 100
    spiked = np.where(spike, 9e15, value[:, 2])
    plain, huge = (build_learner(config, BITS) for _ in range(2))
    known = loss(plain.step(table(value, label)).margin, label)
    stepped = huge.step(table(np.column_stack([value[:, :2], spiked, time]), label))
    assert not stepped.refused.any()
    assert known < 0.62
    assert loss(stepped.margin[~spike], label[~spike]) < 1.05 * known


def test_words_and_indicators_are_learnt_to_the_same_bits() -> None:
    batch = to_batch(sparse_events(300, seed=2, features=40))
    batch = replace(batch, value=np.ones(batch.nnz))
    for config in CONFIGS:
        plain, around = build_learner(replace(config, standardised=False), BITS), of_rows(config, BITS, 64)
        assert around.step(batch).margin.tobytes() == plain.step(batch).margin.tobytes()


@pytest.mark.parametrize(
    "kind", [{"kind": "ftrl_proximal"}, {"kind": "taylor_sketch"}, {"kind": "taylor_sketch", "mode": "diag"}]
)
def test_a_rare_label_is_predicted_about_as_often_as_it_comes(kind: dict[str, str]) -> None:
    rng = np.random.default_rng(8)
    events = [
        Event([(int(name) << 24, 1.0) for name in sorted(rng.choice(40, 4, False))], float(rng.random() < 0.005))
        for _ in range(6000)
    ]
    learner = build_learner(read_config({"learner": kind}).learner, BITS)
    batch = to_batch(events)
    probability = 1.0 / (1.0 + np.exp(-learner.step(batch).margin))
    assert 0.4 < probability[1000:].sum() / batch.label[1000:].sum() < 1.5


@pytest.mark.parametrize("mean", [0.0, 50.0])
def test_standard_errors_are_those_of_the_maximum_likelihood(mean: float) -> None:
    value, label = labelled(3000, 4)
    value = np.column_stack([np.exp(value[:, 0]), 20.0 * (value[:, 1] + mean), value[:, 2]])
    learner = build_learner(TaylorSketchConfig(mode="exact", gamma=0.0, prior_curvature=0.0, far_values="off"), BITS)
    learner.step(table(value, label))
    sketch = learner.sketch()
    assert sketch is not None
    found = Covariance.of(sketch)
    x, beta = np.column_stack([np.ones(3000), value - value.mean(axis=0)]), np.zeros(4)
    for _ in range(20):
        p = 1.0 / (1.0 + np.exp(-x @ beta))
        beta += np.linalg.solve((x.T * (p * (1 - p))) @ x, x.T @ (label - p))
    errors = np.sqrt(np.diag(np.linalg.inv((x.T * (p * (1 - p))) @ x))[1:])
    assert np.sqrt(found.variance) == pytest.approx(errors, rel=0.15)  # curvature_floor counts: 0.13 for the lognormal column
    weights = learner.weights()
    assert abs(weights.beta - beta[1:]) == pytest.approx(np.zeros(3), abs=0.5 * float(errors.max()))
    assert (abs(weights.beta - beta[1:]) < 0.5 * errors).all()
    row = np.array([1.0, 1.0, 20.0 * mean, 0.0])
    centred = np.array([1.0, *(row[1:] - value.mean(axis=0))])
    exact = centred @ np.linalg.inv((x.T * (p * (1 - p))) @ x) @ centred
    assert row @ found.matrix @ row == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize(("mean", "spread"), [(5000.0, 2000.0), (0.002, 1e-4), (-900_000.0, 1.0)])
def test_a_number_of_any_size_is_predicted_better_than_by_the_mean(mean: float, spread: float) -> None:
    value, _ = labelled(3000, 9)
    noise = np.random.default_rng(10).normal(size=3000)
    unit = (value[:, 0] - value[:, 1] + noise) / math.sqrt(3.0)
    learner = build_learner(read_config({"labels": "real", "learner": {"loss": "squared"}}).learner, BITS)
    rows = table(value, mean + spread * unit)
    error = (learner.step(rows).margin - rows.label) / spread
    assert (error[100:] ** 2).mean() < 0.45  # the noise is a third, and the mean has 1
    weights = learner.weights()
    assert weights.intercept == pytest.approx(mean, abs=0.1 * spread)
    assert weights.beta == pytest.approx(
        spread * np.array([1.0, -1.0, 0.0])[: len(weights.beta)] / math.sqrt(3.0), abs=0.1 * spread
    )
    margin = learner.step(rows, np.ones(3000, np.bool_)).margin
    assert served(weights, rows, 7) == pytest.approx(margin[7], abs=1e-9 * max(spread, abs(mean)))


@pytest.mark.parametrize("config", CONFIGS[:2], ids=["ftrl", "hybrid"])
def test_what_is_forgotten_stays_forgotten_when_the_first_rows_are_learnt_again(config: Any) -> None:
    value, _label = labelled(64, 7)
    plain, forgetful = (of_rows(config, BITS, 64) for _ in range(2))
    for learner in (plain, forgetful):
        learner.step(table(value[:60], np.ones(60)))
    forgetful.forget(0.01)
    copy = of_rows(config, BITS, 64)
    copy.thaw(forgetful.freeze())
    for learner in (plain, forgetful, copy):  # the 64th row is where they are learnt again
        learner.step(table(value[60:], np.zeros(4)))
    assert forgetful.weights().intercept < plain.weights().intercept - 0.5
    assert copy.weights().beta.tobytes() == forgetful.weights().beta.tobytes()


def test_the_memory_of_a_batch_may_be_used_again() -> None:
    value, label = labelled(40, 6)
    kept, lent = (of_rows(FtrlProximalConfig(), BITS, 64) for _ in range(2))
    for start in range(0, 40, 5):
        rows = table(value[start : start + 5], label[start : start + 5])
        kept.step(rows)
        mine = replace(rows, hash=rows.hash.copy(), value=rows.value.copy(), label=rows.label.copy())
        lent.step(mine)
        mine.value[:], mine.label[:], mine.hash[:] = 7.0, 1.0, 0
    assert kept.weights().beta.tolist() == lent.weights().beta.tolist()


def test_the_tails_of_columns_are_known() -> None:
    value, label = labelled(1024, 4)
    learner = build_learner(TaylorSketchConfig(relinearise=False, far_values="off"), BITS)
    learner.step(table(np.column_stack([np.exp(1.5 * value[:, 0]), value[:, 1:]]), label))
    arrays = learner.freeze()
    assert sorted(arrays["standard_tail"].tolist())[1] < 4.0 < 20.0 < max(arrays["standard_tail"])
    sketch = learner.sketch()
    assert sketch is not None
    assert Covariance.of(sketch).why_not.startswith("columns with heavy tails: 1,")


def test_a_state_that_cannot_be_is_refused() -> None:
    value, label = labelled(40, 5)
    learner = of_rows(FtrlProximalConfig(), BITS, 64)
    learner.step(table(value + 9.0, label))
    good = learner.freeze()
    assert (len(good["standard_slot"]), len(good["first_label"])) == (3, 40)
    spoilt = {
        "standard_spread": np.zeros(3),
        "standard_tail": np.full(3, -1.0),
        "standard_settled": np.ones(1, np.int64),
        "first_indptr": good["first_indptr"][::-1].copy(),
    }
    for name, array in spoilt.items():
        with pytest.raises(Corrupt):
            learner.thaw({**good, name: array})
