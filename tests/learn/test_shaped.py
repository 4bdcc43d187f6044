"""Shapes of numeric columns beside a linear learner."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64, Arrays
from riata.base.errors import Corrupt
from riata.learn.limits import FIRST, LAST
from riata.learn.registry import build_learner
from riata.learn.shaped import PAIRED, CellGradient, Shaped, learn_cells
from riata.learn.shapes import (
    COLUMNS_MAX,
    INTERVALS,
    PAIRS_MAX,
    Shapes,
    find_columns,
    read_shapes,
    sorted_values,
)
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.maths.links import log_losses
from riata.native.library import core
from riata.wire.batch import Batch
from tests.learn.contract import Build, LearnerContract, builds, same
from tests.learn.streams import cut, to_batch
from tests.twins import shapes as twin
from tests.twins.mixed_step import Eager, learn_rows
from tests.twins.truncated_step import Event

BITS = 18
DEFAULT = TruncatedGradientConfig()
HASHES = [1 << 20, 5 << 24, 3 << 29, 7 << 29]


def rows_of(x: F64, label: F64, weight: F64 | None = None) -> Batch:
    """Rows of columns; zeros are absent."""
    events = [
        Event([(hash_, float(value)) for hash_, value in zip(HASHES, row, strict=False) if value != 0.0], float(y))
        for row, y in zip(x, label, strict=True)
    ]
    batch = to_batch(events)
    return batch if weight is None else replace(batch, weight=weight)


def drawn(n: int, margin: Any, seed: int = 1, columns: int = 3) -> Batch:
    """Normal columns of which a few values are absent, and labels with probabilities of a margin."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, columns))
    x[rng.random(x.shape) < 0.05] = 0.0
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-margin(x)))).astype(np.float64)
    return rows_of(x, label)


def loss(margin: F64, batch: Batch) -> float:
    losses: F64 = log_losses(margin, np.zeros(batch.n, np.bool_), batch.label, batch.weight)
    return float(losses.mean())


def learnt(config: TruncatedGradientConfig, batch: Batch) -> tuple[Any, float]:
    """A learner after the rows, and its progressive log loss."""
    learner: Any = build_learner(config, BITS)
    return learner, loss(learner.step(batch).margin, batch)


CONFIGS = {
    "default": DEFAULT,
    "one step": replace(DEFAULT, mixed=False),
    "strong": replace(DEFAULT, gravity=0.01, period=7),
}


class TestContract(LearnerContract):
    build = builds(CONFIGS, BITS)

    @pytest.fixture
    def batch(self) -> Batch:
        return drawn(1100, lambda x: 4.0 * np.abs(x[:, 0]) - 3.0 + 2.0 * x[:, 1] * x[:, 2], seed=4)

    def test_the_rows_have_shapes_and_a_pair(self, build: Build, batch: Batch) -> None:
        learner = build()
        learner.step(batch)
        shapes = learner.weights().shapes
        assert shapes is not None
        assert len(shapes.column) == 3
        assert len(shapes.pair) >= 1


def test_a_shape_that_is_no_straight_line_is_learnt() -> None:
    batch = drawn(6000, lambda x: 4.0 * np.abs(x[:, 0]) - 3.0 + x[:, 1])
    linear, shaped = (learnt(replace(DEFAULT, shapes=how), batch)[1] for how in ("off", "auto"))
    assert shaped < 0.75 * linear


def test_a_pair_is_found_and_learnt() -> None:
    batch = drawn(6000, lambda x: 3.0 * np.sign(x[:, 0] * x[:, 2]), columns=4)
    learner, shaped = learnt(DEFAULT, batch)
    shapes = learner.weights().shapes
    linear = learnt(replace(DEFAULT, shapes="off"), batch)[1]
    ends = sorted([HASHES[0], HASHES[2]])
    assert [[int(shapes.column[c]) for c in pair] for pair in shapes.pair] == [ends]
    assert shaped < 0.6 * linear


def test_where_a_straight_line_is_right_it_stays() -> None:
    batch = drawn(12_000, lambda x: x @ np.array([1.0, -0.7, 0.4]))
    learner, shaped = learnt(DEFAULT, batch)
    linear = learnt(replace(DEFAULT, shapes="off"), batch)[1]
    assert shaped <= 1.003 * linear
    assert learner.chosen()["shapes"] < 0.5
    assert len(learner.weights().shapes.pair) == 0


def test_indicators_and_words_get_no_shapes() -> None:
    rng = np.random.default_rng(2)
    events = [Event([(int(name) << 20, 1.0) for name in np.unique(rng.integers(1, 900, 30))], float(i % 2)) for i in range(2500)]
    batch = to_batch(events)
    learner, shaped = learnt(DEFAULT, batch)
    assert learner.weights().shapes is None
    assert "shapes" not in learner.chosen()
    assert shaped == learnt(replace(DEFAULT, shapes="off"), batch)[1]
    assert len(learner.freeze()["first_hash"]) == 0


def cell_events(shapes: Any, batch: Batch) -> list[Event]:
    """The rows as their cells."""
    rows = [
        dict(zip(batch.hash[low:high].tolist(), batch.value[low:high].tolist(), strict=True))
        for low, high in zip(batch.indptr[:-1], batch.indptr[1:], strict=True)
    ]
    return [
        Event([(cell << (32 - BITS), 1.0) for cell in twin.cells(shapes, row)], float(y), float(w))
        for row, y, w in zip(rows, batch.label, batch.weight, strict=True)
    ]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_cells_are_learnt_as_by_the_twin(weighted: bool) -> None:
    rng = np.random.default_rng(9)
    batch = drawn(700, lambda x: 4.0 * np.abs(x[:, 0]) - 3.0, seed=6)
    if weighted:
        batch = replace(batch, weight=rng.choice([0.5, 1.0, 20.0], batch.n))
    learner: Any = build_learner(replace(DEFAULT, learns_again=False), BITS)
    learner.step(cut(batch, 0, FIRST))
    rest = cut(batch, FIRST, 2 * FIRST)
    below: Any = build_learner(replace(DEFAULT, shapes="off"), BITS)
    below.step(cut(batch, 0, FIRST))
    known = below.step(rest).margin
    eager = Eager(DEFAULT, BITS, below=0.8)
    margins, _ = learn_rows(eager, cell_events(learner.weights().shapes, rest), known.tolist())
    assert learner.step(rest).margin == pytest.approx(margins, rel=1e-9, abs=1e-9)
    assert learner.chosen()["shapes"] == pytest.approx(1.0 - eager.below, rel=1e-9)


def test_a_new_pair_learns_the_rows_of_the_sample_as_the_twin() -> None:
    batch = drawn(2 * FIRST - 1, lambda x: 6.0 * np.sign(x[:, 0] * x[:, 2]), seed=3)
    config = replace(DEFAULT, second_order=False, far_values="off")
    built: list[Any] = [
        build_learner(one, BITS) for one in (config, replace(config, learns_again=False), replace(config, shapes="off"))
    ]
    learner, without, below = built
    first, rest = cut(batch, 0, FIRST), cut(batch, FIRST, batch.n)
    for one in built:
        one.step(first)
    shapes: Any = learner.weights().shapes
    assert (len(shapes.pair), len(without.weights().shapes.pair)) == (1, 0)
    eager = Eager(config, BITS, below=0.8)
    again = below.step(first, np.ones(first.n, np.bool_)).margin
    learn_rows(eager, cell_events(shapes, first), again.tolist())
    margins, _ = learn_rows(eager, cell_events(shapes, rest), below.step(rest).margin.tolist())
    margin = learner.step(rest).margin
    assert margin == pytest.approx(margins, rel=1e-9, abs=1e-9)
    assert learner.chosen()["shapes"] == pytest.approx(1.0 - eager.below, rel=1e-9)
    assert loss(margin, rest) < 0.9 * loss(without.step(rest).margin, rest)


def test_intervals_are_found_again_and_the_function_stays() -> None:
    batch = drawn(4 * FIRST, lambda x: 4.0 * np.abs(x[:, 0]) - 3.0)
    learner: Any = build_learner(DEFAULT, BITS)
    learner.step(cut(batch, 0, 2 * FIRST - 1))
    before = learner.weights()
    learner.step(cut(batch, 2 * FIRST - 1, 2 * FIRST))
    after = learner.weights()
    assert not np.array_equal(before.shapes.edge, after.shapes.edge)
    value = [[sum(twin.added(one.shapes, {HASHES[0]: x})) for x in np.linspace(-2.0, 2.0, 41)] for one in (before, after)]
    assert np.ptp(value[0]) > 0.5
    assert np.corrcoef(value[0], value[1])[0][1] > 0.9


def test_the_sample_is_dropped_at_the_end_and_intervals_stay() -> None:
    batch = drawn(4096, lambda x: 4.0 * np.abs(x[:, 0]) - 3.0)
    learner: Any = build_learner(DEFAULT, BITS)
    for _ in range(LAST // batch.n):
        learner.step(batch)
    state = learner.freeze()
    assert state["shaped"].tolist()[:2] == [LAST, 2 * LAST]
    assert len(state["first_label"]) == 0
    learner.step(batch)
    assert learner.freeze()["shape_edge"].tobytes() == state["shape_edge"].tobytes()
    assert learner.memory()["sample"] == 8  # of the empty list of rows


def test_a_solution_takes_the_place_of_the_shapes_too() -> None:
    batch = drawn(1000, lambda x: 4.0 * np.abs(x[:, 0]) - 3.0)
    linear: Any = build_learner(replace(DEFAULT, shapes="off", far_values="off"), BITS)
    linear.step(batch)
    learner, _ = learnt(DEFAULT, batch)
    learner.thaw(linear.freeze())
    assert learner.weights().shapes is None
    assert learner.weights().beta.tobytes() == linear.weights().beta.tobytes()
    learner.step(cut(batch, 0, FIRST))
    assert learner.weights().shapes is not None


@pytest.mark.parametrize(("again", "weight"), [(True, 0.25), (False, 1.0)])
def test_forgetting_reaches_rows_that_may_be_learnt_again(again: bool, weight: float) -> None:
    learner = build_learner(replace(DEFAULT, learns_again=again), BITS)
    learner.step(drawn(300, lambda x: x[:, 0]))
    learner.forget(0.25)
    assert set(learner.freeze()["first_weight"].tolist()) == {weight}


def test_forgetting_reaches_both_parts() -> None:
    batch = drawn(1000, lambda x: 4.0 * np.abs(x[:, 0]) - 3.0)
    learner, _ = learnt(DEFAULT, batch)
    before, state = learner.weights(), learner.freeze()
    learner.forget(0.1)
    after = learner.freeze()
    assert learner.weights().shapes.value == pytest.approx(before.shapes.value, rel=1e-12)
    assert after["shapes_squares"] == pytest.approx(0.1 * state["shapes_squares"])
    assert after["squares"] == pytest.approx(0.1 * state["squares"])


@pytest.mark.parametrize("how", [{"loss": "hinge"}, {"normalised": False}, {"shapes": "off"}])
def test_other_settings_have_none(how: dict[str, Any]) -> None:
    assert not isinstance(build_learner(replace(DEFAULT, **how), BITS), Shaped)
    assert isinstance(build_learner(DEFAULT, BITS), Shaped)
    assert not isinstance(build_learner(DEFAULT.of_class(), BITS), Shaped)


# Cells, and the numbers of a state.


def made_shapes(rng: np.random.Generator, columns: int, pairs: int) -> Shapes:
    hashes = np.sort(rng.choice(2**32, columns, replace=False)).astype(np.uint32)
    counts = rng.integers(1, INTERVALS, columns)
    edges = [np.unique(rng.normal(size=n)) for n in counts]
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pair = np.array([sorted(rng.choice(columns, 2, replace=False)) for _ in range(pairs)], np.int64).reshape(-1, 2)
    shapes = Shapes(hashes, np.concatenate(edges), start, pair, np.zeros(0))
    return shapes.with_values(rng.normal(size=shapes.cells), 0.3)


@pytest.mark.parametrize(("columns", "pairs"), [(1, 0), (5, 4), (40, 20), (COLUMNS_MAX, PAIRS_MAX)])
def test_cells_are_those_of_the_twin(columns: int, pairs: int) -> None:
    rng = np.random.default_rng(columns)
    shapes = made_shapes(rng, columns, pairs)
    others = rng.choice(2**32, 30, replace=False)
    events = []
    for _ in range(50):
        names = {*rng.choice(shapes.column, rng.integers(0, columns + 1), replace=False).tolist(), *others[:7].tolist()}
        values = rng.choice(shapes.edge, len(names)) if rng.random() < 0.3 else rng.normal(size=len(names))
        events.append(Event(list(zip(sorted(names), values.tolist(), strict=True)), 0.0))
    batch = to_batch(events)
    table = shapes.cells_of(batch)
    for i in range(batch.n):
        own = slice(int(batch.indptr[i]), int(batch.indptr[i + 1]))
        row = dict(zip(batch.hash[own].tolist(), batch.value[own].tolist(), strict=True))
        assert table[table[:, i] >= 0, i].tolist() == twin.cells(shapes, row)
        assert shapes.added(sorted(row.items())) == twin.added(shapes, row)
    assert table.max() < shapes.cells


def test_pair_scores_are_those_of_the_twin() -> None:
    rng = np.random.default_rng(3)
    column = rng.integers(0, 16, (6, 500)).astype(np.float64)
    column[5] = 3.0
    column -= column.mean(axis=1, keepdims=True)
    probability = rng.random(500)
    away, spread = (rng.random(500) < probability) - probability, probability * (1.0 - probability)
    score = np.zeros((6, 6))
    core.pair_scores(column, away, spread, 6, 500, score)
    for a in range(6):
        for b in range(a + 1, 6):
            assert score[a, b] == pytest.approx(twin.pair_score(column[a], column[b], away, spread), rel=1e-9, abs=1e-12)
    assert np.isfinite(score).all()


@pytest.mark.parametrize("beside", [1.0, 65535.0, 65536.0, 65537.0, -1.0, -65535.0, 0.5, 1e300, -1e300])
def test_values_are_sorted_by_hash_and_then_by_value(beside: float) -> None:
    x = np.random.default_rng(5).integers(0, 5, (300, 4)).astype(np.float64)
    x[7:250:9, 2] = beside
    sample = rows_of(x, np.zeros(300))
    order = np.lexsort((sample.value, sample.hash))
    hash_, value = sorted_values(sample)
    assert hash_.tolist() == sample.hash[order].tolist()
    assert value.tolist() == sample.value[order].tolist()


def test_columns_are_found_by_their_values() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 4))
    x[:, 1] = 1.0  # an indicator in every row
    x[:, 2] = np.where(rng.random(400) < 0.01, x[:, 2], 0.0)  # rare
    x[:, 3] = rng.integers(1, 4, 400)
    sample = rows_of(x, np.zeros(400))
    shapes = find_columns(sample, *sorted_values(sample))
    assert shapes is not None
    assert shapes.column.tolist() == sorted([HASHES[0], HASHES[3]])
    by_hash = {int(hash_): shapes.edges_of(c).tolist() for c, hash_ in enumerate(shapes.column)}
    assert by_hash[HASHES[3]] == [1.0, 2.0]
    assert len(by_hash[HASHES[0]]) == INTERVALS - 1


def test_shapes_survive_their_parts() -> None:
    shapes = made_shapes(np.random.default_rng(8), 9, 5)
    again = read_shapes(shapes.parts())
    assert same(again.parts(), shapes.parts())


DAMAGES: dict[str, Any] = {
    "columns with shapes": {"shape_column": np.array([3, 2, 9], np.uint32)},
    "not lists of numbers": {"shape_start": np.zeros(2, np.int64)},
    "do not follow": {"shape_start": np.array([0, 2, 1, 4], np.int64)},
    "not in order": {"shape_edge": np.array([1.0, 0.5, 0.0, 2.0])},
    "not of two columns": {"shape_pair": np.array([1, 1], np.int64)},
    "shape_value": {"shape_value": np.zeros(3)},
    "not finite": {"shape_edge": np.array([1.0, math.nan, 0.0, 2.0])},
}


@pytest.mark.parametrize("why", list(DAMAGES))
def test_damaged_parts_are_refused(why: str) -> None:
    column, start = np.array([2, 5, 9], np.uint32), np.array([0, 2, 3, 4], np.int64)
    good = Shapes(column, np.array([0.5, 1.0, 0.0, 2.0]), start, np.array([[0, 2]], np.int64), np.zeros(0)).parts()
    assert read_shapes(good).cells == 3 + 2 + 2 + 6
    damaged: Arrays = {**good, **DAMAGES[why]}
    with pytest.raises(Corrupt, match=why):
        read_shapes(damaged)


@pytest.mark.parametrize("missing", ["first_hash", "shape_edge", "shapes_member", "shapes_below"])
def test_a_state_without_a_part_is_refused_and_changes_nothing(missing: str) -> None:
    learner, _ = learnt(DEFAULT, drawn(PAIRED, lambda x: 4.0 * np.abs(x[:, 0]) - 3.0))
    state = learner.freeze()
    with pytest.raises(Corrupt):
        learner.thaw({name: array for name, array in state.items() if name != missing})
    assert same(learner.freeze(), state)


def test_moved_numbers_are_means() -> None:
    shapes = Shapes(np.array([9], np.uint32), np.arange(1.0, 5.0), np.array([0, 4]), np.zeros((0, 2), np.int64), np.zeros(0))
    own = CellGradient(replace(DEFAULT, centred=False), shapes.cells)
    rng = np.random.default_rng(1)
    batch = to_batch([Event([(9, float(x))], float(rng.random() < x / 5.0)) for x in rng.integers(1, 6, 60)])
    every = np.ones(1, np.bool_)
    learn_cells(shapes, [own], batch, np.zeros((batch.n, 1), np.bool_), np.zeros((batch.n, 1)), every)
    beta, intercept = own.numbers()
    own.move(np.array([1, 2, 2, -1, 3], np.int32), np.array([7, 7, 9, 9, -1], np.int32), 10)
    after = np.zeros(10)
    after[[7, 9]] = (beta[1] + beta[2]) / 2.0, beta[2] / 2.0
    assert beta[1] != 0.0 != beta[2]
    assert own.numbers()[0] == pytest.approx(after, rel=1e-12)
    assert own.numbers()[1] == intercept
    assert own.freeze()["seen"].tolist() == [7, 9]


# Values that stand for something else.


def spoilt(share: float) -> tuple[Batch, Batch]:
    """Rows of a column and three categories, of which a share has 999 in place of a number, or only the first; and clean rows."""
    rng = np.random.default_rng(1)
    n = 15_000
    x, kind = rng.normal(size=n), rng.integers(0, 3, n)
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-(1.5 * x + 1.0 - kind)))).astype(np.float64)
    x[:10_000][rng.random(10_000) < share] = 999.0
    x[0] = 999.0
    events = [Event([(1 << 20, float(a)), ((int(b) + 2) << 28, 1.0)], float(y)) for a, b, y in zip(x, kind, label, strict=True)]
    batch = to_batch(events)
    return cut(batch, 0, 10_000), cut(batch, 10_000, n)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05])
def test_placeholders_spoil_no_column(share: float) -> None:
    learnt_rows, asked = spoilt(share)
    found = {}
    for how in ("auto", "off"):
        learner: Any = build_learner(replace(DEFAULT, shapes=how, far_values=how), BITS)
        learner.step(learnt_rows)
        assert [one[:2] for one in learner.far_values()] == ([(1 << 20, 999.0)] if how == "auto" else [])
        found[how] = loss(learner.step(asked, np.ones(asked.n, np.bool_)).margin, asked)
    clean: Any
    clean, _ = learnt(DEFAULT, cut(learnt_rows, 1, 10_000) if share == 0.0 else spoilt(0.0)[0])
    best = loss(clean.step(asked, np.ones(asked.n, np.bool_)).margin, asked)
    assert found["auto"] <= 1.04 * best
    assert found["off"] > 1.2 * best


@pytest.mark.parametrize(
    ("draw", "far"),
    [
        (lambda rng, n: rng.normal(size=n), []),
        (lambda rng, n: np.exp(2.0 * rng.normal(size=n)), []),  # heavy tails are no placeholders
        (lambda rng, n: rng.standard_t(2.0, n), []),
        (lambda rng, n: rng.integers(1, 50, n).astype(float), []),
        (lambda rng, n: np.where(rng.random(n) < 0.2, -9999.0, rng.normal(size=n)), [-9999.0]),
        (lambda rng, n: np.where(np.arange(n) == 7, 1e6, rng.normal(50.0, 3.0, n)), [1e6]),
    ],
)
def test_values_that_are_far_from_all_others_are_named(draw: Any, far: list[float]) -> None:
    rng = np.random.default_rng(6)
    batch = rows_of(np.column_stack([draw(rng, 600), rng.normal(size=600)]), rng.integers(0, 2, 600).astype(np.float64))
    learner, _ = learnt(DEFAULT, batch)
    assert [one[:2] for one in learner.far_values()] == [(HASHES[0], value) for value in far]
    again: Any = build_learner(DEFAULT, BITS)
    again.thaw(learner.freeze())
    assert again.far_values() == learner.far_values()


# Margins that probabilities take.


@pytest.mark.parametrize("how", [{}, {"mixed": False}, {"shapes": "off"}, {"shapes": "off", "mixed": False}])
def test_probabilities_take_margins_within_the_bound(how: dict[str, Any]) -> None:
    batch = drawn(1500, lambda x: 100.0 * x[:, 0])
    skip = np.arange(batch.n) % 3 == 0
    learner: Any = build_learner(replace(DEFAULT, **how), BITS)
    stepped = learner.step(batch, skip)
    before = np.concatenate([[0], np.cumsum(~skip)[:-1]])
    bound = np.log(before + 2.0) + 1.0
    assert stepped.bound == pytest.approx(bound, rel=1e-15)
    assert stepped.answered.tolist() == np.clip(stepped.margin, -stepped.bound, stepped.bound).tolist()
    assert (np.abs(stepped.margin) > bound).any()
    assert learner.weights().bounds[1] == -learner.weights().bounds[0] == pytest.approx(math.log(1000 + 2) + 1.0, rel=1e-15)
    free: Any = build_learner(replace(DEFAULT, **how, bounded=False), BITS)
    without = free.step(batch, skip)
    assert without.bound is None
    assert without.margin.tobytes() == without.answered.tobytes() == stepped.margin.tobytes()
    assert free.weights().bounds == (-math.inf, math.inf)


def test_a_pair_that_hardly_a_row_has_is_none() -> None:
    rng = np.random.default_rng(12)
    x = rng.normal(size=(3000, 3))
    either = rng.random(3000) < 0.5
    x[either, 0] = x[~either, 1] = 0.0  # never both, but whether the one or the other is what the label depends on
    label = (rng.random(3000) < np.where(either == (x[:, 2] > 0.0), 0.9, 0.1)).astype(np.float64)
    learner, _ = learnt(DEFAULT, rows_of(x, label))
    shapes = learner.weights().shapes
    pairs = [{int(shapes.column[c]) for c in pair} for pair in shapes.pair]
    assert pairs
    assert {HASHES[0], HASHES[1]} not in pairs
