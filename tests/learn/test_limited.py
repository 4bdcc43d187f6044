"""Learners without shapes whose columns have limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.learn.apart import PARTS
from riata.learn.ftrl_proximal import FtrlProximalConfig
from riata.learn.held_rows import names_of
from riata.learn.learner import FarValue
from riata.learn.limits import DECIDED, FIRST, NEAR, WIDE, Allowed, Limited, find_apart
from riata.learn.mixed_gradient import MixedGradient
from riata.learn.particle_filter import ParticleFilterConfig
from riata.learn.registry import build_learner
from riata.learn.shapes import sorted_values
from riata.learn.taylor_config import TaylorSketchConfig
from riata.learn.truncated_config import DeclaredShapes, Missing, TruncatedGradientConfig
from riata.maths.links import LINKS, class_probabilities, log_losses
from riata.run.state.config import read_config, read_stored, stored_document
from riata.run.state.model_state import build_parts
from riata.wire.batch import Batch
from tests.learn.contract import Build, LearnerContract, builds, same, served
from tests.learn.streams import cut, sparse_events, to_batch
from tests.learn.test_limits import BITS, HASHES, drawn

CONFIGS: dict[str, Any] = {
    "ftrl": FtrlProximalConfig(),
    "hybrid": TaylorSketchConfig(k=20, block=25),
    "exact": TaylorSketchConfig(mode="exact", warm_up=200),
    "particles": ParticleFilterConfig(features_max=5, particles=300, start=64),
    "linear": TruncatedGradientConfig(shapes="off", second_order=False),  # which is moved less
    "one step": TruncatedGradientConfig(shapes="off", mixed=False),
    "declared too": TruncatedGradientConfig(shapes="off", missing=(Missing("*", (-7.0,)),)),
    "squared": TruncatedGradientConfig(loss="squared"),
}
CONFIGS |= {"shapes": TruncatedGradientConfig(), "shapes, declared too": replace(CONFIGS["declared too"], shapes="auto")}
CLASSES = {name: CONFIGS[name] for name in ("ftrl", "hybrid", "declared too", "shapes")}
NEARS = {name: WIDE if name in ("hybrid", "exact", "particles") else NEAR for name in CONFIGS}
LOGISTIC = ("ftrl", "hybrid", "exact", "linear", "one step")


def loss(config: Any, batch: Batch) -> float:
    """The progressive log loss of a learner."""
    margin = build_learner(config, BITS).step(batch).answered
    return float(log_losses(margin, np.zeros(batch.n, np.bool_), batch.label, batch.weight).mean())


class TestContract(LearnerContract):
    build = builds(CONFIGS, BITS)

    @pytest.fixture
    def batch(self) -> Batch:
        return cut(drawn("0.05", middle=3.0), 0, 300)

    def test_served_margin_equals_the_learners_to_the_last_bit(self, build: Build, batch: Batch) -> None:
        """But for learners of standardised columns, whose margins differ by rounding errors."""
        learner = build()
        rounding = 1e-9 if "standard_slot" in learner.freeze() else 0.0
        for i in range(batch.n):
            expected = served(learner.weights(), batch, i)
            assert learner.step(cut(batch, i, i + 1)).margin[0] == pytest.approx(expected, rel=rounding, abs=rounding)

    def test_values_are_found_on_the_way(self, build: Build, batch: Batch) -> None:
        learner = build()
        learner.step(cut(batch, 0, FIRST - 1))
        assert learner.far_values() == []
        learner.step(cut(batch, FIRST - 1, batch.n))
        assert learner.far_values() == [FarValue(HASHES[0], 999.0, True)]
        assert len(learner.weights().apart.column) == len(HASHES)  # type: ignore[union-attr]


class TestContractOfClasses(TestContract):
    build = builds(CLASSES, BITS, (3, 5))

    @pytest.fixture
    def batch(self) -> Batch:
        return cut(drawn("0.05", middle=3.0, classes=3), 0, 300)

    def test_served_margin_equals_the_learners_to_the_last_bit(self, build: Build, batch: Batch) -> None:
        """See `test_limits`."""


@pytest.mark.parametrize("name", ["ftrl", "hybrid", "exact", "particles", "one step", "squared"])
def test_the_first_rows_are_learnt_again_as_by_a_learner_of_limited_rows(name: str) -> None:
    """With one search: from row 128 to 255 the learner is one that got all rows with the limits of the first 128."""
    batch, config = cut(drawn("0.05"), 0, 255), CONFIGS[name]
    learner, plain = build_learner(config, BITS), build_learner(replace(config, far_values="off"), BITS)
    learner.step(batch)
    first = cut(batch, 0, FIRST)
    apart = find_apart(*sorted_values(first), FIRST, np.array(sorted(HASHES), np.uint32), None, Allowed(NEARS[name])).apart
    assert apart is not None
    plain.step(apart.rows(first))
    plain.step(apart.rows(cut(batch, FIRST, 255)))
    state, expected = learner.freeze(), plain.freeze()
    assert same(expected, {key: state[key] for key in expected})
    learner.step(cut(drawn("0.05"), 255, 300))
    assert learner.weights().apart.limit.tolist() != apart.limit.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("middle", [0.0, 40.0])
@pytest.mark.parametrize("name", LOGISTIC)
def test_far_values_cost_every_learner_little(name: str, middle: float) -> None:
    config = CONFIGS[name]
    off, clean = replace(config, far_values="off"), drawn("clean", middle=middle)
    known = loss(off, clean)
    assert loss(config, clean) == pytest.approx(known, rel=1e-3)
    for spoilt in ("first", "0.01", "0.05", "outliers"):
        batch = drawn(spoilt, middle=middle)
        assert loss(config, batch) <= 1.04 * known
        assert loss(off, batch) > 1.02 * known


def loss_of_classes(config: Any, batch: Batch) -> float:
    """The progressive log loss of three classes."""
    probability, _ = class_probabilities(build_learner(config, BITS, classes=(3, 3)).step(batch).answered, LINKS["logistic"].code)
    return float(-np.log(probability[np.arange(batch.n), batch.label.astype(np.int64)]).mean())


@pytest.mark.parametrize("name", [*LOGISTIC, "shapes"])
def test_far_values_cost_several_classes_little(name: str) -> None:
    config, (clean, spoilt) = CONFIGS[name], (drawn(how, classes=3) for how in ("clean", "first"))
    off = replace(config, far_values="off")
    known = loss_of_classes(off, clean)
    assert loss_of_classes(config, clean) == pytest.approx(known, rel=1e-3)
    assert loss_of_classes(config, spoilt) <= 1.01 * known
    assert loss_of_classes(off, spoilt) > 1.03 * known


def test_several_classes_learn_their_first_rows_again_without_far_values() -> None:
    config = replace(CONFIGS["shapes"], shapes=DeclaredShapes(pairs=()))
    spoilt, clean = drawn("0.05", 1000, classes=3), drawn("clean", 1000, classes=3)
    before = replace(config, learns_again=False)
    assert loss_of_classes(config, spoilt) < 0.95 * loss_of_classes(before, spoilt)
    assert loss_of_classes(config, clean) == loss_of_classes(before, clean)
    first = cut(spoilt, 0, FIRST)
    learner: Any = build_learner(config, BITS, classes=(3, 3))
    learner.step(first)
    rows = learner.weights().apart.rows(first)
    head = MixedGradient(config.of_class(), BITS)
    head.step(replace(rows, label=(rows.label == 0.0).astype(np.float64)))
    frozen = learner.freeze()
    assert same({name: frozen[f"0.{name}"] for name in head.freeze()}, head.freeze())


@pytest.mark.parametrize("name", ["ftrl", "shapes"])
@pytest.mark.parametrize("at", [60, 200])
def test_a_late_class_has_the_bits_of_one_that_was_named_from_the_start(name: str, at: int) -> None:
    batch = cut(drawn("0.05", classes=3), 0, 600)
    late = replace(batch, label=np.where((batch.label == 2.0) & (np.arange(batch.n) < at), 0.0, batch.label))
    first, other = (build_learner(CONFIGS[name], BITS, classes=(k, 5)) for k in (3, 2))
    known = first.step(late)
    before = other.step(cut(late, 0, at))
    other.grow(3)
    after = other.step(cut(late, at, late.n))
    assert before.margin.tobytes() == known.margin[:at, :2].tobytes()
    assert after.margin.tobytes() == known.margin[at:].tobytes()
    assert same(first.freeze(), other.freeze())
    assert first.weights().apart is not None


def test_far_values_cost_the_particle_filter_little() -> None:
    config = ParticleFilterConfig(features_max=5)
    known = loss(config, drawn("clean", 3000))
    assert loss(config, drawn("first", 3000)) <= 1.04 * known
    assert loss(replace(config, far_values="off"), drawn("first", 3000)) > 1.2 * known


def error(margin: F64, batch: Batch) -> float:
    """Mean squared error after the first rows."""
    return float(((margin - batch.label)[FIRST:] ** 2).mean())


def test_far_values_cost_a_regression_little() -> None:
    config = CONFIGS["squared"]
    spoilt, clean = (build_learner(config, BITS).step(drawn(how)) for how in ("first", "clean"))
    off = build_learner(replace(config, far_values="off"), BITS).step(drawn("first"))
    assert error(spoilt.margin, drawn("first")) <= 1.01 * error(clean.margin, drawn("clean"))
    assert error(off.margin, drawn("first")) > 1.2 * error(clean.margin, drawn("clean"))


@pytest.mark.parametrize(("features", "apart"), [(4, []), (5, [999.0])])
def test_no_value_is_set_apart_for_which_there_is_no_room(features: int, apart: list[float]) -> None:
    for config in (
        replace(CONFIGS["particles"], features_max=features),
        TaylorSketchConfig(mode="exact", features_max=features + 1, warm_up=50),
    ):
        learner = build_learner(config, BITS)
        assert learner.step(drawn("0.05", 400)).refusals == 0
        assert learner.weights().apart.value.tolist() == apart  # type: ignore[union-attr]


def test_words_have_no_limits_and_the_bits_of_before() -> None:
    batch = to_batch(sparse_events(DECIDED + 100, seed=2, features=400, longest=30))
    batch = replace(batch, value=np.ones(batch.nnz))
    learner, plain = (build_learner(replace(CONFIGS["ftrl"], far_values=how), BITS) for how in ("auto", "off"))
    assert learner.step(batch).margin.tobytes() == plain.step(batch).margin.tobytes()
    assert learner.weights().apart is None
    assert len(learner.freeze()["limits_hash"]) == 0  # the sample is dropped


def test_what_is_forgotten_stays_forgotten_when_the_first_rows_are_learnt_again() -> None:
    batch = drawn("0.05")
    forgetful, other = (build_learner(CONFIGS["ftrl"], BITS) for _ in range(2))
    forgetful.step(cut(batch, 0, 100))
    forgetful.forget(0.25)
    forgetful.step(cut(batch, 100, 200))
    weight = np.where(np.arange(200) < 100, 0.25, 1.0)
    weighted = replace(cut(batch, 0, 200), weight=weight)
    other.step(weighted)
    assert forgetful.weights().beta.tolist() == other.weights().beta.tolist()


def test_a_penalty_that_changed_counts_when_the_first_rows_are_learnt_again() -> None:
    config, batch = TaylorSketchConfig(mode="exact", gamma=5.0), drawn("0.05")
    learner, other = build_learner(config, BITS), build_learner(replace(config, gamma=1.0), BITS)
    learner.step(cut(batch, 0, 100))
    learner.adjust(replace(config, gamma=1.0))
    for one, start in ((learner, 100), (other, 0)):
        one.step(cut(batch, start, 400))
    assert learner.weights().beta.tolist() == other.weights().beta.tolist()


@pytest.mark.parametrize("far_values", ["auto", "off"])
def test_a_class_that_comes_after_a_change_has_the_bits_that_it_has_after_a_restart(far_values: Any) -> None:
    config, batch = TaylorSketchConfig(k=20, block=25, gamma=1.0, far_values=far_values), cut(drawn("0.05", classes=3), 0, 500)
    changed = replace(config, gamma=8.0)
    live, restarted = (build_learner(one, BITS, classes=(2, 4)) for one in (config, changed))
    live.step(replace(cut(batch, 0, 300), label=(batch.label[:300] == 1.0).astype(np.float64)))
    live.adjust(changed)
    restarted.thaw(live.freeze())
    for one in (live, restarted):
        one.grow(3)
        one.step(cut(batch, 300, 500))
    assert same(live.freeze(), restarted.freeze())


def test_a_solution_that_is_adopted_is_not_begun_anew() -> None:
    batch = drawn("0.05", 600)
    learner, plain = (build_learner(replace(CONFIGS["ftrl"], far_values=how), BITS) for how in ("auto", "off"))
    plain.step(cut(batch, 0, 300))
    learner.thaw(plain.freeze())
    assert learner.weights().apart is None
    squares = learner.freeze()["squares"].sum()
    learner.step(cut(batch, 300, 600))
    assert learner.weights().apart is not None
    assert learner.freeze()["squares"].sum() > squares


@pytest.mark.parametrize(
    "damage",
    [{name: None} for name in ("limits", *names_of("limits"), *PARTS, "far_column")]
    + [{"limits": np.array(counts)} for counts in ([200, 128, 1, 0], [200, 256, 0, 0], [-1, 256, 1, 0], [200, 256, 1])]
    + [{"far_value": np.zeros(9)}],
)
def test_a_damaged_state_is_refused(damage: dict[str, Any]) -> None:
    learner, other = (build_learner(CONFIGS["ftrl"], BITS) for _ in range(2))
    learner.step(cut(drawn("0.05"), 0, 200))
    state = learner.freeze()
    other.thaw(dict(state))
    with pytest.raises(Corrupt):
        other.thaw({name: array for name, array in {**state, **damage}.items() if array is not None})
    assert same(other.freeze(), state)
    assert learner.memory()["checkpoint"] == sum(array.nbytes for array in state.values())


@pytest.mark.parametrize("kind", ["ftrl_proximal", "taylor_sketch", "particle_filter"])
def test_models_from_before_take_values_as_sent(kind: str) -> None:
    before, now = read_stored({"learner": {"kind": kind}}), read_config({"learner": {"kind": kind}})
    assert (before.learner.far_values, now.learner.far_values) == ("off", "auto")
    assert "far_values" not in stored_document(before)["learner"]
    assert read_stored(stored_document(now)) == now


def test_classes_from_before_take_values_as_sent() -> None:
    learner = {"kind": "truncated_gradient", "shapes": "auto", "far_values": "auto"}  # which had no effect
    before, now = (read({"labels": "classes", "learner": learner}) for read in (read_stored, read_config))
    assert (before.classes.limited, now.classes.limited) == (False, True)
    assert "classes" not in stored_document(before)
    assert stored_document(now)["classes"]["limited"]
    named = replace(before, classes=replace(before.classes, names=("a", "b")))
    assert "limited" not in stored_document(named)["classes"]
    for one in (before, now, named):
        assert read_stored(stored_document(one)) == one
    assert "classes" not in stored_document(read_config({}))
    assert read_stored({}).classes == read_config({}).classes


@pytest.mark.parametrize(
    ("document", "limited"),
    [
        ({"learner": {"kind": "ftrl_proximal"}}, True),
        ({"learner": {"kind": "ftrl_proximal", "far_values": "off"}}, False),
        ({"learner": {"kind": "ftrl_proximal"}, "encoder": {"normalise": "l2"}}, False),
        ({"learner": {"kind": "ftrl_proximal"}, "labels": "classes"}, True),
        ({"learner": {"kind": "ftrl_proximal"}, "labels": "classes", "classes": {"limited": False}}, False),
        ({"learner": {"kind": "ftrl_proximal"}, "labels": "classes", "encoder": {"normalise": "l2"}}, False),
        ({"learner": {"shapes": "off"}}, True),
        ({"learner": {"shapes": "off"}, "labels": "classes"}, True),
        ({"learner": {"mixed": False}}, False),
        ({}, False),  # shapes search themselves
    ],
)
def test_some_settings_exclude_it(document: dict[str, Any], limited: bool) -> None:
    learner, _ = build_parts(read_config(document), BITS)
    assert isinstance(learner, Limited) == limited
    learner.grow(2)
    learner.step(cut(drawn("0.05"), 0, 300))
    assert (learner.weights().apart is not None) == (limited or not document)
