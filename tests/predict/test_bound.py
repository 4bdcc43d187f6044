"""Probabilities of a served model whose margins are beyond the bound."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from riata.base.errors import Corrupt
from riata.learn.learner import Weights, bounded
from riata.learn.one_vs_rest import heads_together
from riata.predict.factory import make_model, read_model
from riata.predict.model import OneRow, Origin
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples

BITS = 18
ORIGIN = Origin("m", bytes(16), EncoderConfig(bits=BITS), "0/1")
ROWS = [b'{"features": {"a": -20}}', b'{"features": {"a": -1}}', b'{"features": {"a": 0.5}}', b'{"features": {"a": 30}}']


def sigma(margin: float) -> float:
    return 1.0 / (1.0 + math.exp(-margin))


@pytest.mark.parametrize("bound", [2.5, math.inf])
def test_the_margin_is_the_sum_and_the_probability_is_bounded(bound: float) -> None:
    context = Context(ORIGIN.encoder, "0/1")
    batch = parse_examples(b"\n".join(ROWS), "application/x-ndjson", context, False).batch
    slot = np.unique(batch.hash >> np.uint32(32 - BITS))
    model = make_model(ORIGIN, Weights(slot, np.ones(1), 0.0, "logistic", BITS, bounds=(-bound, bound + 1.0)), 1, 7)
    again = read_model(ORIGIN, (1, 7), "logistic", BITS, model.parts()[0], std_errors=False)
    margins = [-20.0, -1.0, 0.5, 30.0]
    for one in (model, again):
        scores = one.score(batch)
        assert scores.margin.tolist() == margins
        assert scores.probability == pytest.approx([sigma(max(-bound, min(bound + 1.0, m))) for m in margins], rel=1e-14)
        assert scores.label.tolist() == [0.0, 0.0, 1.0, 1.0]
        for i, text in enumerate(ROWS):
            assert one.plan is not None
            found = OneRow().answer(one.plan, text, True)
            assert found is not None
            assert found[:3] == (margins[i], scores.probability[i], scores.label[i])


MARGINS = np.array([[9.0, 8.0, -9.0], [-9.0, -7.0, -8.0], [9.0, 9.0, 0.5], [0.5, -1.0, 2.0]])


def test_the_probabilities_of_classes_are_bounded_and_the_largest_margin_wins() -> None:
    slots = np.array([1, 2, 3, 4], np.uint32)
    bound = (-2.5, 3.0)
    columns = [Weights(slots, MARGINS[:, k].copy(), 0.0, "logistic", BITS, bounds=bound) for k in range(3)]
    model = make_model(replace(ORIGIN, labels="classes"), heads_together(columns, "logistic", BITS), 1, 7)
    again = read_model(model.origin, (1, 7), "logistic", BITS, model.parts()[0], std_errors=False)
    n = len(slots)
    hashes, ids = slots << np.uint32(32 - BITS), np.zeros((n, 16), np.uint8)
    batch = Batch(np.arange(n + 1), hashes, np.ones(n), np.zeros(n), np.ones(n), ids, np.zeros(n, np.bool_))
    odds = np.array([[sigma(max(bound[0], min(bound[1], m))) for m in row] for row in MARGINS.tolist()])
    for one in (model, again):
        scores = one.score(batch)
        assert scores.label.tolist() == [0.0, 1.0, 0.0, 2.0] == MARGINS.argmax(axis=1).tolist()
        assert scores.margin.tolist() == MARGINS.max(axis=1).tolist()
        assert scores.by_class == pytest.approx(odds / odds.sum(axis=1, keepdims=True), rel=1e-14)


@pytest.mark.parametrize("bound", [1.0, math.inf])
def test_bounded_margins_keep_their_first_largest(bound: float) -> None:
    rng = np.random.default_rng(1)
    margin = np.vstack([MARGINS, np.round(rng.normal(0.0, 2.0, (300, 3)))])
    found = bounded(margin, np.full(len(margin), -bound), np.full(len(margin), bound))
    assert np.abs(found - np.clip(margin, -bound, bound)).max() <= math.ulp(bound if math.isfinite(bound) else 0.0)
    assert found.argmax(axis=1).tolist() == margin.argmax(axis=1).tolist()
    assert bounded(margin[:, 0], -bound, bound).tolist() == np.clip(margin[:, 0], -bound, bound).tolist()


def test_a_bound_that_is_none_is_refused() -> None:
    model = make_model(ORIGIN, Weights(np.zeros(0, np.uint32), np.zeros(0), 0.0, "logistic", BITS, bounds=(-3.0, 2.0)), 1, 7)
    parts = model.parts()[0]
    assert read_model(ORIGIN, (1, 7), "logistic", BITS, parts, std_errors=False).weights.bounds == (-3.0, 2.0)
    for bad in (np.array([0.5]), np.array([math.nan, 1.0]), np.zeros(2), np.zeros(3)):
        with pytest.raises(Corrupt):
            read_model(ORIGIN, (1, 7), "logistic", BITS, parts | {"bounds": bad}, std_errors=False)
