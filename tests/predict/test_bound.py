"""Probabilities of a served model whose margins are beyond the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riata.base.errors import Corrupt
from riata.learn.learner import Weights
from riata.predict.factory import make_model, read_model
from riata.predict.model import OneRow, Origin
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


def test_a_bound_that_is_none_is_refused() -> None:
    model = make_model(ORIGIN, Weights(np.zeros(0, np.uint32), np.zeros(0), 0.0, "logistic", BITS, bounds=(-3.0, 2.0)), 1, 7)
    parts = model.parts()[0]
    assert read_model(ORIGIN, (1, 7), "logistic", BITS, parts, std_errors=False).weights.bounds == (-3.0, 2.0)
    for bad in (np.array([0.5]), np.array([math.nan, 1.0]), np.zeros(2), np.zeros(3)):
        with pytest.raises(Corrupt):
            read_model(ORIGIN, (1, 7), "logistic", BITS, parts | {"bounds": bad}, std_errors=False)
