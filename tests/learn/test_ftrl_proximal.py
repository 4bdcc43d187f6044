from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.document import read_document, write_document
from riata.base.errors import BadInput, Corrupt
from riata.learn.ftrl_proximal import FtrlProximal, FtrlProximalConfig
from riata.learn.learner import Learner
from tests.learn.contract import Build, LearnerContract, same, served
from tests.learn.streams import cut, sparse_events, to_batch
from tests.twins.ftrl_step import Eager, collect, intercept_of, learn_rows
from tests.twins.truncated_step import Event

BITS = 8  # 40 names in 256 slots: a few share one
ROUNDING = 1e-12  # relative: 150 float64 steps
GOLDEN_BITS = 5  # feature j of the vectors is slot j
FILE = Path(__file__).parents[1] / "golden" / "ftrl_proximal.json"
GOLDEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
ROWS: list[dict[str, Any]] = json.loads(FILE.with_name("truncated_gradient.json").read_text(encoding="utf-8"))["rows"]

CONFIGS = [
    FtrlProximalConfig(),
    FtrlProximalConfig(alpha=1.0, beta=1.0, l1=0.0),
    FtrlProximalConfig(alpha=0.5, beta=0.01, l1=3.0, l2=2.0),
    FtrlProximalConfig(alpha=2.0, beta=4.0, l1=0.5, l2=0.1, intercept=False),
]


def _name(config: FtrlProximalConfig) -> str:
    return f"{config.alpha:g}-{config.beta:g}-{config.l1:g}-{config.l2:g}-{config.intercept}"


class TestContract(LearnerContract):
    @pytest.fixture(params=CONFIGS, ids=_name)
    def build(self, request: pytest.FixtureRequest) -> Build:
        config: FtrlProximalConfig = request.param

        def empty() -> Learner:
            return FtrlProximal(config, BITS)

        return empty


@pytest.mark.parametrize("config", CONFIGS, ids=_name)
@pytest.mark.parametrize("bits", [4, BITS])
def test_learner_equals_its_twin(config: FtrlProximalConfig, bits: int) -> None:
    events = sparse_events(150, seed=3, spread=1.0)
    eager, learner = Eager(config, bits), FtrlProximal(config, bits)
    margins, refused = learn_rows(eager, events)
    stepped = learner.step(to_batch(events))
    weights, expected = learner.weights(), collect(eager)
    assert stepped.margin == pytest.approx(margins, rel=ROUNDING, abs=ROUNDING * max(1.0, max(abs(m) for m in margins)))
    assert stepped.refused.tolist() == refused
    assert weights.slot.tolist() == list(expected)
    assert weights.beta == pytest.approx(list(expected.values()), rel=ROUNDING, abs=ROUNDING)
    assert weights.intercept == pytest.approx(intercept_of(eager), rel=ROUNDING, abs=ROUNDING)
    assert learner.learnt == eager.learnt == 150


@pytest.mark.parametrize("bits", [6, 22])
def test_rows_long_enough_for_vector_instructions_take_the_same_steps(bits: int) -> None:
    events = sparse_events(120, seed=13, features=400, longest=300, spread=1.0)
    config = FtrlProximalConfig()
    eager, learner = Eager(config, bits), FtrlProximal(config, bits)
    margins, _ = learn_rows(eager, events)
    batch = to_batch(events)
    for i in range(batch.n):
        expected = served(learner.weights(), batch, i)
        margin = float(learner.step(cut(batch, i, i + 1)).margin[0])
        assert margin == expected  # what is left of a row after whole vectors follows the same arithmetic
        # Rounding of 300 terms in each of 120 rows, relative to the largest margin so far.
        assert margin == pytest.approx(margins[i], rel=1e-11, abs=ROUNDING * max(abs(m) for m in margins))
    assert learner.weights().slot.tolist() == list(collect(eager))


@pytest.mark.parametrize("number", range(len(GOLDEN["traces"])))
def test_golden_traces(number: int) -> None:
    trace = GOLDEN["traces"][number]
    settings: dict[str, Any] = {
        name: value if name == "intercept" else float(Fraction(value)) for name, value in trace["settings"].items()
    }
    learner = FtrlProximal(FtrlProximalConfig(**settings), GOLDEN_BITS)
    for i, row in enumerate(ROWS, start=1):
        pairs = [(j << (32 - GOLDEN_BITS), float(x)) for j, x in zip(row["j"], row["x"], strict=True)]
        learner.step(to_batch([Event(pairs, row["label"], row["weight"])]))
        if str(i) in trace["beta_after_row"]:
            beta = _dense(learner, GOLDEN_BITS)[: GOLDEN["d"] + 1]
            beta[0] = learner.weights().intercept
            assert beta == pytest.approx(trace["beta_after_row"][str(i)], rel=0.0, abs=GOLDEN["tolerance"]["absolute"])


def _dense(learner: FtrlProximal, bits: int) -> F64:
    weights = learner.weights()
    beta = np.zeros(2**bits)
    beta[weights.slot] = weights.beta
    return beta


@pytest.mark.parametrize("config", CONFIGS, ids=_name)
def test_weights_minimise_the_linearised_loss_with_its_penalties(config: FtrlProximalConfig) -> None:
    """The objective of McMahan et al. is rebuilt from nothing but the weights that were served and the events:

    sum of gradients . w + sum of sigma_s (w - w_s)^2 / 2 + l1 |w| + (l2 + beta / alpha) w^2 / 2
    """
    batch = to_batch(sparse_events(200, seed=8, spread=1.0))
    learner = FtrlProximal(config, BITS)
    linear, squares, pulled = np.zeros(2**BITS), np.zeros(2**BITS), np.zeros(2**BITS)
    for i in range(batch.n):
        row = cut(batch, i, i + 1)
        w = _dense(learner, BITS)
        margin = float(learner.step(row).margin[0])
        x = np.zeros(2**BITS)
        np.add.at(x, row.hash >> np.uint32(32 - BITS), row.value)
        g = row.weight[0] * (1.0 / (1.0 + math.exp(-margin)) - row.label[0]) * x
        sigma = (np.sqrt(squares + g * g) - np.sqrt(squares)) / config.alpha
        linear, pulled, squares = linear + g, pulled + sigma * w, squares + g * g
    w = _dense(learner, BITS)
    smooth = linear + np.sqrt(squares) / config.alpha * w - pulled + (config.l2 + config.beta / config.alpha) * w
    room = 1e-9 * (1.0 + np.abs(linear) + np.abs(pulled))  # rounding of 200 sums, and of 1 - p where p is near 1
    assert 0 < np.count_nonzero(w) <= np.count_nonzero(squares)
    assert bool((np.abs(smooth + config.l1 * np.sign(w))[w != 0.0] <= room[w != 0.0]).all())
    assert bool((np.abs(smooth)[w == 0.0] <= config.l1 + room[w == 0.0]).all())


def test_intercept_is_free_of_both_penalties() -> None:
    learner = FtrlProximal(FtrlProximalConfig(l1=1e6, l2=1e6), BITS)
    learner.step(to_batch([Event([(1, 1.0)], float(i % 10 == 0)) for i in range(3000)]))
    assert learner.weights().intercept == pytest.approx(math.log(0.1 / 0.9), abs=0.1)
    assert len(learner.weights().slot) == 0


def test_names_that_share_a_slot_and_cancel_are_not_refused() -> None:
    learner, eager = FtrlProximal(FtrlProximalConfig(), BITS), Eager(FtrlProximalConfig(), BITS)
    events = [Event([(1, 2.0), (2, -2.0), (2**31, 1.0)], 1.0), Event([(1, 1.0), (2**31, 1.0)], 0.0)]
    margins, _ = learn_rows(eager, events)
    stepped = learner.step(to_batch(events))
    assert stepped.refused.tolist() == [False, False]
    assert stepped.margin == pytest.approx(margins, rel=1e-14)
    assert learner.weights().slot.tolist() == list(collect(eager))


@pytest.mark.parametrize("value", [1e160, 1e308])  # squares overflow; the margin does
def test_row_that_would_leave_the_finite_range_is_refused_and_leaves_no_trace(value: float) -> None:
    learner = FtrlProximal(FtrlProximalConfig(), BITS)
    learner.step(to_batch(sparse_events(100, seed=6)))
    before = learner.freeze()
    stepped = learner.step(to_batch([Event([(3, 1.0), (2**30, value), (2**31, value)], 1.0, 1000.0)]))
    assert stepped.refused.tolist() == [True]
    assert same(learner.freeze(), before)
    assert learner.step(to_batch([Event([(3, 1.0)], 1.0)])).refused.tolist() == [False]
    assert learner.learnt == 101


def test_row_whose_margin_is_infinite_is_refused_though_it_has_nothing_to_teach() -> None:
    learner = FtrlProximal(FtrlProximalConfig(alpha=100.0, l1=0.0), BITS)
    learner.step(to_batch([Event([(2**31, 1.0)], 1.0)]))
    stepped = learner.step(to_batch([Event([(2**31, 1e307)], 1.0)]))
    assert stepped.margin.tolist() == [math.inf]
    assert stepped.refused.tolist() == [True]
    assert learner.learnt == 1


@pytest.mark.parametrize(("intercept", "features"), [(True, []), (False, [(2**31, 1.0)])], ids=["intercept", "feature"])
def test_row_whose_z_alone_would_leave_the_finite_range_is_refused(intercept: bool, features: list[tuple[int, float]]) -> None:
    learner = FtrlProximal(FtrlProximalConfig(alpha=1e-308, intercept=intercept), BITS)
    before = learner.freeze()
    assert learner.step(to_batch([Event(features, 1.0, 1000.0)])).refused.tolist() == [True]  # 500 / alpha is too large
    assert same(learner.freeze(), before)


@pytest.mark.parametrize("settings", [{}, {"alpha": 1e6, "beta": 1e-300}, {"alpha": 1e6, "l1": 0.0, "l2": 1e-9}])
def test_no_weight_is_larger_than_alpha_times_the_rows(settings: dict[str, Any]) -> None:
    config = FtrlProximalConfig(**settings)
    learner = FtrlProximal(config, BITS)
    batch = to_batch(sparse_events(300, seed=14, spread=6.0))
    for i in range(batch.n):
        learner.step(cut(batch, i, i + 1))
        weights = learner.weights()
        assert np.abs(np.append(weights.beta, weights.intercept)).max() <= config.alpha * learner.learnt


def test_gradient_whose_square_underflows_leaves_no_trace() -> None:
    learner = FtrlProximal(FtrlProximalConfig(l1=0.0), BITS)
    event = Event([(3, 1e-170)], 1.0, 1.0)
    assert learner.step(to_batch([event])).refused.tolist() == [False]
    assert len(learner.freeze()["slot"]) == 0
    assert len(learner.weights().slot) == 0
    alone = FtrlProximal(FtrlProximalConfig(), BITS)
    alone.step(to_batch([Event([], 1.0, 1e-170)]))
    assert alone.freeze()["scalars"].tolist() == [0.0, 0.0]


def test_zero_is_never_negative_in_a_margin() -> None:
    learner = FtrlProximal(FtrlProximalConfig(l1=1e6, intercept=False), BITS)
    margin = learner.step(to_batch([Event([(2**31, 1.0)], 0.0)] * 2)).margin
    assert np.signbit([*margin, learner.weights().intercept]).tolist() == [False] * 3


def test_weights_that_fall_to_zero_are_still_in_the_checkpoint() -> None:
    learner = FtrlProximal(FtrlProximalConfig(l1=0.6, intercept=False), BITS)
    learner.step(to_batch([Event([(2**31, 1.0)], 1.0)] * 2))
    assert learner.weights().slot.tolist() == [128]
    learner.step(to_batch([Event([(2**31, 1.0)], 0.0)]))
    assert len(learner.weights().slot) == 0
    assert learner.freeze()["slot"].tolist() == [128]


def test_weights_that_come_and_go_do_not_fill_the_lists() -> None:
    learner = FtrlProximal(FtrlProximalConfig(l1=0.6), BITS)
    ones, zeros = ([Event([(j << 24, 1.0) for j in range(200)], label)] * 4 for label in (1.0, 0.0))
    births = 0
    for _ in range(100):
        for events in (ones, zeros):
            learner.step(to_batch(events))
            births += len(learner.weights().slot)
    assert births > 10_000
    assert learner.memory()["lists"] < 4 * births


def test_rows_that_are_not_inside_of_their_features_are_refused() -> None:
    batch = to_batch(sparse_events(3, seed=9))
    with pytest.raises(ValueError, match="not inside of its features"):
        FtrlProximal(FtrlProximalConfig(), BITS).step(dataclasses.replace(batch, indptr=batch.indptr + 1))


def test_config_goes_through_a_document_and_back() -> None:
    config = FtrlProximalConfig(alpha=0.25, l1=0.0)
    assert read_document(FtrlProximalConfig, write_document(config)) == config
    for document in ({"alpha": 0.0}, {"beta": 0.0}, {"l1": -1.0}, {"l2": -1.0}, {"alfa": 1.0}):
        with pytest.raises(BadInput):
            read_document(FtrlProximalConfig, document)


@pytest.mark.parametrize("bits", [0, 27])
def test_table_size_out_of_range_is_refused(bits: int) -> None:
    with pytest.raises(BadInput):
        FtrlProximal(FtrlProximalConfig(), bits)


def test_thaw_refuses_sums_of_squares_that_no_gradient_can_leave() -> None:
    learner = FtrlProximal(FtrlProximalConfig(), BITS)
    learner.step(to_batch(sparse_events(100, seed=1)))
    frozen = learner.freeze()
    squares = np.asarray(frozen["squares"], np.float64)
    scalars = np.asarray(frozen["scalars"], np.float64)
    for broken in ({"squares": squares * 0.0}, {"squares": -squares}, {"scalars": -np.abs(scalars)}):
        with pytest.raises(Corrupt):
            learner.thaw({**frozen, **broken})
    assert same(learner.freeze(), frozen)
