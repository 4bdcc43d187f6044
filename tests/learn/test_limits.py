"""Values outside of the limits of a column count as the limit; the default learner sets those far outside apart that repeat."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64, Arrays
from riata.base.errors import Corrupt
from riata.learn.apart import EVERY, PARTS, Apart, read_apart
from riata.learn.learner import ColumnRange
from riata.learn.limits import FAR_NEXT, FAR_TIMES, NEAR, REPEATS_MIN, SET_APART_MAX, VALUES_MIN, find_apart
from riata.learn.mixed_gradient import STRETCHED, MixedGradient
from riata.learn.registry import build_learner
from riata.learn.shapes import sorted_values
from riata.learn.truncated_config import Missing, TruncatedGradientConfig
from riata.maths.links import log_losses
from riata.predict.factory import make_model
from riata.predict.model import Origin
from riata.run.state.config import read_config, read_stored, stored_document
from riata.run.state.model_state import build_parts
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig
from tests.learn.contract import same
from tests.learn.streams import cut, to_batch
from tests.twins.apart import instead
from tests.twins.truncated_step import Event

BITS = 18
DEFAULT = TruncatedGradientConfig()
OFF = replace(DEFAULT, far_values="off")
HASHES = [1 << 20, 5 << 24, 3 << 29, 7 << 29]
TRUTH = np.array([1.5, -1.0, 0.7, 0.4])
TRUTHS = np.column_stack([TRUTH, -TRUTH, 1.5 * TRUTH[::-1]])  # of three classes


def batch_of(x: F64, label: F64) -> Batch:
    """Rows of columns; zeros are absent."""
    return to_batch(
        [
            Event([(hash_, value) for hash_, value in zip(HASHES, row, strict=False) if value != 0.0], y)
            for row, y in zip(x.tolist(), label.tolist(), strict=True)
        ]
    )


@lru_cache(maxsize=64)
def drawn(spoilt: str, n: int = 10_000, seed: int = 1, middle: float = 0.0, classes: int = 2) -> Batch:
    """Four normal columns that decide the label, one of two or three, of which some values are sent otherwise.

    spoilt : "clean"; "first", 999 in the first row; a share in which the first column is 999, or "all" and the same of all
             columns; "outliers", 0.05 % of all values times 10^4
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(TRUTH)))
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-x @ TRUTH))).astype(np.float64)
    chance = rng.random(x.shape)
    if classes > 2:
        label = (x @ TRUTHS + rng.gumbel(size=(n, classes))).argmax(axis=1).astype(np.float64)
    x += middle
    if spoilt == "first":
        x[0, 0] = 999.0
    elif spoilt == "outliers":
        x[chance < 0.0005] *= 1e4
    elif spoilt.startswith("all"):
        x[chance < float(spoilt.removeprefix("all"))] = 999.0
    elif spoilt != "clean":
        x[chance[:, 0] < float(spoilt), 0] = 999.0
    return batch_of(x, label)


def learnt(batch: Batch, config: TruncatedGradientConfig = DEFAULT) -> tuple[Any, float]:
    """A learner after the rows, and its progressive log loss."""
    learner: Any = build_learner(config, BITS)
    margin = learner.step(batch).answered
    return learner, float(log_losses(margin, np.zeros(batch.n, np.bool_), batch.label, batch.weight).mean())


# What is served is what was measured, in every state.


@pytest.mark.parametrize(("labels", "classes"), [("0/1", None), ("classes", (3, 3))])
@pytest.mark.parametrize("config", [DEFAULT, replace(DEFAULT, shapes="off"), replace(DEFAULT, missing=(Missing("*", (-7.0,)),))])
def test_the_served_margin_is_that_before_the_row_was_learnt(config: Any, labels: Any, classes: tuple[int, int] | None) -> None:
    batch = cut(drawn("0.05", middle=3.0, classes=2 if classes is None else 3), 0, 300)
    origin, learner = Origin("m", bytes(16), EncoderConfig(bits=BITS), labels), build_learner(config, BITS, classes=classes)
    for i in range(batch.n):
        row = cut(batch, i, i + 1)
        served = make_model(origin, learner.weights(), 1, i).score(row).margin[0] if i else 0.0
        assert learner.step(row).margin.max() == served


def test_a_state_without_what_was_found_goes_on_and_finds_it() -> None:
    batch = drawn("0.05", 600)
    learner, _ = learnt(cut(batch, 0, 200), OFF)
    again: Any = build_learner(DEFAULT, BITS)
    again.thaw(learner.freeze())
    assert again.weights().apart is None
    again.step(cut(batch, 200, 600))
    assert again.weights().apart is not None


@pytest.mark.parametrize("damage", [{name: None} for name in PARTS] + [{"apart_column": np.array([3, 3], np.uint32)}])
def test_a_damaged_state_is_refused(damage: dict[str, Any]) -> None:
    learner, _ = learnt(cut(drawn("0.05"), 0, 200))
    state = learner.freeze()
    assert {*PARTS} <= state.keys()
    build_learner(DEFAULT, BITS).thaw(dict(state))
    damaged = {name: array for name, array in {**state, **damage}.items() if array is not None}
    with pytest.raises(Corrupt):
        build_learner(DEFAULT, BITS).thaw(damaged)
    assert learner.memory()["checkpoint"] == sum(array.nbytes for array in state.values())


# The loss that they cost.


@pytest.mark.parametrize("middle", [0.0, 40.0])
@pytest.mark.parametrize("spoilt", ["first", "0.01", "0.05", "outliers"])
def test_far_values_cost_little(spoilt: str, middle: float) -> None:
    (_, clean), (_, found) = learnt(drawn("clean", middle=middle)), learnt(drawn(spoilt, middle=middle))
    assert found <= (1.01 if spoilt == "outliers" else 1.04) * clean
    assert learnt(drawn(spoilt, middle=middle), OFF)[1] > found


def test_columns_without_far_values_have_limits_only() -> None:
    rng = np.random.default_rng(4)
    tail = np.exp(2.0 * rng.normal(size=(3000, 4)))
    label = (rng.random(3000) < 0.5).astype(np.float64)
    for batch in (drawn("clean", 3000), batch_of(tail, label)):
        learner, _ = learnt(batch)
        assert learner.weights().apart.value.tolist() == []
        assert learner.weights().apart.column.tolist() == sorted(HASHES)
    (_, limited), (_, sent) = learnt(drawn("clean", 3000)), learnt(drawn("clean", 3000), OFF)
    assert limited == pytest.approx(sent, rel=1e-3)


def test_a_heavy_tail_does_not_spoil_the_line() -> None:
    rng = np.random.default_rng(4)
    x = np.exp(1.5 * rng.normal(size=(5000, 4)))
    label = (rng.random(5000) < 1.0 / (1.0 + np.exp(-(np.log(x) @ TRUTH)))).astype(np.float64)
    batch = batch_of(x, label)
    assert learnt(batch)[1] < 0.98 * learnt(batch, OFF)[1]


def test_a_stretched_scale_is_taken_again() -> None:
    batch = drawn("first", 128)
    steps = replace(DEFAULT, second_order=False, learns_again=False)
    learner: Any = build_learner(replace(steps, shapes="off", far_values="off"), BITS)
    learner.step(batch)
    stretched = learner.freeze()
    assert stretched["scale"].max() > 900.0
    with_shapes, _ = learnt(batch, steps)
    state = with_shapes.freeze()
    assert state["scale"].max() < 5.0
    assert learner.weights().beta.tolist() == with_shapes.weights().beta.tolist()
    large = int(np.argmax(stretched["scale"]))
    assert (state["squares"].reshape(3, -1)[:, large] < stretched["squares"].reshape(3, -1)[:, large]).all()
    others = np.arange(len(state["scale"])) != large
    assert state["scale"][others].tolist() == stretched["scale"][others].tolist()


def test_a_scale_that_fits_stays() -> None:
    learner = MixedGradient(replace(DEFAULT, shapes="off"), BITS)
    learner.step(drawn("clean", 500))
    before = learner.freeze()

    def within(size: float) -> ColumnRange:
        return ColumnRange(1.0, 0.0, size**2 / 9.0, -size, size)

    fits = {hash_: within(10.0) for hash_ in HASHES}
    learner.mend({**fits, 1 << 31: within(1.0), HASHES[0]: within(0.0)})
    assert same(learner.freeze(), before)
    learner.mend({HASHES[0]: within(before["scale"].max() / STRETCHED / 2.0)})
    assert not same(learner.freeze(), before)


# What is far.


def found_in(x: F64, known: Apart | None = None, rows: int = 0) -> Any:
    sample = batch_of(x[:, np.newaxis], np.zeros(len(x)))
    return find_apart(*sorted_values(sample), rows or sample.n, np.array(HASHES[:1], np.uint32), known)


def normal(n: int) -> F64:
    return np.random.default_rng(8).normal(50.0, 3.0, n)


def test_values_that_repeat_are_set_apart_and_others_have_limits() -> None:
    x = normal(1000)
    x[[3, 500]] = 9999.0
    low, middle, high = np.sort(x)[[250, 500, 750]].tolist()
    apart, far, stretched = found_in(x)
    assert (apart.value.tolist(), far, stretched) == ([], [(HASHES[0], 9999.0)], HASHES[:1])
    assert apart.limit[:, 0].tolist() == [middle - NEAR * (high - low), middle + NEAR * (high - low)]
    x[7] = 9999.0
    apart, far, stretched = found_in(x)
    assert (apart.feature.tolist(), apart.value.tolist(), far) == (HASHES[:1], [9999.0], [])
    assert apart.used[0] == pytest.approx(50.0, abs=0.5)
    assert np.count_nonzero(x == 9999.0) == REPEATS_MIN
    assert found_in(x, rows=4000).apart.value.tolist() == []  # in fewer than one row of a thousand
    assert found_in(x, apart).stretched == []


@pytest.mark.parametrize(
    "x",
    [
        normal(1000),
        np.exp(2.0 * normal(1000) / 3.0),  # a heavy tail
        np.append(normal(999), 50.0 + 0.9 * FAR_TIMES * 4.0),
    ],
)
def test_nothing_is_far(x: F64) -> None:
    apart, far, stretched = found_in(x)
    low, high = apart.limit[:, 0]
    assert (apart.value.tolist(), far) == ([], [])
    assert stretched == ([] if low <= x.min() < x.max() <= high else HASHES[:1])
    assert found_in(np.append(normal(999), 50.0 + FAR_NEXT * FAR_TIMES * 4.0)).far


@pytest.mark.parametrize(
    "x",
    [
        np.append(normal(VALUES_MIN - 2), 9999.0),
        np.append(np.full(999, 5.0), 9999.0),  # there is no scale to be far from
        normal(1000) + 1e5 * (np.arange(1000) % 9 == 0),  # so many are a part of the column
    ],
)
def test_a_column_has_no_limits(x: F64) -> None:
    assert found_in(x) == (None, [], [])
    assert found_in(normal(1000)).apart is not None


def test_what_is_set_apart_remains_and_limits_follow() -> None:
    x = normal(1000)
    x[:5] = 9999.0
    first = found_in(x).apart
    again = found_in(normal(1000) - 20.0, first).apart
    assert again.value.tolist() == [9999.0]
    assert again.used[0] == pytest.approx(30.0, abs=0.5)
    assert again.limit[1, 0] < first.limit[1, 0]
    assert found_in(np.ones(3), first).apart.limit.tolist() == first.limit.tolist()


def test_so_many_values_are_set_apart_at_most() -> None:
    x = normal(20_000)
    x[: 3 * (SET_APART_MAX + 5)] = np.repeat(1e6 + np.arange(SET_APART_MAX + 5), 3)
    apart, far, _ = found_in(x, rows=1000)
    assert len(apart.value) == SET_APART_MAX
    assert len(far) == 5


# Rows as they are learnt.

TABLE = Apart(
    np.array([EVERY, HASHES[1], HASHES[0], HASHES[0], EVERY]),
    np.array([-5.0, 999.0, 999.0, 998.0, -6.0]),
    np.array([0.0, 2.5, 1.5, 0.0, 0.0]),
    np.array([HASHES[0], HASHES[2]], np.uint32),
    np.array([[-100.0, -10.0], [200.0, 20.0]]),
)
LIMITED = Apart(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), TABLE.column, TABLE.limit)
UP_TO_ZERO = replace(LIMITED, limit=np.array([[-100.0, -10.0], [0.0, 20.0]]))


@pytest.mark.parametrize("table", [TABLE, LIMITED, UP_TO_ZERO])
def test_rows_are_those_of_the_twin_and_an_explanation_has_the_same(table: Apart) -> None:
    rng = np.random.default_rng(3)
    values = [999.0, 998.0, -5.0, -6.0, -100.0, -101.0, 200.0, 201.0, -10.0, -10.5, 20.0, 20.5, 1.0, 0.25]
    rows = [
        {hash_: float(rng.choice(values)) for hash_ in sorted({*HASHES, 9, 2**32 - 1}) if rng.random() < 0.7} for _ in range(500)
    ]
    batch = to_batch([Event(sorted(row.items()), 0.0) for row in rows])
    made = table.rows(batch)
    for i, row in enumerate(rows):
        own = slice(int(made.indptr[i]), int(made.indptr[i + 1]))
        expected = instead(table, row)
        assert list(zip(made.hash[own].tolist(), made.value[own].tolist(), strict=True)) == list(expected.items())
        parts = table.row([(hash_, x, [str(hash_)]) for hash_, x in row.items()])
        assert [(part.hash, part.value) for part in parts] == list(expected.items())
        assert all(part.sent is None or part.sent != part.value for part in parts)
    assert any(instead(table, row) == row for row in rows)
    again = read_apart(table.parts())
    assert same(again.parts(), table.parts())
    assert again.rows(batch).value.tobytes() == made.value.tobytes()


@pytest.mark.parametrize(
    "damage",
    [
        {"apart_used": np.array([1.0, 2.5, 1.5, 0.0, 0.0])},  # all features cannot count as one number
        {"apart_used": np.zeros(4)},
        {"apart_column": np.array([HASHES[2], HASHES[0]], np.uint32)},
        {"apart_column": np.array([HASHES[0], HASHES[2]], np.int64)},
        {"apart_limit": np.zeros(3)},
        {"apart_limit": np.array([0.0, 1.0, 1.0, 0.5])},
        {"apart_limit": np.full(4, np.nan)},
    ],
)
def test_damaged_parts_are_refused(damage: Arrays) -> None:
    read_apart(TABLE.parts())
    with pytest.raises(Corrupt):
        read_apart({**TABLE.parts(), **damage})
    for name in PARTS[2:]:
        with pytest.raises(Corrupt):
            read_apart({key: array for key, array in TABLE.parts().items() if key != name})


# Which models search.


def test_models_from_before_do_not_search() -> None:
    before = read_stored({"learner": {"kind": "truncated_gradient", "shapes": "auto"}})
    assert before.learner.far_values == "off"
    assert "far_values" not in stored_document(before)["learner"]
    assert read_config({}).learner.far_values == "auto"
    assert read_stored(stored_document(read_config({}))) == read_config({})


@pytest.mark.parametrize(
    ("document", "searches"),
    [
        ({}, True),
        ({"learner": {"far_values": "off"}}, False),
        ({"learner": {"mixed": False}}, False),
        ({"encoder": {"normalise": "l2"}}, False),
        ({"labels": "classes"}, True),
        ({"labels": "classes", "classes": {"limited": False}}, False),
    ],
)
def test_some_settings_exclude_it(document: dict[str, Any], searches: bool) -> None:
    learner, _ = build_parts(read_config(document), BITS)
    learner.grow(2)
    learner.step(cut(drawn("0.05"), 0, 600))
    assert learner.weights().shaped_columns == len(TRUTH)
    found = [one.value for one in learner.far_values() if one.set_apart]
    assert found == ([999.0] if searches else [])
