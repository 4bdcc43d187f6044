from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64, U32
from riata.base.document import read_document, write_document
from riata.base.errors import BadInput, Corrupt
from riata.learn.learner import Learner
from riata.learn.slot_table import zero_table
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.learn.truncated_gradient import CLOCK, CLOCK_LOST, COUNTS, SCALARS, TruncatedGradient
from riata.native.library import core, struct
from tests.learn.contract import Build, LearnerContract, same, served
from tests.learn.streams import cut, sparse_events, to_batch
from tests.twins import truncated_row as twin
from tests.twins.truncated_row import collect
from tests.twins.truncated_step import Eager, Event, event_size, learn_rows

BITS = 8  # 40 names in 256 slots: a few share one
INFINITE = math.inf


def _config(**settings: Any) -> TruncatedGradientConfig:
    chosen: dict[str, Any] = {
        "rate": "constant", "normalised": False, "eta": 0.05, "gravity": 0.01, "period": 7, "ceiling": INFINITE,
        "accumulator": 0.0, **settings
    }  # fmt: skip
    return TruncatedGradientConfig(**chosen)


RATES: list[dict[str, Any]] = [
    {"rate": "constant", "eta": 0.001},
    {"rate": "decaying", "eta": 0.01, "delay": 10.0},
    {"rate": "adaptive", "eta": 0.3},
    {"rate": "adaptive", "eta": 0.3, "accumulator": 1.0},
    {"rate": "adaptive", "eta": 0.3, "normalised": True, "reach": INFINITE},
    {"rate": "adaptive", "eta": 0.3, "normalised": True, "accumulator": 0.1, "reach": 2.0},
]
RULES: list[dict[str, Any]] = [
    {"rule": "truncate"},
    {"rule": "truncate", "ceiling": 0.05},
    {"rule": "round", "ceiling": 0.05},
    {"rule": "subgradient"},
]
EVERY = [
    _config(**rate, **rule, loss=loss, step=step)
    for rate, rule, loss, step in itertools.product(RATES, RULES, ("logistic", "squared", "hinge"), ("invariant", "gradient"))
    if rule["rule"] != "subgradient" or (rate["rate"] != "decaying" and not rate.get("normalised"))
]
DYADIC = [config for config in EVERY if not config.normalised]


def _name(config: TruncatedGradientConfig) -> str:
    word = "normalised" if config.normalised else config.rate
    return f"{config.loss}-{word}-{config.accumulator:g}-{config.reach:g}-{config.rule}-{config.ceiling:g}-{config.step}"


def _on_grid(config: TruncatedGradientConfig) -> TruncatedGradientConfig:
    return dataclasses.replace(config, grid=True)


class TestContract(LearnerContract):
    @pytest.fixture(
        params=EVERY[::5]
        + [_on_grid(config) for config in DYADIC[1::14]]
        + [TruncatedGradientConfig(), TruncatedGradientConfig(centred=False, calibrated=False)],
        ids=_name,
    )
    def build(self, request: pytest.FixtureRequest) -> Build:
        config: TruncatedGradientConfig = request.param

        def empty() -> Learner:
            return TruncatedGradient(config, BITS)

        return empty


@pytest.mark.parametrize("config", EVERY, ids=_name)
def test_lazy_equals_eager(config: TruncatedGradientConfig) -> None:
    events = sparse_events(150, seed=3)
    eager, lazy = Eager(config, BITS), TruncatedGradient(config, BITS)
    margins, refused = learn_rows(eager, events)
    stepped = lazy.step(to_batch(events))
    weights, (beta, intercept) = lazy.weights(), eager.served()
    expected = collect(beta)
    # 150 steps of rounding: relative to the largest number that took part.
    room = 1e-12 * max(1.0, max(abs(margin) for margin in margins))
    assert stepped.margin == pytest.approx(margins, rel=1e-12, abs=room)
    assert stepped.refused.tolist() == refused
    assert weights.slot.tolist() == list(expected)
    assert weights.beta == pytest.approx(list(expected.values()), rel=1e-12, abs=1e-12)
    assert weights.intercept == pytest.approx(intercept, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("config", [_on_grid(config) for config in DYADIC], ids=_name)
def test_lazy_equals_eager_to_the_last_bit_on_the_grid(config: TruncatedGradientConfig) -> None:
    events = sparse_events(1000, seed=4, spread=0.0)  # weights beyond 2^13 would leave the grid
    eager = Eager(config, BITS, slope=core.slope, travel=core.travel)
    lazy = TruncatedGradient(config, BITS)
    margins, _ = learn_rows(eager, events)
    assert lazy.step(to_batch(events)).margin.tolist() == margins
    weights, (beta, intercept) = lazy.weights(), eager.served()
    expected = collect(beta)
    assert dict(zip(weights.slot.tolist(), weights.beta.tolist(), strict=True)) == expected
    assert weights.intercept == intercept


@pytest.mark.parametrize(
    "config",
    [TruncatedGradientConfig(period=7), _config(rate="adaptive", ceiling=0.05), _config(eta=0.001)],
    ids=["normalised", "adaptive", "constant"],
)
@pytest.mark.parametrize("bits", [6, 22])
def test_rows_long_enough_for_vector_instructions_take_the_same_steps(config: TruncatedGradientConfig, bits: int) -> None:
    events = sparse_events(120, seed=13, features=400, longest=300)
    eager, lazy = Eager(config, bits), TruncatedGradient(config, bits)
    margins, _ = learn_rows(eager, events)
    batch = to_batch(events)
    for i in range(batch.n):
        expected = served(lazy.weights(), batch, i)
        margin = float(lazy.step(cut(batch, i, i + 1)).margin[0])
        assert margin == expected  # what is left of a row after whole vectors follows the same arithmetic
        # Rounding of 300 terms in each of 120 rows, relative to the largest margin so far.
        assert margin == pytest.approx(margins[i], rel=1e-11, abs=1e-12 * max(abs(m) for m in margins))
    assert lazy.weights().slot.tolist() == list(collect(eager.beta))


def test_arrays_that_are_not_in_one_piece_are_learnt_too() -> None:
    batch = to_batch(sparse_events(60, seed=9))
    odd = [
        replace(batch, value=np.repeat(batch.value, 2)[::2]),
        replace(batch, hash=batch.hash[::-1].copy()[::-1]),
        replace(batch, weight=batch.weight.astype(np.float32)),  # quarters and whole numbers: the same in both
        replace(batch, indptr=np.repeat(batch.indptr, 3)[::3], label=np.repeat(batch.label, 2)[::2]),
    ]
    given, plain = TruncatedGradient(_config(), BITS), TruncatedGradient(_config(), BITS)
    reported = given.step_all([batch, *odd, batch])
    assert reported.margin.tobytes() == plain.step_all([batch] * 6).margin.tobytes()
    assert same(given.freeze(), plain.freeze())


def test_rows_that_are_not_inside_of_their_features_are_refused() -> None:
    batch = to_batch(sparse_events(3, seed=9))
    for indptr in (batch.indptr + 1, batch.indptr[::-1].copy()):
        with pytest.raises(ValueError, match="not inside of its features"):
            TruncatedGradient(_config(), BITS).step(replace(batch, indptr=indptr))


@pytest.mark.parametrize("short", ["indptr", "hash", "value", "label", "weight"])
def test_arrays_of_other_lengths_are_refused(short: str) -> None:
    batch = to_batch(sparse_events(3, seed=9))
    with pytest.raises(ValueError, match="do not have the same lengths"):
        TruncatedGradient(_config(), BITS).step(replace(batch, **{short: getattr(batch, short)[:-1]}))
    with pytest.raises(ValueError, match="do not have the same lengths"):
        TruncatedGradient(_config(), BITS).step(batch, np.zeros(2, np.bool_))


@pytest.mark.parametrize("config", [_config(), _config(rate="adaptive"), TruncatedGradientConfig()], ids=_name)
def test_names_that_share_a_slot_and_cancel_are_not_refused(config: TruncatedGradientConfig) -> None:
    learner, eager = TruncatedGradient(config, BITS), Eager(config, BITS)
    events = [Event([(1, 2.0), (2, -2.0), (2**31, 1.0)], 1.0), Event([(1, 1.0), (2**31, 1.0)], 0.0)]
    margins, _ = learn_rows(eager, events)
    stepped = learner.step(to_batch(events))
    assert stepped.refused.tolist() == [False, False]
    assert stepped.margin == pytest.approx(margins, rel=1e-14)
    assert learner.weights().slot.tolist() == list(collect(eager.beta))


def test_intercept_moves_by_its_own_rate_however_many_features_a_row_has() -> None:
    moves = []
    for width in (0, 1, 50):
        learner = TruncatedGradient(TruncatedGradientConfig(step="gradient", calibrated=False), BITS)
        learner.step(to_batch([Event([(j << 24, 1.0) for j in range(width)], 1.0)]))
        moves.append(learner.weights().intercept)
    config = TruncatedGradientConfig()
    assert moves == [moves[0]] * 3
    assert moves[0] == pytest.approx(config.eta * 0.5 / math.sqrt(0.25 + config.accumulator), rel=1e-15)


def _weight(learner: TruncatedGradient, slot: int) -> float:
    weights = learner.weights()
    return float(dict(zip(weights.slot.tolist(), weights.beta.tolist(), strict=True)).get(slot, 0.0))


@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge"])
def test_importance_two_equals_the_row_twice(loss: str) -> None:
    features = [(1, 0.5), (2**24, -2.0), (2**31, 3.0)]
    twice, double = (TruncatedGradient(_config(loss=loss, gravity=0.0, eta=0.2), BITS) for _ in range(2))
    twice.step(to_batch([Event(features, 1.0), Event(features, 1.0)]))
    double.step(to_batch([Event(features, 1.0, 2.0)]))
    # Exact in real numbers; a few roundings in ours.
    assert double.weights().beta == pytest.approx(twice.weights().beta, rel=1e-9)
    assert double.weights().intercept == pytest.approx(twice.weights().intercept, rel=1e-9)


def test_importance_equals_many_small_gradient_steps() -> None:
    features, parts = [(1, 0.5), (2**31, 3.0)], 20_000
    once = TruncatedGradient(_config(gravity=0.0, eta=0.2), BITS)
    once.step(to_batch([Event(features, 1.0, 5.0)]))
    small = TruncatedGradient(_config(gravity=0.0, eta=0.2 * 5.0 / parts, step="gradient"), BITS)
    small.step(to_batch([Event(features, 1.0)] * parts))
    assert once.weights().beta == pytest.approx(small.weights().beta, rel=10.0 / parts)  # Euler's error is O(1 / parts)


def test_no_importance_overshoots() -> None:
    learner = TruncatedGradient(_config(loss="squared", gravity=0.0, eta=10.0), BITS)
    events = [Event([(5, 100.0)], 1.0, 1000.0)]
    learner.step(to_batch(events))
    assert float(learner.step(to_batch(events)).margin[0]) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("config", [_config(), _config(rate="adaptive"), TruncatedGradientConfig()], ids=_name)
def test_row_that_would_leave_the_finite_range_is_refused_and_leaves_no_trace(config: TruncatedGradientConfig) -> None:
    learner = TruncatedGradient(dataclasses.replace(config, step="gradient", loss="squared"), BITS)
    learner.step(to_batch(sparse_events(100, seed=6)))
    before = learner.freeze()
    huge = Event([(3, 1.0), (2**30, 1e200), (2**31, 1e200)], 1e200)
    stepped = learner.step(to_batch([huge]))
    assert stepped.refused.tolist() == [True]
    assert same(learner.freeze(), before)
    assert learner.step(to_batch([Event([(3, 1.0)], 1.0)])).refused.tolist() == [False]
    assert learner.learnt == 101


@pytest.mark.parametrize("step", ["gradient", "invariant"])
def test_row_whose_squares_add_up_to_no_number_is_refused_whatever_the_step(step: str) -> None:
    config = _config(step=step)
    for value, refused in ((1e150, False), (1e155, True)):
        learner = TruncatedGradient(config, BITS)
        assert learner.step(to_batch([Event([(3, value), (2**31, value)], 1.0)])).refused.tolist() == [refused]
        assert learner.learnt == int(not refused)


def test_subgradient_is_hardly_ever_sparse_and_is_rounded_when_finalised() -> None:
    learner = TruncatedGradient(_config(rule="subgradient", gravity=0.1, ceiling=0.02), BITS)
    learner.step(to_batch(sparse_events(300, seed=9)))
    assert len(learner.weights().slot) > len(learner.weights(finalised=True).slot)
    assert bool((np.abs(learner.weights(finalised=True).beta) >= 0.02).all())


def test_finalised_weights_have_seen_one_more_truncation() -> None:
    config = _config(period=1000, gravity=0.001, eta=0.1)
    learner = TruncatedGradient(config, BITS)
    learner.step(to_batch(sparse_events(300, seed=9, weighted=False)))
    before = learner.freeze()
    served, final = learner.weights(), learner.weights(finalised=True)
    pull = 0.1 * 0.001 * 1000
    left = np.sign(served.beta) * np.maximum(np.abs(served.beta) - pull, 0.0)
    alive = {s: b for s, b in zip(served.slot.tolist(), left.tolist(), strict=True) if b != 0.0}
    assert dict(zip(final.slot.tolist(), final.beta.tolist(), strict=True)) == pytest.approx(alive, rel=1e-12)
    assert same(learner.freeze(), before)


def test_zero_means_gone_from_weights_and_checkpoint() -> None:
    learner = TruncatedGradient(_config(gravity=0.1), BITS)
    learner.step(to_batch([Event([(2**31, 1.0)], 1.0)]))
    assert len(learner.freeze()["slot"]) == 1
    learner.step(to_batch([Event([], 1.0)] * 100))
    assert len(learner.weights().slot) == 0
    assert len(learner.freeze()["slot"]) == 0


def test_slots_that_die_and_come_back_do_not_fill_the_lists() -> None:
    learner = TruncatedGradient(_config(rule="round", ceiling=1e9, period=1), BITS)
    for _ in range(20):
        learner.step(to_batch([Event([(j << 24, 1.0) for j in range(200)], 1.0)] * 20))
    assert learner.memory()["lists"] < 100_000  # 80 000 births, 4 bytes each, would be more


def _log_loss(margin: np.ndarray[Any, np.dtype[np.float64]], label: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(np.logaddexp(0.0, np.where(label > 0.5, -margin, margin)).mean())


def test_one_extreme_row_does_not_ruin_the_model() -> None:
    events = sparse_events(6000, seed=21, weighted=False)
    names = sorted({name for event in events for name, _ in event.features})
    extreme = Event([(name, 1e6 if i % 2 else -1e6) for i, name in enumerate(names)], 1.0)
    clean, hit = TruncatedGradient(TruncatedGradientConfig(), BITS), TruncatedGradient(TruncatedGradientConfig(), BITS)
    late = to_batch(events[4000:])
    clean.step(to_batch(events[:4000]))
    hit.step(to_batch([*events[:2000], extreme, *events[2000:4000]]))
    base = _log_loss(np.zeros(late.n), late.label)
    good, after = _log_loss(clean.step(late).margin, late.label), _log_loss(hit.step(late).margin, late.label)
    assert good < 0.9 * base
    # At least three quarters of what can be learnt is still known, or known again.
    assert after - good < 0.25 * (base - good)


@pytest.mark.parametrize(
    "settings",
    [
        {"rate": "constant", "normalised": True},
        {"rule": "round", "ceiling": INFINITE},
        {"rule": "subgradient", "normalised": True},
        {"rule": "subgradient", "normalised": False, "rate": "decaying"},
        {"grid": True, "normalised": True},
    ],
)
def test_config_refuses_settings_that_contradict_each_other(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as caught:
        TruncatedGradientConfig(**settings)
    assert caught.value.code == "conflicting_settings"


def test_config_goes_through_a_document_and_back() -> None:
    config = TruncatedGradientConfig(ceiling=INFINITE, eta=0.25)
    assert read_document(TruncatedGradientConfig, write_document(config)) == config
    for document in ({"eta": 0.0}, {"gravity": -1.0}, {"period": 0}, {"ceiling": 0.0}, {"loss": "hinged"}, {"etta": 1.0}):
        with pytest.raises(BadInput):
            read_document(TruncatedGradientConfig, document)


@pytest.mark.parametrize("bits", [0, 27])
def test_table_size_out_of_range_is_refused(bits: int) -> None:
    with pytest.raises(BadInput):
        TruncatedGradient(TruncatedGradientConfig(), bits)


def test_clock_of_a_long_decaying_stream_keeps_its_digits() -> None:
    config = _config(rate="decaying", eta=0.1, delay=1.0, gravity=1e-3, period=1, intercept=False)
    learner = TruncatedGradient(config, BITS)
    learner.step(to_batch([Event([], 1.0)] * 200_000))
    scalars = learner.freeze()["scalars"]
    exact = math.fsum(1e-3 * 0.1 * (1.0 / (1.0 + i)) ** 0.5 for i in range(200_000))
    assert float(scalars[0]) + float(scalars[1]) == pytest.approx(exact, rel=1e-14)  # a plain sum is off by 1e-12


def test_thaw_refuses_a_weight_without_a_scale() -> None:
    learner = TruncatedGradient(TruncatedGradientConfig(), BITS)
    learner.step(to_batch(sparse_events(100, seed=1)))
    frozen = learner.freeze()
    orphan = {**frozen, **{name: frozen[name][frozen["seen"] != frozen["slot"][0]] for name in ("seen", "squares", "scale")}}
    flat = {**frozen, "scale": np.zeros(len(frozen["seen"]))}
    for broken in (orphan, flat):
        with pytest.raises(Corrupt):
            learner.thaw(broken)
    learner.thaw(frozen)


@pytest.mark.parametrize("looked_at", [False, True])
@pytest.mark.parametrize("config", [_config(gravity=0.5), _config(rate="adaptive", eta=0.3, gravity=0.5)], ids=_name)
def test_a_weight_that_dies_and_comes_back_is_listed_and_listed_once(config: TruncatedGradientConfig, looked_at: bool) -> None:
    learner = TruncatedGradient(config, BITS)
    seldom, often = to_batch([Event([(1 << 24, 1.0)], 1.0)]), to_batch([Event([(9 << 24, 1.0)], 0.0)] * 21)
    for _ in range(50):
        learner.step(seldom)
        assert 1 in learner._alive.slot[: len(learner._alive)]
        learner.step(often)
        if looked_at:
            assert 1 not in learner.weights().slot
            assert 1 not in learner._alive.slot[: len(learner._alive)]
    learner.step(seldom)
    assert learner.weights().slot.tolist().count(1) == 1
    assert learner._alive.slot[: len(learner._alive)].tolist().count(1) == 1


def test_a_list_does_not_grow_by_weights_that_die_and_come_back() -> None:
    learner = TruncatedGradient(_config(gravity=0.5), BITS)
    seldom, often = to_batch([Event([(1 << 24, 1.0)], 1.0)]), to_batch([Event([(9 << 24, 1.0)], 0.0)] * 21)
    lengths = []
    for _ in range(20):
        learner.step(seldom)
        learner.step(often)
        lengths.append(len(learner._alive))
    assert lengths == [2] * 20


# Truncated step.


@pytest.mark.parametrize(
    "config",
    [
        TruncatedGradientConfig(rate="constant", normalised=False, period=3),
        TruncatedGradientConfig(rate="decaying", normalised=False, period=3, delay=4.0, eta=0.01),
        TruncatedGradientConfig(period=3),
        TruncatedGradientConfig(period=3, rule="round", ceiling=0.01),
        TruncatedGradientConfig(rate="constant", normalised=False, rule="subgradient", eta=0.01),
    ],
    ids=["constant", "decaying", "normalised", "round", "subgradient"],
)
def test_clock_moves_by_the_size_of_each_event(config: TruncatedGradientConfig) -> None:
    lazy, eager, clock = TruncatedGradient(config, BITS), Eager(config, BITS), 0.0
    for event in sparse_events(60, seed=1):
        before = eager.learnt
        learn_rows(eager, [event])
        lazy.step(to_batch([event]))
        eager.learnt = before  # the size of an event is that of the row it follows
        if config.rule == "subgradient" or (before + 1) % config.period == 0:
            clock += event_size(eager)
        eager.learnt = before + 1
        scalars = np.asarray(lazy.freeze()["scalars"], np.float64)
        assert float(scalars[CLOCK] + scalars[CLOCK_LOST]) == pytest.approx(clock, rel=1e-12)
    assert clock > 0.0


# Truncated row.


def _settings(**others: Any) -> Any:
    return struct(
        "riata_gradient_settings",
        **{"invariant": True, "intercept": True, "counting": True, "eta": 1.0, "delay": 1.0, "gravity": 0.25, "period": 1}
        | {"ceiling": 1e9, "reach": 2.0}
        | others,
    )


def _table(line: F64) -> Any:
    return struct(
        "riata_gradient", line=line, lines=len(line), shift=28, counts=np.zeros(COUNTS, np.int64), scalars=np.zeros(SCALARS)
    )


def collect_row(line: F64, settings: Any, forget: bool, listed: U32, slot: U32, beta: F64) -> int:
    """The kernel, at clock 2."""
    kept: int = core.collect_gradient(_table(line), settings, 2.0, forget, listed, len(listed), slot, beta)
    return kept


def test_collect_keeps_what_truncation_has_left_and_each_slot_once() -> None:
    line = zero_table(16, 2)
    line[:, 0] = np.linspace(-1.0, 1.0, 16)
    listed = np.array([0, 0, 3, 7, 8, 8, 8, 15], np.uint32)
    slot, beta = np.empty_like(listed), np.empty(len(listed))
    before = line.copy()
    assert collect_row(line, _settings(), False, listed, slot, beta) == 3
    assert line.tolist() == before.tolist()
    kept = collect_row(line, _settings(), True, listed, slot, beta)  # two events of 0.25
    expected = twin.collect({j: np.sign(b) * max(0.0, abs(b) - 0.5) for j, b in enumerate(before[:, 0]) if j in (0, 3, 7, 8, 15)})
    assert dict(zip(slot[:kept].tolist(), beta[:kept].tolist(), strict=True)) == expected
    assert list(expected) == [0, 3, 15]
    assert np.flatnonzero(line[:, 0] != before[:, 0]).tolist() == [7, 8]
    assert line[[7, 8], 0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rate", ["constant", "adaptive", "normalised"])
@pytest.mark.parametrize("in_place", [False, True])
def test_collect_of_many_is_each_weight_by_itself(rate: str, in_place: bool) -> None:
    settings = _settings(
        adaptive=rate != "constant", normalised=rate == "normalised", counting=rate != "normalised", accumulator=0.25, ceiling=0.9
    )
    rng = np.random.default_rng(3)
    line = zero_table(257, 2 if rate == "constant" else 4)  # lines are read as they lie, and have to lie as in a table
    line[:256, 0] = np.round(rng.normal(0.0, 0.5, 256), 1) * (rng.random(256) < 0.9)
    line[:256, 1] = rng.integers(0, 3, 256)
    if rate != "constant":
        line[:256, 2] = rng.uniform(0.0, 4.0, 256)
        line[:256, 3] = rng.uniform(0.1, 3.0, 256) if rate == "normalised" else 1.0 / np.sqrt(line[:256, 2] + 0.25)
    listed = np.sort(rng.integers(0, 256, 300)).astype(np.uint32)
    expected = {int(at): _now(rate, line[at].tolist()) for at in np.unique(listed)}
    dead = {at for at, weight in expected.items() if weight == 0.0}
    slot, beta = listed if in_place else np.empty_like(listed), np.empty(len(listed))
    before = line.copy()
    kept = collect_row(line, settings, True, listed, slot, beta)
    assert dict(zip(slot[:kept].tolist(), beta[:kept].tolist(), strict=True)) == twin.collect(expected)
    assert 20 < len(dead) < len(expected) - 20
    assert kept == len(expected) - len(dead)
    assert line[sorted(dead), 0].tolist() == [0.0] * len(dead)
    alive = sorted(set(range(257)) - dead)
    assert line[alive].tolist() == before[alive].tolist()


def _now(rate: str, line: list[float]) -> float:
    """A weight at clock 2, truncated by a quarter for each unit of the clock since, or by that divided by the root."""
    scale = line[3] if rate == "normalised" else 1.0
    unit = 1.0 if rate == "constant" else 1.0 / math.sqrt(line[2] + 0.25 * scale * scale)
    amount = unit * (1.0 if rate == "normalised" else 0.25) * (2.0 - line[1])
    beta = line[0]
    return beta if abs(beta) * scale > 0.9 else math.copysign(max(abs(beta) - amount, 0.0), beta)
