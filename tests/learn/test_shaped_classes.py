"""Shapes of numeric columns with several classes: intervals and pairs in common, one share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.learn.limits import FIRST
from riata.learn.registry import build_learner
from riata.learn.shaped import Shaped
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.maths.links import LINKS, class_probabilities
from riata.predict.factory import make_model, read_model
from riata.predict.model import Origin
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig
from tests.learn.contract import same
from tests.learn.streams import cut
from tests.learn.test_shaped import HASHES, rows_of
from tests.twins import shapes as twin
from tests.twins.mixed_step import Eager, Member, learn_rows
from tests.twins.truncated_step import Event

BITS = 18
DEFAULT = TruncatedGradientConfig()
SECOND = replace(DEFAULT, classes_second_order=True)
MOST = 6


def several(classes: int, config: TruncatedGradientConfig = DEFAULT) -> Any:
    """A learner of so many classes."""
    return build_learner(config, BITS, classes=(classes, MOST))


def rings(n: int, seed: int = 3) -> Batch:
    """Rows of three classes: near zero in the first column, far away with two columns of one sign, and the others."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    label = np.where(np.abs(x[:, 0]) < 0.5, 0, np.where(x[:, 1] * x[:, 2] > 0.0, 1, 2))
    return rows_of(x, np.where(rng.random(n) < 0.1, rng.integers(0, 3, n), label).astype(np.float64))


def loss(margin: F64, batch: Batch) -> float:
    probability, _ = class_probabilities(margin, LINKS["logistic"].code)
    return float(-np.log(probability[np.arange(batch.n), batch.label.astype(np.int64)]).mean())


def test_what_is_no_straight_line_is_learnt_and_a_pair_is_found() -> None:
    batch = rings(4000)
    learner, linear = several(3), several(3, replace(DEFAULT, classes_shaped=False))
    shaped, without = loss(learner.step(batch).margin, batch), loss(linear.step(batch).margin, batch)
    assert isinstance(learner, Shaped)
    assert not isinstance(linear, Shaped)
    assert shaped < 0.75 * without
    heads: Any = learner.weights().heads
    assert all(np.array_equal(head.shapes.edge, heads[0].shapes.edge) for head in heads)
    assert [[int(heads[0].shapes.column[c]) for c in pair] for pair in heads[0].shapes.pair] == [[HASHES[1], HASHES[2]]]
    assert learner.chosen()["shapes"] > 0.9


def test_second_order_tells_apart_columns_that_say_nearly_the_same() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1000, 1)) + 0.1 * rng.normal(size=(1000, 3))
    batch = rows_of(x, (30.0 * (x - x[:, [1, 2, 0]]) + rng.gumbel(size=x.shape)).argmax(axis=1).astype(np.float64))
    learner, without = several(3, SECOND), several(3)
    assert loss(learner.step(batch).margin, batch) < 0.9 * loss(without.step(batch).margin, batch)
    assert len(learner.freeze()["2.second_weight"]) == 4
    assert "2.second_weight" not in without.freeze()


@pytest.mark.parametrize("settings", [DEFAULT, SECOND])
def test_the_state_does_not_depend_on_how_rows_are_divided_nor_on_freezing(settings: TruncatedGradientConfig) -> None:
    batch, whole, parts = rings(1100), several(3, settings), several(3, settings)
    margin = whole.step(batch).margin
    found = []
    for start, stop in ((0, 1), (1, 100), (100, 127), (127, 129), (129, 600), (600, 1100)):
        found.append(parts.step(cut(batch, start, stop)).margin)
        state = parts.freeze()
        parts = several(3, settings)
        parts.thaw(state)
        assert same(parts.freeze(), state)
    assert np.concatenate(found).tobytes() == margin.tobytes()
    assert same(parts.freeze(), whole.freeze())
    assert parts.memory()["checkpoint"] == sum(array.nbytes for array in parts.freeze().values())


@pytest.mark.parametrize("settings", [DEFAULT, SECOND])
@pytest.mark.parametrize("at", [60, 700])
def test_a_late_class_has_the_bits_of_one_that_was_named_from_the_start(at: int, settings: TruncatedGradientConfig) -> None:
    batch = rings(1200)
    late = replace(batch, label=np.where((batch.label == 2.0) & (np.arange(batch.n) < at), 0.0, batch.label))
    first, other = several(MOST, settings), several(2, settings)
    known = first.step(late)
    before = other.step(cut(late, 0, at))
    other.grow(MOST)
    after = other.step(cut(late, at, late.n))
    assert before.margin.tobytes() == known.margin[:at, :2].tobytes()
    assert after.margin.tobytes() == known.margin[at:].tobytes()
    assert same(first.freeze(), other.freeze())
    assert first.freeze()["shaped_classes"].tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("settings", [DEFAULT, SECOND])
def test_what_is_served_before_a_row_is_its_progressive_margin(settings: TruncatedGradientConfig) -> None:
    batch = rings(900)
    learner = several(3, settings)
    learner.step(cut(batch, 0, 700))
    asked = cut(batch, 700, 701)
    model = make_model(Origin("m", b"l", EncoderConfig(), "classes"), learner.weights(), 1, 700)
    served = model.score(asked)
    margin = learner.step(asked).margin[0]
    assert served.margin[0] == margin.max()


def shares_of(heads: list[Eager]) -> list[float]:
    return [*(one.share for one in heads[0].members), heads[0].below]


def given(one: Member, event: Event, known: float) -> float:
    """The probability of the class of a head under one member."""
    inner = one.intercept
    for name, value in event.features:
        inner += one.beta.get(name >> (32 - BITS), 0.0) * value
    return 1.0 / (1.0 + math.exp(-(known + one.gain * inner + one.offset)))


def test_the_one_share_is_that_of_the_normalised_probabilities_of_classes_with_a_row() -> None:
    batch = rings(2 * FIRST - 1)
    learner = several(4)  # the last has no row
    learner.step(cut(batch, 0, FIRST))
    shapes = learner.weights().cells
    below = several(4, replace(DEFAULT, shapes="off", far_values="off"))
    below.step(cut(batch, 0, FIRST))
    rest = cut(batch, FIRST, batch.n)
    known = below.step(rest).margin
    heads = [Eager(replace(DEFAULT, centred=False), BITS, below=0.8) for _ in range(4)]
    margins = []
    for i in range(rest.n):
        own = slice(int(rest.indptr[i]), int(rest.indptr[i + 1]))
        row = dict(zip(rest.hash[own].tolist(), rest.value[own].tolist(), strict=True))
        features, y = [(cell << (32 - BITS), 1.0) for cell in twin.cells(shapes, row)], int(rest.label[i])
        events = [Event(features, float(y == k)) for k in range(4)]
        chance = [
            [*(given(one, event, base) for one in eager.members), 1.0 / (1.0 + math.exp(-base))]
            for eager, event, base in zip(heads, events, known[i].tolist(), strict=True)
        ]
        before = shares_of(heads)
        margins.append(
            [learn_rows(eager, [event], [base])[0][0] for eager, event, base in zip(heads, events, known[i], strict=True)]
        )
        likely = [share * chance[y][m] / sum(chance[k][m] for k in range(3)) for m, share in enumerate(before)]
        after = [(1.0 - 1e-4) * one / sum(likely) + 1e-4 / 4 for one in likely]
        for eager in heads:
            eager.members = [replace(one, share=share) for one, share in zip(eager.members, after, strict=False)]
            eager.below = after[3]
    assert learner.step(rest).margin == pytest.approx(np.array(margins), rel=1e-9, abs=1e-9)
    assert learner.chosen()["shapes"] == pytest.approx(1.0 - heads[0].below, rel=1e-9)


def test_rows_of_no_class_are_refused_and_change_nothing() -> None:
    batch = rings(600)
    learner = several(MOST)
    learner.step(batch)
    state = learner.freeze()
    strange = replace(cut(batch, 0, 3), label=np.array([6.0, 9.0, 1e9]))
    assert learner.step(strange).refused.all()
    assert same(learner.freeze(), state)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("shaped_classes", lambda array: array[:-1]),
        ("0.shapes_below", lambda array: array * 0.5),
        ("rest.shapes_member", lambda array: np.concatenate([array[:3][::-1], array[3:]])),
        ("1.shapes_slot", lambda array: array + np.uint32(60_000)),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(name: str, change: Any) -> None:
    learner = several(3)
    learner.step(rings(600))
    state = learner.freeze()
    for damaged in ({**state, name: change(state[name])}, {key: array for key, array in state.items() if key != name}):
        with pytest.raises(Corrupt):
            learner.thaw(damaged)
        assert same(learner.freeze(), state)


def test_a_state_without_shapes_begins_to_look_for_them() -> None:
    linear, learner = several(3, replace(DEFAULT, shapes="off", far_values="off")), several(3)
    linear.step(rings(600))
    learner.thaw(linear.freeze())
    assert learner.weights().cells is None
    learner.step(rings(FIRST))
    assert learner.weights().cells is not None


def test_an_edition_has_the_shapes_of_each_class() -> None:
    batch, learner = rings(700), several(3)
    learner.step(batch)
    origin = Origin("m", b"l", EncoderConfig(), "classes")
    model = make_model(origin, learner.weights(), 1, 700)
    arrays, _ = model.parts()
    again = read_model(origin, (1, 700), "logistic", BITS, arrays, std_errors=False)
    assert again.score(batch).margin.tobytes() == model.score(batch).margin.tobytes()
    assert model.memory()["shapes"] == sum(head.shapes.nbytes for head in learner.weights().heads)
    for damaged in (
        {**arrays, "class_shape_value": arrays["class_shape_value"][:-1]},
        {name: array for name, array in arrays.items() if name != "shape_edge"},
    ):
        with pytest.raises(Corrupt):
            read_model(origin, (1, 700), "logistic", BITS, damaged, std_errors=False)


@pytest.mark.parametrize("shapes", ["auto", "off"])
def test_the_first_rows_do_not_exclude_a_class(shapes: Any) -> None:
    batch = rings(300)
    growing = 4.0 ** np.minimum(np.arange(batch.n), 8)  # values that are larger than all before
    batch = replace(batch, value=batch.value * np.repeat(growing, np.diff(batch.indptr)))
    learner = several(3, replace(DEFAULT, shapes=shapes))
    stepped = learner.step(batch)
    assert stepped.bound == pytest.approx(np.log(np.arange(batch.n) + 2.0) + 1.0, rel=1e-15)
    assert np.abs(stepped.margin[:9]).max() > 1.5 * stepped.bound[8]
    assert loss(stepped.answered[:9], cut(batch, 0, 9)) < 0.8 * loss(stepped.margin[:9], cut(batch, 0, 9))
    assert (stepped.answered.argmax(axis=1) == stepped.margin.argmax(axis=1)).all()
    bound = math.log(batch.n + 2.0) + 1.0
    assert learner.weights().bounds == pytest.approx((-bound, bound), rel=1e-15)


@pytest.mark.parametrize("without", [replace(DEFAULT, bounded=False), replace(DEFAULT, classes_shaped=False)])
def test_margins_of_classes_without_bounds(without: TruncatedGradientConfig) -> None:
    learner = several(3, without)
    assert learner.step(rings(50)).bound is None
    assert learner.weights().bounds == (-math.inf, math.inf)
