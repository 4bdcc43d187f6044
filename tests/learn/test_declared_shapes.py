"""Columns and pairs that the setting `shapes` names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Conflict
from riata.learn.feature_names import hashes_of
from riata.learn.limits import FIRST
from riata.learn.registry import build_learner
from riata.learn.truncated_config import DeclaredShapes, TruncatedGradientConfig
from riata.run.state.config import read_config, read_stored, stored_document
from riata.run.state.config_changes import check_change
from riata.wire.batch import Batch
from tests.learn.contract import LearnerContract, builds, same
from tests.learn.streams import cut, to_batch
from tests.learn.test_shaped import BITS, loss
from tests.twins.truncated_step import Event

DEFAULT = TruncatedGradientConfig()
NAMES = ["age", "fare", "size", "job=nurse"]
AGE, FARE, SIZE, NURSE = (hashes_of(name, 0)[-1] for name in NAMES)
PAIR = DeclaredShapes(("age", "job=nurse"), (("age", "job=nurse"),))


def drawn(n: int, seed: int = 1) -> Batch:
    """Three numbers and an indicator: age matters for nurses, and fare where it is far from zero."""
    rng = np.random.default_rng(seed)
    events = []
    for age, fare, size, nurse in zip(*rng.normal(size=(3, n)).tolist(), (rng.random(n) < 0.4).tolist(), strict=True):
        margin = 3.0 * np.sign(age) * nurse + 3.0 * (abs(fare) - 0.8)
        named = [(AGE, age), (FARE, fare), (SIZE, size)] + ([(NURSE, 1.0)] if nurse else [])
        events.append(Event(sorted(named), float(rng.random() < 1.0 / (1.0 + np.exp(-margin)))))
    return to_batch(events)


def learnt(shapes: Any, batch: Batch) -> tuple[Any, float]:
    """A learner after the rows, and its progressive log loss."""
    learner: Any = build_learner(replace(DEFAULT, shapes=shapes), BITS)
    return learner, loss(learner.step(batch).margin, batch)


def found(learner: Any) -> tuple[set[int], list[set[int]]]:
    """Columns with intervals, and pairs."""
    shapes = learner.weights().shapes
    columns = {int(hash_) for c, hash_ in enumerate(shapes.column) if len(shapes.edges_of(c))}
    return columns, [{int(shapes.column[c]) for c in pair} for pair in shapes.pair]


class TestContract(LearnerContract):
    build = builds({"pair": replace(DEFAULT, shapes=PAIR)}, BITS)

    @pytest.fixture
    def batch(self) -> Batch:
        return drawn(1100)


@pytest.mark.parametrize(
    ("shapes", "columns", "pairs"),
    [
        (DeclaredShapes(("age",)), {AGE}, []),
        (DeclaredShapes(("age", "fare"), ()), {AGE, FARE}, []),
        (DeclaredShapes(("age", "size"), (("age", "size"),)), {AGE, SIZE}, [{AGE, SIZE}]),
        (DeclaredShapes(None, (("age", "job=nurse"),)), {AGE, FARE, SIZE}, [{AGE, NURSE}]),
        (PAIR, {AGE}, [{AGE, NURSE}]),
        (DeclaredShapes(("age", "none")), {AGE}, []),
    ],
)
def test_exactly_what_is_named_has_shapes(shapes: DeclaredShapes, columns: set[int], pairs: list[set[int]]) -> None:
    learner, _ = learnt(shapes, drawn(FIRST))
    assert found(learner) == (columns, pairs)
    learner.step(drawn(2 * FIRST, seed=2))
    assert found(learner) == (columns, pairs)


def test_a_pair_with_an_indicator_is_learnt() -> None:
    batch = drawn(6000)
    auto, one, both = (learnt(how, batch)[1] for how in ("auto", DeclaredShapes(None, ()), DeclaredShapes(None, PAIR.pairs)))
    assert auto == one  # only numbers are paired by themselves
    assert both < 0.85 * one


def test_columns_are_named_where_auto_finds_no_table() -> None:
    rng = np.random.default_rng(2)
    words = [[(int(word) << 18, 1.0) for word in np.unique(rng.integers(1, 900, 30))] for _ in range(900)]
    x = rng.normal(size=900)
    late = np.arange(900) >= 600  # after the row at which auto gives up
    events = [
        Event(sorted([*row, *([(AGE, float(value))] if has else [])]), float(abs(value) > 0.7))
        for row, value, has in zip(words, x, late, strict=True)
    ]
    batch = to_batch([*events, *events[600:]])
    auto, named = (learnt(how, batch)[0] for how in ("auto", DeclaredShapes(("age",))))
    assert auto.weights().shapes is None
    assert found(named) == ({AGE}, [])


def test_a_state_goes_on_with_the_same_bits() -> None:
    batch = drawn(1100)
    whole, _ = learnt(PAIR, batch)
    first, _ = learnt(PAIR, cut(batch, 0, 300))
    again: Any = build_learner(replace(DEFAULT, shapes=PAIR), BITS)
    again.thaw(first.freeze())
    again.step(cut(batch, 300, batch.n))
    assert same(again.freeze(), whole.freeze())


@pytest.mark.parametrize(
    ("shapes", "written"),
    [
        ({"columns": ["fare", "age"]}, {"columns": ["age", "fare"], "pairs": "auto"}),
        ({"pairs": [["fare", "age"], ["age", "fare"]]}, {"columns": "auto", "pairs": [["age", "fare"]]}),
        ({"columns": ["age"], "pairs": []}, {"columns": ["age"], "pairs": []}),
        ({"columns": "auto"}, {"columns": "auto", "pairs": "auto"}),
        ("off", "off"),
    ],
)
def test_forms_that_are_read(shapes: Any, written: Any) -> None:
    config = read_config({"learner": {"shapes": shapes}})
    stored = stored_document(config)
    assert stored["learner"].get("shapes", "off") == written
    assert read_stored(stored) == config


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ("of", 'expected "auto", "off", or an object such as'),
        (["age"], 'expected "auto", "off", or an object such as'),
        ({}, 'expected "auto", "off", or an object such as'),
        ({"column": ["age"]}, r"shapes\.column: unknown key; did you mean 'columns'"),
        ({"columns": "age"}, r'shapes\.columns: expected "auto" or a list of names'),
        ({"columns": [1]}, r'shapes\.columns: expected "auto" or a list of names'),
        ({"columns": []}, r'shapes\.columns: name a column, or say "off"'),
        ({"columns": [f"c{at}" for at in range(257)]}, r"shapes\.columns: at most 256 names"),
        ({"columns": ["é" * 600]}, r"shapes\.columns: at most 256 names of at most"),
        ({"pairs": "age"}, r'shapes\.pairs: expected "auto" or a list of pairs'),
        ({"pairs": [["age"]]}, r"shapes\.pairs\[0\]: a pair has two different names"),
        ({"pairs": [["age", "age"]]}, r"shapes\.pairs\[0\]: a pair has two different names"),
        ({"pairs": [["a", "b", "b"]]}, r"shapes\.pairs\[0\]: a pair has two different names"),
        ({"pairs": ["auto"]}, r"shapes\.pairs\[0\]: a pair has two different names"),
        ({"pairs": [[f"c{at}", "d"] for at in range(33)]}, r"shapes\.pairs: at most 32 pairs"),
        ({"columns": ["age"], "pairs": [["age", "fare"]]}, r"shapes\.pairs: 'fare' is not among the columns"),
    ],
)
def test_other_forms_are_refused(shapes: Any, told: str) -> None:
    with pytest.raises(BadInput, match=rf"learner\.{told}" if told.startswith("shapes") else told):
        read_config({"learner": {"shapes": shapes}})


@pytest.mark.parametrize("how", [{"loss": "hinge"}, {"normalised": False}])
def test_settings_without_shapes_exclude_names(how: dict[str, Any]) -> None:
    assert read_config({"learner": how}).learner.no_shapes()
    with pytest.raises(BadInput, match=r"learner\.shapes: they need the logistic loss") as refused:
        read_config({"learner": {**how, "shapes": {"columns": ["age"]}}})
    assert refused.value.code == "conflicting_settings"


def test_they_cannot_change_while_the_model_learns() -> None:
    one, other = (read_config({"learner": {"shapes": {"columns": columns}}}) for columns in (["age"], ["age", "fare"]))
    check_change(one, read_config({"learner": {"shapes": {"columns": ["age", "age"]}}}))
    with pytest.raises(Conflict, match=r"learner\.shapes\.columns cannot change"):
        check_change(one, other)
