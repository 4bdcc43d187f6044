"""Values that stand for a missing one and are set apart."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Corrupt
from riata.learn.apart import DECLARED as PARTS
from riata.learn.apart import EVERY, declare, indicator_of, read_apart
from riata.learn.registry import build_learner
from riata.learn.truncated_config import Missing, TruncatedGradientConfig
from riata.maths.hashing import FIELD_EQUALS, NUMBER
from riata.native.reading import hash_of
from riata.predict.factory import read_model
from riata.predict.linear_model import LinearModel
from riata.predict.model import Origin
from riata.run.state.config import read_config, read_stored, stored_document
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig
from tests.learn.contract import LearnerContract, builds
from tests.learn.streams import to_batch
from tests.twins.truncated_step import Event

BITS = 18
HASHES = [hash_of(name, 0, NUMBER) >> 32 for name in (b"a", b"b", b"c")]
DECLARED = TruncatedGradientConfig(missing=(Missing("a", (999.0, -1.0)), Missing("*", (-999.0,))))


def rows(n: int, seed: int = 1) -> Batch:
    """Three columns and a category; many values are among those that are declared, some of them in other columns."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * x[:, 0]))).astype(float)
    spoilt = rng.random(x.shape) < 0.1
    x[spoilt] = rng.choice([999.0, -1.0, -999.0, 998.0], int(spoilt.sum()))
    events = [
        Event(sorted([*zip(HASHES, row, strict=True), ((int(kind) + 1) << 30, 1.0)]), y)
        for row, kind, y in zip(x.tolist(), rng.integers(0, 3, n), label.tolist(), strict=True)
    ]
    return to_batch(events)


def sent_otherwise(batch: Batch) -> Batch:
    """The same rows as clients may send them: without the values, and with indicators of their own."""
    events = []
    for i in range(batch.n):
        own = slice(int(batch.indptr[i]), int(batch.indptr[i + 1]))
        features = []
        for feature, value in zip(batch.hash[own].tolist(), batch.value[own].tolist(), strict=True):
            if value == -999.0 or (feature == HASHES[0] and value in (999.0, -1.0)):
                features.append((hash_of(struct.pack("<d", value), feature, FIELD_EQUALS) >> 32, 1.0))
            else:
                features.append((feature, value))
        events.append(Event(sorted(features), float(batch.label[i])))
    return to_batch(events)


class TestContract(LearnerContract):
    build = builds({"declared": replace(DECLARED, missing=(Missing("*", (1.0, 2.0)),))}, BITS)


def test_rows_are_learnt_as_those_with_indicators() -> None:
    batch = rows(700)
    declared, other = build_learner(DECLARED, BITS), build_learner(replace(DECLARED, missing=()), BITS)
    assert declared.step(batch).margin.tolist() == other.step(sent_otherwise(batch)).margin.tolist()
    left, right = declared.freeze(), other.freeze()
    assert {name: array.tobytes() for name, array in left.items()} == {name: array.tobytes() for name, array in right.items()}
    assert declared.weights().shapes is not None


def test_rows_without_such_values_are_not_copied() -> None:
    batch = rows(50)
    assert declare([EVERY], [12345.0]).rows(batch) is batch
    apart = declare([EVERY, HASHES[0]], [-999.0, 999.0])
    made = apart.rows(batch)
    assert made is not batch
    assert batch.value.tolist() == rows(50).value.tolist()


def test_what_is_served_is_what_was_measured() -> None:
    batch, asked = rows(900), rows(200, seed=2)
    learner = build_learner(DECLARED, BITS)
    learner.step(batch)
    origin = Origin("m", bytes(16), EncoderConfig(bits=BITS), "0/1")
    model = LinearModel(origin, learner.weights(), 1, batch.n)
    margin = learner.step(asked, np.ones(asked.n, np.bool_)).margin
    assert model.score(asked).margin.tolist() == margin.tolist()
    assert model.plan is not None
    arrays, _ = model.parts()
    again = read_model(origin, (1, batch.n), "logistic", BITS, arrays, std_errors=False)
    assert again.score(asked).margin.tolist() == margin.tolist()
    for name in PARTS:
        with pytest.raises(Corrupt):
            read_model(origin, (1, batch.n), "logistic", BITS, {k: v for k, v in arrays.items() if k != name}, std_errors=False)


@pytest.mark.parametrize(
    "damage",
    [
        {"apart_feature": np.array([-2])},
        {"apart_feature": np.array([2**32])},
        {"apart_feature": np.array([1.0])},
        {"apart_value": np.array([math.nan])},
        {"apart_value": np.zeros(2)},
    ],
)
def test_damaged_values_are_refused(damage: Arrays) -> None:
    good = declare([EVERY], [7.0]).parts()
    assert read_apart(good).value.tolist() == [7.0]
    with pytest.raises(Corrupt):
        read_apart({**good, **damage})


def test_an_explanation_names_the_value() -> None:
    learner = build_learner(DECLARED, BITS)
    learner.step(rows(900))
    model = LinearModel(Origin("m", bytes(16), EncoderConfig(bits=BITS), "0/1"), learner.weights(), 1, 900)
    row = sorted(zip(HASHES, (999.0, -999.0, 999.0), "abc", strict=True))
    found = model.explain(row, lambda _slot, _bits: [])
    parts = {part.feature: part for part in found.contributions if part.slot >= 0}
    assert parts.keys() == {"a is 999", "b is -999", "c", "c is 999"}
    assert [(parts[name].value, parts[name].sent) for name in ("a is 999", "c is 999")] == [(1.0, 999.0)] * 2
    assert abs(parts["c"].value) < 1.0  # the middle of the column, in which 999 was found
    assert parts["c"].sent == 999.0
    assert parts["a is 999"].contribution == parts["a is 999"].weight != 0.0
    assert {part["feature"] for part in found.by_column()} >= {"a", "b", "c"}
    asked = to_batch([Event([(hash_, value) for hash_, value, _ in row], 1.0)])
    assert found.margin == model.score(asked).margin[0]


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ([{"feature": "a", "values": []}], "it has no values"),
        ([{"feature": "a", "values": [1, 0]}], "0 is absent"),
        ([{"feature": "a", "values": [1]}, {"feature": "a", "values": [2]}], "two entries"),
        ([{"feature": "a", "values": ["NA"]}], "expected a number"),
        ([{"feature": "a"}], "missing values"),
    ],
)
def test_what_cannot_be_declared_is_refused(missing: list[Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        read_config({"learner": {"missing": missing}})
    stored = stored_document(read_config({"learner": {"missing": [{"feature": "a", "values": [1]}]}}))
    assert read_stored(stored).learner.sets_apart()
    assert not read_config({"learner": {"kind": "ftrl_proximal"}}).learner.sets_apart()


def test_rows_of_length_one_exclude_it() -> None:
    declared, other = {"learner": {"missing": [{"feature": "a", "values": [1]}]}}, {"encoder": {"normalise": "l2"}}
    assert read_config(declared) != read_config({})
    assert read_config(other)
    assert read_config({**declared, "labels": "classes"}).has_classes
    with pytest.raises(BadInput, match=r"learner\.missing"):
        read_config({**declared, **other})


def test_a_single_column_with_placeholders_is_as_good_as_a_clean_one() -> None:
    rng = np.random.default_rng(1)
    n = 8000
    x = rng.normal(size=n)
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * x))).astype(float)
    gone = rng.random(n) < 0.01
    gone[0] = True
    losses = {}
    for name, column in (("clean", x), ("spoilt", np.where(gone, 999.0, x))):
        batch = to_batch([Event([(HASHES[0], float(value))], y) for value, y in zip(column, label, strict=True)])
        for declared in (False, True):
            config = replace(DECLARED if declared else replace(DECLARED, missing=()), far_values="off")
            margin = build_learner(config, BITS).step(batch).answered
            losses[name, declared] = float(np.logaddexp(0.0, np.where(label > 0.5, -margin, margin)).mean())
    assert losses["spoilt", True] < 1.015 * losses["clean", False]
    assert losses["spoilt", False] > 1.02 * losses["clean", False]


def test_indicators_differ_by_feature_and_value() -> None:
    assert len({indicator_of(feature, value) for feature in (0, 1, 2**32 - 1) for value in (1.0, -1.0, 999.0)}) == 9
