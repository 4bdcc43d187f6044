from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from riata.learn.learner import Weights
from riata.maths.links import Link
from riata.predict.linear_model import LinearModel
from riata.predict.model import Labels
from tests.predict.rows import batch_of, model_of, origin, random_weights


@pytest.mark.parametrize(
    ("link", "labels", "probability"),
    [
        ("logistic", "0/1", 0.5),
        ("probit", "0/1", 0.5),
        ("identity", "-1/+1", 0.5),
        ("hinge", "0/1", math.nan),
        ("identity", "real", math.nan),
    ],
)
def test_empty_model_answers_its_prior(link: Link, labels: Labels, probability: float) -> None:
    weights = Weights(np.zeros(0, np.uint32), np.zeros(0), 3.0, link, 22)
    model = LinearModel(origin(labels), weights, gen=0, seq=0)
    scores = model.score(batch_of([[], [(3, 1.0), (4_000_000_000, -2.0)]]))
    np.testing.assert_array_equal(scores.probability, [probability, probability])
    np.testing.assert_array_equal(scores.unknown, [0, 2])
    assert model.weights.non_zeros == 0


def test_model_cannot_be_written_through() -> None:
    model = model_of(random_weights(np.random.default_rng(1), 50, 10))
    for array in (model.weights.slot, model.weights.beta, model.bucket):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.seq = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("non_zeros", "bits", "buckets"), [(0, 22, 1), (1, 22, 1), (2, 22, 2), (1000, 22, 1024), (1024, 10, 1024)]
)
def test_index_has_about_as_many_buckets_as_weights(non_zeros: int, bits: int, buckets: int) -> None:
    model = model_of(random_weights(np.random.default_rng(2), non_zeros, bits))
    assert len(model.bucket) == buckets + 1
    assert model.bucket[-1] == non_zeros
    assert model.memory() == {"weights": 12 * non_zeros, "index": 4 * (buckets + 1)}


def test_replaced_model_has_its_own_index() -> None:
    rng = np.random.default_rng(3)
    first = model_of(random_weights(rng, 10, 8))
    second = dataclasses.replace(first, weights=random_weights(rng, 100, 8), seq=43)
    assert second.bucket[-1] == 100
    assert first.bucket[-1] == 10


def test_negative_zero_intercept_becomes_zero() -> None:
    model = model_of(Weights(np.zeros(0, np.uint32), np.zeros(0), -0.0, "logistic", 22))
    assert math.copysign(1.0, float(model.score(batch_of([[(1, 1.0)]])).margin[0])) == 1.0
