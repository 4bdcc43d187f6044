from __future__ import annotations

import json

import numpy as np
import pytest

from riata.learn.learner import Weights
from riata.learn.shapes import Shapes
from riata.predict.explain import LARGEST, shape_parts
from riata.predict.linear_model import LinearModel
from riata.predict.name_book import NameBook
from tests.predict.rows import batch_of, model_of, random_batch, random_weights, top_of


def nobody(slot: int, bits: int) -> list[str]:
    del slot, bits
    return []


def four_bits() -> LinearModel:
    """Slots 1, 5 and 6 of 16 with weights 2, -3 and 0.5."""
    return model_of(Weights(np.array([1, 5, 6], np.uint32), np.array([2.0, -3.0, 0.5]), 0.25, "logistic", 4))


@pytest.mark.parametrize(("bits", "non_zeros"), [(3, 8), (10, 600), (22, 900)])
def test_contributions_added_in_order_are_the_margin_bit_for_bit(bits: int, non_zeros: int) -> None:
    rng = np.random.default_rng(bits)
    model = model_of(random_weights(rng, non_zeros, bits))
    batch = random_batch(rng, 100, 30)
    for i, margin in enumerate(model.score(batch).margin.tolist()):
        row = slice(int(batch.indptr[i]), int(batch.indptr[i + 1]))
        named = [(h, x, f"f{h}") for h, x in zip(batch.hash[row].tolist(), batch.value[row].tolist(), strict=True)]
        shuffled = [named[k] for k in rng.permutation(len(named))]
        explanation = model.explain(shuffled, nobody)
        total = explanation.bias
        for part in explanation.answer()["contributions"]:
            total += part["contribution"]
        assert total == margin == explanation.margin


def test_unknown_features_are_listed_with_weight_zero() -> None:
    explanation = four_bits().explain([(9 << 28, -4.0, "new"), (5 << 28, 2.0, "old")], nobody)
    assert [(p.feature, p.weight, p.contribution) for p in explanation.contributions] == [("old", -3.0, -6.0), ("new", 0.0, 0.0)]
    assert explanation.margin == 0.25 - 6.0


def test_names_of_one_slot_are_reported_with_each_other() -> None:
    book = NameBook()
    book.add(5 << 60, b"seen before")
    book.add((5 << 60) + 1, b"a")
    row = [(5 << 28, 1.0, "a"), ((5 << 28) + 1, 1.0, "b"), (6 << 28, 1.0, "c")]
    parts = four_bits().explain(row, book.in_slot).contributions
    assert [part.shares_slot_with for part in parts] == [("b", "seen before"), ("a", "seen before"), ()]


def test_features_of_equal_hash_are_one_feature_summed_in_the_order_of_the_request() -> None:
    row = [(5 << 28, 0.1, "a"), (6 << 28, 1.0, "c"), (5 << 28, 0.2, "b"), (5 << 28, 0.3, "a")]
    explanation = four_bits().explain(row, nobody)
    assert [(part.feature, part.value) for part in explanation.contributions] == [("a + b", 0.1 + 0.2 + 0.3), ("c", 1.0)]
    assert explanation.margin == four_bits().score(batch_of([[(5 << 28, 0.1 + 0.2 + 0.3), (6 << 28, 1.0)]])).margin[0]


@pytest.mark.parametrize("value", [0.0, 5e-324])
def test_values_that_the_wire_drops_are_not_listed(value: float) -> None:
    assert four_bits().explain([(5 << 28, value, "a")], nobody).contributions == ()
    assert four_bits().explain([(5 << 28, 1.5, "a"), (5 << 28, -1.5, "a")], nobody).contributions == ()


def test_answer_is_json_and_an_overflowing_margin_is_held() -> None:
    model = model_of(Weights(np.array([1], np.uint32), np.array([1e308]), 0.0, "logistic", 4))
    explanation = model.explain([(1 << 28, 1e6, "a")], nobody)
    assert explanation.margin == LARGEST == model.score(batch_of([[(1 << 28, 1e6)]])).margin[0]
    assert json.loads(json.dumps(explanation.answer(), allow_nan=False)) == explanation.answer()


def test_top_weights_are_ordered_by_size_then_slot() -> None:
    weights = Weights(np.array([1, 2, 3, 4], np.uint32), np.array([1.0, -2.0, 2.0, 0.5]), 0.0, "logistic", 4)
    book = NameBook()
    book.add(3 << 60, b"b")
    book.add((3 << 60) + 1, b"c")
    found = top_of(model_of(weights), 3, "", book)
    assert [(w.slot, w.weight, w.feature, w.names) for w in found] == [
        (2, -2.0, None, ()),
        (3, 2.0, "b", ("b", "c")),
        (1, 1.0, None, ()),
    ]
    assert [w.slot for w in top_of(model_of(weights), 1, "", book)] == [2]
    assert [w.slot for w in top_of(model_of(weights), 99, "", book)] == [2, 3, 1, 4]
    assert top_of(model_of(weights), 0, "", book) == []


def test_top_weights_with_a_prefix_leave_others_out() -> None:
    book = NameBook()
    for slot, name in ((1, b"user^a"), (5, b"item^a"), (5, b"user^b"), (6, b"item^b"), (9, b"user^c")):
        book.add((slot << 60) + sum(name), name)
    found = top_of(four_bits(), 10, "user^", book)
    assert [(w.feature, w.names) for w in found] == [("user^b", ("item^a", "user^b")), ("user^a", ("user^a",))]
    assert top_of(four_bits(), 10, "nobody", book) == []


def test_top_weights_agree_with_a_full_sort() -> None:
    rng = np.random.default_rng(9)
    weights = random_weights(rng, 3000, 14)
    weights.beta[:] = np.round(weights.beta, 1) + 0.05  # many ties
    expected = sorted(zip(weights.slot.tolist(), weights.beta.tolist(), strict=True), key=lambda w: (-abs(w[1]), w[0]))
    found = top_of(model_of(weights), 200, "", NameBook())
    assert [(w.slot, w.weight) for w in found] == expected[:200]


def test_slots_may_be_as_wide_as_the_hash() -> None:
    weights = Weights(np.array([7, 2**32 - 1], np.uint32), np.array([2.0, -3.0]), 0.5, "logistic", 32)
    book = NameBook()
    book.add(7 << 32 | 1, b"age")
    book.add(8 << 32, b"near but another")
    book.add(2**64 - 1, b"last")
    model = model_of(weights)
    explanation = model.explain([(7, 1.0, "age"), (8, 1.0, "near but another"), (2**32 - 1, 1.0, "last")], book.in_slot)
    assert [(part.feature, part.weight) for part in explanation.contributions] == [
        ("age", 2.0),
        ("near but another", 0.0),
        ("last", -3.0),
    ]
    assert all(part.shares_slot_with == () for part in explanation.contributions)
    assert model.score(batch_of([[(7, 1.0), (8, 1.0), (2**32 - 1, 1.0)]])).margin.tolist() == [explanation.margin] == [-0.5]
    assert [(w.feature, w.slot) for w in top_of(model, 9, "", book)] == [("last", 2**32 - 1), ("age", 7)]
    assert [w.feature for w in top_of(model, 9, "a", book)] == ["age"]


@pytest.mark.parametrize(
    ("edges", "value", "told"),
    [
        ([1.7e9, 1700003600.0, 1700007200.0], 1700003600.0, "1700000000 < t <= 1700003600"),
        ([0.1234561, 0.1234562, 0.5], 0.12345615, "0.1234561 < t <= 0.1234562"),
        ([0.1234561, 0.5, 0.75], 0.3, "0.123456 < t <= 0.5"),
        ([0.5, 0.75, 1.5], 2.5, "1.5 < t"),
        ([-3.0, -2.0, -1.0], -4.0, "t <= -3"),
    ],
)
def test_the_ends_of_an_interval_are_told_apart(edges: list[float], value: float, told: str) -> None:
    empty = np.zeros((0, 2), np.int64)
    shapes = Shapes(np.array([7], np.uint32), np.array(edges), np.array([0, len(edges)], np.int64), empty, np.arange(4.0))
    _, part = shape_parts(shapes, [(7, value)], {7: "t"})
    assert (part.feature, part.column, part.contribution) == (told, "t", float(np.searchsorted(edges, value)))
