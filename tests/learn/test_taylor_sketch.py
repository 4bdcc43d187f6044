from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.document import read_document, write_document
from riata.base.errors import BadInput
from riata.learn.learner import Learner, Shadow
from riata.learn.taylor_config import FeatureGamma, TaylorSketchConfig
from riata.learn.taylor_sketch import TaylorSketch
from riata.learn.taylor_state import NOTHING, key_map, own_penalties
from riata.native.library import core
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.learn.contract import Build, LearnerContract, same
from tests.learn.streams import cut, sparse_events, to_batch
from tests.twins import sketch_step as twin
from tests.twins.truncated_step import Event

BITS = 10
MODES: list[dict[str, Any]] = [
    {"mode": "strict", "k": 5},
    {"mode": "strict", "k": 5, "warm_up": 30},
    {"mode": "strict", "k": 5, "intercept": False},
    {"mode": "hybrid", "k": 5},
    {"mode": "diag"},
    {"mode": "exact"},
    {"mode": "exact", "features_max": 6, "beyond": "strict"},
]


def _learner(**settings: Any) -> TaylorSketch:
    return TaylorSketch(TaylorSketchConfig(**{"block": 3, "rounds": 2, "gamma": 0.2, "warm_up": 0, **settings}), BITS)


def _violation(learner: TaylorSketch) -> float:
    """Largest violation of the optimality conditions of the sketch, inside and outside the block, as a share of the penalty."""
    sketch = learner.sketch()
    beta = np.concatenate([sketch.beta, sketch.outside_beta])
    gradient = np.concatenate([sketch.gradient, sketch.outside_gradient])
    gamma = np.concatenate([sketch.gamma, sketch.outside_gamma])
    moving = np.concatenate([sketch.curvature, sketch.outside_curvature]) > 0.0
    excess = np.where(beta != 0.0, np.abs(gradient - gamma * np.sign(beta)), np.maximum(np.abs(gradient) - gamma, 0.0))
    return float(excess[moving].max() / sketch.penalty)


@given(
    seed=st.integers(0, 2**32 - 1), k=st.integers(1, 9), block=st.integers(1, 5), gamma=st.sampled_from([0.0, 0.01, 0.3]),
    warm=st.sampled_from([0, 20]), rho=st.sampled_from([1.0, 0.95]), intercept=st.booleans(),
)  # fmt: skip
@settings(max_examples=40)
def test_strict_never_has_more_weights_than_members(
    seed: int, k: int, block: int, gamma: float, warm: int, rho: float, intercept: bool
) -> None:
    learner = _learner(mode="strict", k=k, block=block, gamma=gamma, warm_up=warm, rho=rho, intercept=intercept, rounds=1)
    batch = to_batch(sparse_events(80, seed=seed))
    for i in range(batch.n):
        assert learner.step(cut(batch, i, i + 1)).refused.tolist() == [False]
        assert len(learner.weights().slot) + int(intercept) <= k
        assert len(learner.sketch().slot) <= k


@pytest.mark.parametrize("settings", MODES, ids=str)
def test_after_a_block_no_condition_of_optimality_is_violated(settings: dict[str, Any]) -> None:
    learner = _learner(**settings, tolerance=1e-9, sweeps_max=100_000)
    learner.step(to_batch(sparse_events(120, seed=5)))
    learner.adjust(dataclasses.replace(learner.config, gamma=0.2))  # solves, outside too, without an exchange of members
    assert _violation(learner) < 1e-6


@pytest.mark.parametrize("settings", MODES, ids=str)
def test_curvature_is_positive_semidefinite_whatever_enters_or_leaves(settings: dict[str, Any]) -> None:
    learner = _learner(**{**settings, "prior_curvature": 0.0})
    batch = to_batch(sparse_events(200, seed=6))
    for start in range(0, 200, 10):
        learner.step(cut(batch, start, start + 10))
        sketch = learner.sketch()
        whole = sketch.cross + np.diag(sketch.curvature)
        assert whole == pytest.approx(whole.T, rel=0.0, abs=0.0)
        assert float(np.linalg.eigvalsh(whole).min()) >= -1e-12 * float(np.abs(whole).max())
        assert bool((sketch.outside_curvature >= 0.0).all())


def test_exact_sums_are_those_of_the_events_at_the_margins_they_were_met_with() -> None:
    learner = _learner(mode="exact", prior_curvature=0.0, curvature_floor=0.0, gamma=4.0)
    events = sparse_events(90, seed=7, spread=0.5)
    names = sorted({name for event in events for name, _ in event.features})
    batch = to_batch(events)
    psi, theta = np.zeros((len(names) + 1,) * 2), np.zeros(len(names) + 1)
    for i, event in enumerate(events):
        c = float(learner.step(cut(batch, i, i + 1)).margin[0])
        x = np.zeros(len(names) + 1)
        x[0] = 1.0
        for name, value in event.features:
            x[1 + names.index(name)] += value
        p = 1.0 / (1.0 + np.exp(-c))
        psi += event.weight * p * (1.0 - p) * np.outer(x, x)
        theta += event.weight * (event.label - p + p * (1.0 - p) * c) * x
    sketch = learner.sketch()
    at = [0, *(1 + names.index(name) for name in sketch.slot[1:].tolist())]
    assert sketch.cross + np.diag(sketch.curvature) == pytest.approx(psi[np.ix_(at, at)], rel=1e-9, abs=1e-9)
    assert sketch.gradient == pytest.approx((theta - psi[:, at] @ sketch.beta)[at], rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("settings", MODES[:6], ids=str)
def test_importance_two_equals_the_row_twice_within_a_block(settings: dict[str, Any]) -> None:
    features = [(1, 0.5), (2**24, -2.0), (2**31, 3.0)]
    twice, double = (_learner(**{**settings, "block": 100, "warm_up": 0, "ramp": 0.0}) for _ in range(2))
    twice.step(to_batch([Event(features[:2], 0.0), Event([], 1.0, 0.5), Event([], 1.0, 0.5)]))
    double.step(to_batch([Event(features[:2], 0.0), Event([], 1.0)]))
    for left, right in zip(twice.freeze().items(), double.freeze().items(), strict=True):
        if left[0] not in ("counts", "pending_start", "pending_at", "pending_x", "pending_h") and not left[0].startswith(
            "sample"
        ):
            assert left[1] == pytest.approx(right[1], rel=1e-14), left[0]


@pytest.mark.parametrize("settings", MODES, ids=str)
def test_row_that_would_leave_the_finite_range_is_refused_and_leaves_no_trace(settings: dict[str, Any]) -> None:
    learner = _learner(**settings)
    learner.step(to_batch(sparse_events(100, seed=6)))
    before = learner.freeze()
    huge = Event([(3, 1.0), (2**30, 1e200), (2**31, 1e200)], 1.0)
    assert learner.step(to_batch([huge])).refused.tolist() == [True]
    assert same(learner.freeze(), before)
    assert learner.step(to_batch([Event([(3, 1.0)], 1.0)])).refused.tolist() == [False]
    assert learner.learnt == 101


@pytest.mark.parametrize("settings", [*MODES, {"mode": "exact", "prior_curvature": 0.0, "gamma": 0.0}], ids=str)
def test_numbers_stay_finite_at_the_limits_of_what_comes_in(settings: dict[str, Any]) -> None:
    learner = _learner(**{"prior_curvature": 1.0, **settings}, curvature_floor=0.0, block=1)
    rng = np.random.default_rng(3)
    values = [1e6, -1e6, 1e-6, 1.0, 1e-300]
    events = [
        Event([(j << 22, float(rng.choice(values))) for j in range(8) if rng.random() < 0.6], float(i % 3 == 0), importance)
        for i, importance in zip(range(300), itertools.cycle([1e3, 1e-3, 1.0]), strict=False)
    ]
    stepped = learner.step(to_batch(events))
    assert not stepped.refused.any()
    assert bool(np.isfinite(stepped.margin).all())
    assert all(bool(np.isfinite(array).all()) for array in learner.freeze().values() if array.dtype == np.float64)


@given(
    seed=st.integers(0, 2**32 - 1), mode=st.sampled_from(["exact", "strict", "hybrid", "diag"]),
    spread=st.sampled_from([0.0, 2.0, 4.0]),
    numbers=st.fixed_dictionaries({
        "k": st.integers(1, 8), "block": st.sampled_from([1, 2, 7, 50]), "rounds": st.integers(1, 3),
        "gamma": st.sampled_from([0.0, 1e-6, 0.05, 5.0]), "prior_curvature": st.sampled_from([0.0, 1e-3, 1.0]),
        "curvature_floor": st.sampled_from([0.0, 0.25]), "rho": st.sampled_from([1.0, 0.99, 0.3]),
        "warm_up": st.sampled_from([0, 20, 64]),
        "link": st.sampled_from(["logistic", "probit"]), "tolerance": st.sampled_from([1e-12, 0.01]), "intercept": st.booleans(),
        "burn_in": st.sampled_from([0, 60]), "shadow": st.sampled_from([(), (0.1, 2.0)]),
    }),
)  # fmt: skip
@settings(max_examples=100)
def test_whatever_the_settings_numbers_stay_finite_and_a_state_is_its_own_checkpoint(
    seed: int, mode: str, spread: float, numbers: dict[str, Any]
) -> None:
    exact = {"reexpand": seed % 2 * 5, "features_max": 5 + seed % 3 * 20, "beyond": "hybrid"} if mode == "exact" else {}
    config = TaylorSketchConfig(**{"mode": mode, **numbers, **exact})
    learner, copy = TaylorSketch(config, BITS), TaylorSketch(config, BITS)
    stepped = learner.step(to_batch(sparse_events(100, seed=seed, spread=spread)))
    frozen = learner.freeze()
    assert not stepped.refused.any()
    assert bool(np.isfinite(stepped.margin).all())
    assert all(bool(np.isfinite(array).all()) for array in frozen.values() if array.dtype == np.float64)
    copy.thaw(frozen)
    assert same(copy.freeze(), frozen)


def test_full_vocabulary_refuses_whole_rows_and_reports_it() -> None:
    learner = _learner(mode="exact", features_max=4, block=1)
    known = [Event([(1, 1.0), (2, 1.0)], 1.0), Event([(2, 1.0), (5, 1.0)], 0.0)]
    assert learner.step(to_batch(known)).no_room is not None
    assert learner.closed_vocabulary() is not None
    before = learner.freeze()
    stepped = learner.step(to_batch([Event([(1, 1.0), (7, 1.0)], 1.0), Event([(5, 2.0)], 1.0)]), np.array([False, True]))
    assert stepped.refused.tolist() == [True, True]
    assert stepped.no_room is not None
    assert stepped.no_room.tolist() == [True, False]
    assert same(learner.freeze(), before)
    vocabulary = learner.closed_vocabulary()
    assert vocabulary is not None
    assert vocabulary.tolist() == [1, 2, 5]
    assert learner.weights().bits == 32


def test_row_with_more_new_features_than_room_leaves_none_of_them_behind() -> None:
    learner = _learner(mode="exact", features_max=4)
    row = Event([(j, 1.0) for j in range(1, 6)], 1.0)
    assert learner.step(to_batch([row])).refused.tolist() == [True]
    assert learner.closed_vocabulary() is None
    assert len(learner.sketch().slot) == 1
    assert learner.step(to_batch([Event([(j, 1.0) for j in range(3, 6)], 1.0)])).refused.tolist() == [False]


@pytest.mark.parametrize("settings", [{"mode": "hybrid"}, {"mode": "exact", "features_max": 5, "beyond": "hybrid"}], ids=str)
def test_vocabulary_is_open_if_features_may_be_outside(settings: dict[str, Any]) -> None:
    learner = _learner(**settings)
    assert learner.step(to_batch(sparse_events(100, seed=8))).no_room is None
    assert learner.closed_vocabulary() is None


def test_two_names_in_one_slot_are_one_feature_of_the_gradient() -> None:
    apart, together = _learner(block=1, relinearise=False), _learner(block=1, relinearise=False)  # no rows as they were sent
    apart.step(to_batch([Event([(1, 0.5), (2, 0.25)], 1.0)]))
    together.step(to_batch([Event([(1, 0.75)], 1.0)]))
    assert same(apart.freeze(), together.freeze())


@pytest.mark.parametrize("settings", [{"mode": "strict"}, {"mode": "hybrid"}, {"mode": "exact", "features_max": 60}], ids=str)
def test_memory_does_not_grow_with_events(settings: dict[str, Any]) -> None:
    learner = _learner(**settings, rho=0.999)
    events = [sparse_events(200, seed=9, longest=4) for _ in range(2)]
    learner.step(to_batch(events[0]))
    before = learner.memory()
    for _ in range(20):
        learner.step(to_batch(events[1]))
    assert {**learner.memory(), "checkpoint": 0} == {**before, "checkpoint": 0}


def test_forgetting_everything_again_and_again_keeps_numbers_in_range() -> None:
    learner = _learner(rho=1e-9, block=10, burn_in=50)
    batch = to_batch(sparse_events(400, seed=10))
    for start in range(0, 400, 20):
        learner.step(cut(batch, start, start + 20))
        sketch = learner.sketch()
        assert bool(np.isfinite(sketch.gradient).all())
        assert 1e-100 <= float(learner.freeze()["scalars"][0]) <= 1.0


def test_features_of_their_own_penalty_keep_it_wherever_they_are() -> None:
    rows = [{"age": 0.5, "country": "de", "x": 0.5}, {"x": 1.0, "y": 0.1}]
    body = "".join(json.dumps({"label": label, "features": row}) + "\n" for label, row in enumerate(rows)).encode()
    batch = parse_examples(body, "application/x-ndjson", Context(EncoderConfig(hash_key=77)), True).batch
    free = (FeatureGamma("age", 0.0), FeatureGamma("country=de", 1e9))
    for mode in ("hybrid", "exact"):
        learner = TaylorSketch(TaylorSketchConfig(mode=mode, gamma=0.05, block=1, rounds=1, gamma_of=free), 22, 77)
        for _ in range(5):
            learner.step(batch)
        sketch = learner.sketch()
        gamma = sorted([*sketch.gamma[1:].tolist(), *sketch.outside_gamma.tolist()])
        assert gamma == [0.0, 0.05, 0.05, 1e9]
        weights = dict(zip(learner.weights().slot.tolist(), learner.weights().beta.tolist(), strict=True))
        age, country = (own_penalties(TaylorSketchConfig(mode=mode, gamma_of=(own,)), 22, 77).key[0] for own in free)
        assert weights[int(age)] != 0.0
        assert int(country) not in weights


def test_names_are_found_as_the_encoder_makes_them() -> None:
    lines = {
        "application/x-ndjson": (
            b'{"label": 1, "features": {"age": 0.5, "country": "de", "said": "hello"}}\n',
            ["age", "country=de", "said:hello"],
        ),
        "text/x-vw": (b"1 |user age:0.5 country=de\n", ["user^age", "user^country=de"]),
    }
    for kind, (body, names) in lines.items():
        encoder = EncoderConfig(hash_key=5, text=("said",))
        hashes = set(parse_examples(body, kind, Context(encoder), True).batch.hash.tolist())
        for bits, mode in ((32, "exact"), (22, "hybrid")):
            config = TaylorSketchConfig(mode=mode, gamma_of=tuple(FeatureGamma(name, 1.0) for name in names))  # type: ignore[arg-type]
            assert {one >> (32 - bits) for one in hashes} <= set(own_penalties(config, 22, 5).key.tolist())


def test_config_survives_a_document_and_refuses_what_means_nothing() -> None:
    config = TaylorSketchConfig(mode="exact", gamma_of=(FeatureGamma("age", 0.5),), shadow=(0.1, 1.0))
    assert read_document(TaylorSketchConfig, write_document(config)) == config
    wrong: list[dict[str, Any]] = [
        {"reexpand": 5}, {"mode": "strict", "beyond": "hybrid"}, {"gamma": 0.0, "gamma_schedule": "sqrt"},
        {"gamma_of": (FeatureGamma("age", 0.5), FeatureGamma("age", 1.0))},
    ]  # fmt: skip
    for settings_ in wrong:
        with pytest.raises(BadInput, match="learner: "):
            TaylorSketchConfig(**settings_)
    with pytest.raises(BadInput, match="bits"):
        TaylorSketch(config, 27)


# Taylor contract.


FEW_BITS = 8  # 40 names in 256 slots: a few share one
# Blocks and rounds so short that everything happens within the contract's 240 events.
SHORT_ONES: dict[str, Any] = {"block": 3, "rounds": 2, "k": 4, "gamma": 0.3, "warm_up": 0}
OWN = (FeatureGamma("age", 0.0), FeatureGamma("country=de", 2.0))

OF_THE_CONTRACT: dict[str, dict[str, Any]] = {
    "defaults": {},
    "hybrid": {},
    "hybrid-shadow-forgetting": {"shadow": (0.1, 3.0), "rho": 0.97, "gamma_of": OWN},
    "hybrid-warm-up-burn-in": {"warm_up": 40, "burn_in": 120, "k": 12},
    "hybrid-warm-up-doubling": {"warm_up": 40, "burn_in": 120, "k": 12, "relinearise": False},
    "strict": {"mode": "strict"},
    "strict-blocks-of-one-length": {"mode": "strict", "ramp": 0.0, "k": 6},
    "hybrid-prior-by-value": {"prior_by_row": False, "ramp": 0.3},
    "strict-warm-up-shadow": {"mode": "strict", "k": 11, "warm_up": 20, "shadow": (1.0,), "gamma_schedule": "sqrt"},
    "strict-probit-no-intercept": {"mode": "strict", "link": "probit", "intercept": False, "rho": 0.8, "block": 10},
    "diag": {"mode": "diag", "block": 1},
    "diag-probit-shadow": {"mode": "diag", "link": "probit", "shadow": (0.2, 0.4)},
    "exact": {"mode": "exact", "block": 1},
    "exact-refuse-reexpand": {"mode": "exact", "features_max": 41, "reexpand": 7, "warm_up": 20, "gamma_intercept": 0.1},
    "exact-hybrid": {"mode": "exact", "features_max": 9, "beyond": "hybrid", "reexpand": 11, "shadow": (0.1,)},
    "exact-strict": {"mode": "exact", "features_max": 9, "beyond": "strict", "warm_up": 50, "intercept": False},
    "exact-linear": {"mode": "exact", "gamma_schedule": "linear", "gamma_events": 100, "warm_up": 32, "link": "probit"},
}


class TestContract(LearnerContract):
    @pytest.fixture(params=OF_THE_CONTRACT)
    def build(self, request: pytest.FixtureRequest) -> Build:
        config = (
            TaylorSketchConfig(**{**SHORT_ONES, **OF_THE_CONTRACT[request.param]})
            if request.param != "defaults"
            else TaylorSketchConfig()
        )

        def empty() -> Learner:
            return TaylorSketch(config, FEW_BITS)

        return empty


# Taylor twin.


ROWS = 200
ROWS_EXACT = 140  # the twin solves all features after every row
SHARP: dict[str, Any] = {"tolerance": 1e-11, "sweeps_max": 100_000}
# Both solve to the end; what is left of rounding grows with the number of solves that follow one another.
REL, ABS = 1e-6, 1e-7


def _pair(name: str, **more: Any) -> tuple[TaylorSketch, twin.Plain]:
    config = TaylorSketchConfig(**{**SHORT_ONES, **OF_THE_CONTRACT[name], **SHARP, **more})
    learner = TaylorSketch(config, FEW_BITS)
    own = dict(zip(learner._own.key.tolist(), learner._own.gamma.tolist(), strict=True))
    return learner, twin.Plain(config, FEW_BITS, own)


def _compare(learner: TaylorSketch, plain: twin.Plain) -> None:
    """Compare members and their positions, every sum, every weight."""
    state, sketch, scale = learner._state, learner.sketch(), float(learner._state.arrays.scalars[0])
    key = state.arrays.members.key[: state.size].tolist()
    listed = [None if one in (None, twin.INTERCEPT) else one for one in plain.slot]
    assert [None if one < 0 else one for one in key] == listed + [None] * (len(key) - len(listed))
    members = plain.members
    assert sorted(sketch.slot[int(sketch.intercept) :].tolist()) == sorted(one for one in members if one != twin.INTERCEPT)
    order = [twin.INTERCEPT if sketch.intercept and at == 0 else int(slot) for at, slot in enumerate(sketch.slot)]
    for ours, theirs in (
        (sketch.beta, [plain.feature[one].beta for one in order]),
        (sketch.gradient, [plain.feature[one].gradient for one in order]),
        (sketch.curvature, [plain.total(one) for one in order]),
        (sketch.gamma, [plain.gamma(one) for one in order]),
    ):
        assert ours == pytest.approx(theirs, rel=REL, abs=ABS)
    cross = [[0.0 if one == other else plain.h(one, other) for other in order] for one in order]
    assert sketch.cross == pytest.approx(np.array(cross).reshape(len(order), len(order)), rel=REL, abs=ABS)
    others = sorted(one for one in plain.feature if one not in members and plain.feature[one].peak > 0.0)
    others = [] if state.settings.outside == NOTHING else others
    assert learner._outside().tolist() == others
    lines = state.table.lines_of(np.array(others, np.uint32))
    for column, name in ((0, "beta"), (1, "gradient"), (2, "curvature"), (3, "peak")):
        unit = scale if column in (1, 2) else 1.0
        found = state.table.line[lines, column]
        ours = np.abs(found) if name == "peak" else found * unit
        assert ours == pytest.approx([getattr(plain.feature[one], name) for one in others], rel=REL, abs=ABS)
    weights = learner.weights()
    alive = {one: f.beta for one, f in sorted(plain.feature.items()) if f.beta != 0.0 and one != twin.INTERCEPT}
    assert weights.slot.tolist() == list(alive)
    assert weights.beta == pytest.approx(list(alive.values()), rel=REL, abs=ABS)


@pytest.mark.parametrize("name", [name for name in OF_THE_CONTRACT if name != "defaults"])
def test_learner_is_its_slow_twin(name: str) -> None:
    learner, plain = _pair(name)
    events = sparse_events(ROWS_EXACT if name.startswith("exact") else ROWS, seed=21, spread=0.7)
    batch = to_batch(events)
    for start, stop in ((0, 20), (20, 61), (61, 120), (120, batch.n)):
        stepped = learner.step(cut(batch, start, stop))
        margins, refused = twin.learn_rows(plain, events[start:stop])
        assert stepped.margin == pytest.approx(margins, rel=REL, abs=ABS)
        assert stepped.refused.tolist() == refused
        _compare(learner, plain)
    for ours, theirs in zip(learner.shadows(), plain.loss, strict=True):
        weight, total, faded_weight, faded = theirs
        expected = (ours.gamma, weight, total / weight, faded_weight, faded / faded_weight)
        assert dataclasses.astuple(ours) == pytest.approx(dataclasses.astuple(Shadow(*expected)), rel=REL, abs=ABS)


@pytest.mark.parametrize("name", ["hybrid", "strict", "diag", "exact", "exact-hybrid", "hybrid-shadow-forgetting"])
@pytest.mark.parametrize("gamma", [0.05, 4.0])
def test_another_penalty_is_taken_up_at_once_and_gone_on_with(name: str, gamma: float) -> None:
    learner, plain = _pair(name)
    events = sparse_events(ROWS_EXACT if name.startswith("exact") else ROWS, seed=22, spread=0.7)
    learner.step(to_batch(events[:100]))
    twin.learn_rows(plain, events[:100])
    learner.adjust(dataclasses.replace(learner.config, gamma=gamma))
    plain.config = dataclasses.replace(plain.config, gamma=gamma)
    twin.solve_all(plain)
    _compare(learner, plain)
    learner.step(to_batch(events[100:]))
    twin.learn_rows(plain, events[100:])
    _compare(learner, plain)


# Key map.


@pytest.mark.parametrize("spread", [1, 2**7, 2**16, 2**20])
def test_every_key_is_in_the_map_with_its_position_and_no_other_key_is(spread: int) -> None:
    rng = np.random.default_rng(spread)
    held = rng.choice(4096, 1000, replace=False) * spread  # neighbours, multiples of powers of two, the highest of 32 bits
    held[rng.random(1000) < 0.1] = -1
    place = np.full(2048, 7, np.int64)  # what was there before is gone
    core.fill_key_map(key_map(place), held, 900)
    entries = place[place != 0]
    found = dict(zip((entries >> 16).tolist(), ((entries & 0xFFFF) - 1).tolist(), strict=True))
    assert found == {int(key): position for position, key in enumerate(held[:900]) if key >= 0}
    assert len(entries) == len(found)
