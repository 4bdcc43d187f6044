from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.learn.column_book import ENTRY
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.learn.truncated_gradient import TruncatedGradient
from riata.wire.batch import Batch
from tests.learn.contract import served
from tests.learn.streams import cut, to_batch
from tests.twins import truncated_columns as twin
from tests.twins.truncated_row import collect
from tests.twins.truncated_step import Eager, Event, learn_rows

DENSE = 1024  # of `numeric_columns.h`: rows that are all in the survey
BOTH = TruncatedGradientConfig()
TAKEN = replace(BOTH, scale="counts", eta=3.0)  # features that are not columns are taken as they are, up to 16


def events_of(value: F64, label: F64) -> list[Event]:
    """Rows of all columns; a NaN is absent."""
    columns = range(value.shape[1])
    rows = [[((j + 1) << 24, float(x)) for j, x in zip(columns, row, strict=True) if not np.isnan(x)] for row in value]
    return [Event(row, float(y)) for row, y in zip(rows, label, strict=True)]


def table(value: F64, label: F64) -> Batch:
    """`events_of` as a batch."""
    return to_batch(events_of(value, label))


def labelled(n: int, seed: int) -> tuple[F64, F64]:
    """Three columns with mean 0 and spread 1, and labels that depend on two of them."""
    rng = np.random.default_rng(seed)
    value = rng.normal(size=(n, 3))
    label = (rng.random(n) < 1 / (1 + np.exp(-2.0 * value[:, 0] + value[:, 1]))).astype(np.float64)
    return value, label


def loss(margin: F64, label: F64) -> float:
    return float(np.logaddexp(0.0, np.where(label == 1.0, -margin, margin)).mean())


@pytest.mark.parametrize("apart", [1, 512])  # in sets of their own, or all in one set
def test_the_book_is_its_twin(apart: int) -> None:
    rng = np.random.default_rng(apart)
    eager, lazy, evicted, before = Eager(BOTH, 13), TruncatedGradient(BOTH, 13), 0, 0
    for learnt in range(DENSE + 200):
        slots = [slot for slot in range(9) if rng.random() < (0.95 if slot < 3 else 0.03)]
        x = [1.0 if slot == 8 and learnt < DENSE - 100 else round(rng.normal(5.0 * slot, 1.0), 2) for slot in slots]
        event = Event([(apart * slot << 19, value) for slot, value in zip(slots, x, strict=True)], float(rng.random() < 0.3))
        learn_rows(eager, [event])
        lazy.step(to_batch([event]))
        frozen = lazy.freeze()
        found = dict(zip(frozen["column_slot"].tolist(), frozen["survey"].reshape(-1, ENTRY - 1).tolist(), strict=True))
        columns = {slot: column for inside in eager.book.sets.values() for slot, column in inside.items()}
        assert found.keys() == columns.keys()
        evicted += len(found) < before
        before = len(found)
        if learnt % 50 == 0 or learnt > DENSE:
            for slot, column in columns.items():
                every = column.values + column.between
                count = len(column.values) - column.lost
                expected = [count, column.since, sum(column.values), min(every), max(every)]
                assert found[slot] == pytest.approx(expected, rel=1e-9)
    assert {0, apart, 2 * apart} <= set(found)
    assert (evicted > 0) == (apart == 512)


def test_the_survey_is_its_twin_and_follows_no_period() -> None:
    learner, learnt = TruncatedGradient(BOTH, 8), 0
    for point in [1, 2, *range(DENSE - 2, DENSE + 100), *range(5000, 5040), *range(2**14 - 40, 2**14)]:
        learner.step(table(np.full((point - learnt, 1), 2.0), np.ones(point - learnt)))
        learnt = point
        assert learner.freeze()["survey"][0] == twin.SURVEYED[point]
    later = [row for row in range(DENSE, 2**14) if twin.in_survey(row)]
    for period in range(2, 33):
        met = np.bincount(np.array(later) % period, minlength=period)
        assert met.min() > 0.5 * met.mean(), period


@pytest.mark.parametrize("config", [BOTH, replace(BOTH, period=3, gravity=1e-2, reach=np.inf, step="gradient"), TAKEN])
@pytest.mark.parametrize("bits", [8, 20])  # 20: a compact table, whose lines are not slots
def test_lazy_equals_eager(config: TruncatedGradientConfig, bits: int) -> None:
    n = DENSE + 300
    value, label = labelled(n, 7)
    value += np.array([5.0, -3.0, 0.0])
    value[:, 2] *= 20.0  # some are beyond a count
    value[np.random.default_rng(7).random((n, 3)) < np.array([0.0, 0.25, 0.9])] = np.nan
    eager, lazy, events = Eager(config, bits), TruncatedGradient(config, bits), events_of(value, label)
    margins, _ = learn_rows(eager, events)
    assert lazy.step(to_batch(events)).margin == pytest.approx(margins, rel=1e-9, abs=1e-9)
    beta, intercept = eager.served()
    weights = lazy.weights()
    assert dict(zip(weights.slot.tolist(), weights.beta.tolist(), strict=True)) == pytest.approx(collect(beta), rel=1e-9)
    assert weights.intercept == pytest.approx(intercept, rel=1e-9)


@pytest.mark.parametrize("origin", [5.0, -1e4, 1.7e9])
def test_where_zero_lies_does_not_matter(origin: float) -> None:
    value, label = labelled(4000, 1)
    known = loss(TruncatedGradient(BOTH, 8).step(table(value, label)).margin[500:], label[500:])
    learner = TruncatedGradient(BOTH, 8)
    batch = table(value + origin, label)
    moved = loss(learner.step(batch).margin[500:], label[500:])
    assert moved == pytest.approx(known, rel=0.03)
    plain = TruncatedGradient(replace(BOTH, centred=False), 8).step(batch)
    assert loss(plain.margin[500:], label[500:]) > 1.05 * known
    weights = learner.weights()
    # In the units of the input: a row is served as it was learnt.
    assert served(weights, cut(batch, 0, 1), 0) == pytest.approx(
        float(np.dot(weights.beta, value[0] + origin)) + weights.intercept
    )
    assert learner.step(cut(batch, 0, 1), np.ones(1, np.bool_)).margin[0] == served(weights, cut(batch, 0, 1), 0)


@pytest.mark.parametrize("value", [0.5, 3.0, -1000.0])
def test_an_indicator_in_other_units_is_learnt_as_one(value: float) -> None:
    rng = np.random.default_rng(6)
    present = rng.random((4000, 6)) < np.array([0.55, 0.65, 0.75, 0.85, 0.9, 0.97])
    margins = present @ np.array([1.0, -2.0, 1.5, -1.0, 2.0, -2.0])
    label = (rng.random(4000) < 1 / (1 + np.exp(-margins))).astype(np.float64)
    losses = [
        loss(TruncatedGradient(BOTH, 8).step(table(np.where(present, one, np.nan), label)).margin[500:], label[500:])
        for one in (1.0, value)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)  # nothing is learnt of a constant in nine rows of ten or more


@pytest.mark.parametrize("missing", [0.01, 0.05, 0.2])
def test_rows_without_a_column_far_from_zero_are_not_thrown_about(missing: float) -> None:
    value, label = labelled(6000, 4)
    value[np.random.default_rng(4).random(value.shape) < missing] = np.nan
    margin = TruncatedGradient(BOTH, 8).step(table(value + 1000.0, label)).margin
    assert loss(margin[500:], label[500:]) < 1.15 * loss(np.zeros(5500), label[500:])


def test_a_sparse_feature_and_an_indicator_are_not_centred() -> None:
    value, label = labelled(2000, 2)
    value[:, 0] = 1.0
    value[np.random.default_rng(2).random(2000) < 0.6, 1] = np.nan
    value[:, 2] = np.nan
    batch = table(value, label)
    margins = [TruncatedGradient(replace(BOTH, centred=on), 8).step(batch).margin.tolist() for on in (True, False)]
    assert margins[0] == margins[1]


def test_a_column_that_appears_late_or_stays_constant_for_long_is_learnt() -> None:
    value, label = labelled(6000, 3)
    value += 50.0
    value[:3000, 0] = np.nan
    value[:3000, 1] = 50.0
    learner = TruncatedGradient(BOTH, 8)
    margin = learner.step(table(value, label)).margin
    assert abs(margin).max() < 20.0  # also in the first rows in which the constant column is another
    assert loss(margin[4500:], label[4500:]) < 0.8 * loss(np.zeros(1500), label[4500:])


def test_an_under_confident_model_gets_a_gain_above_one_which_is_served() -> None:
    value, label = labelled(3000, 4)
    label = (value[:, 0] > 0.0).astype(np.float64)  # separable: no step is large enough
    batch = table(value, label)
    plain, calibrated = (TruncatedGradient(replace(BOTH, eta=0.05, calibrated=on), 8) for on in (False, True))
    assert loss(calibrated.step(batch).margin, label) < 0.8 * loss(plain.step(batch).margin, label)
    gain, offset, *_ = calibrated.freeze()["calibration"].tolist()
    assert gain > 1.5
    inner, outer = plain.weights(), calibrated.weights()
    assert outer.beta == pytest.approx(gain * inner.beta)
    assert outer.intercept == pytest.approx(gain * inner.intercept + offset)


def test_a_state_with_columns_that_cannot_be_is_refused() -> None:
    value, label = labelled(50, 5)
    learner = TruncatedGradient(BOTH, 8)
    learner.step(table(value + 9.0, label))
    good = learner.freeze()
    assert len(good["entry"]) == 3
    column = good["survey"].astype(np.float64)
    spoilt = {
        "survey": np.where(np.arange(len(column)) == 0, 0.0, column),  # an entry of no row
        "column_slot": good["column_slot"] + 2**8,
        "calibration": np.array([0.0, 0.0, 1.0, 1.0]),
        "entry": good["entry"][::-1].copy(),
    }
    for name, array in spoilt.items():
        with pytest.raises(Corrupt):
            TruncatedGradient(BOTH, 8).thaw({**good, name: array})
    again = TruncatedGradient(BOTH, 8)
    again.thaw(good)
    more = table(value[::-1] + 9.0, label)
    assert again.step(more).margin.tolist() == learner.step(more).margin.tolist()


def test_without_the_settings_a_state_is_as_it_was() -> None:
    learner = TruncatedGradient(replace(BOTH, centred=False, calibrated=False), 8)
    learner.step(table(*labelled(20, 6)))
    assert learner.freeze().keys() == {"counts", "scalars", "slot", "beta", "tau", "seen", "squares", "scale"}
    assert learner.freeze()["scalars"].shape == (6,)
