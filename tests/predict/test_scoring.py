from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np
import pytest

from riata.learn.learner import Weights
from riata.learn.truncated_gradient import TruncatedGradient, TruncatedGradientConfig
from riata.predict.explain import LARGEST
from riata.predict.model import Scores
from riata.wire.batch import select_rows
from tests.predict.rows import batch_of, model_of, random_batch, random_weights
from tests.twins import dot as twin


def sigma(margin: float) -> float:
    """As served models compute it, to the last bit."""
    e = math.exp(-abs(margin))
    return (1.0 if margin >= 0.0 else e) / (1.0 + e)


def rows_of(scores: Scores, rows: slice) -> list[bytes]:
    held = (getattr(scores, field.name) for field in dataclasses.fields(scores))
    return [array[rows].tobytes() for array in held if array is not None]


@pytest.mark.parametrize(("bits", "non_zeros"), [(1, 2), (8, 200), (12, 1), (12, 3000), (22, 5000)])
def test_margin_is_the_sum_in_hash_order_bit_for_bit(bits: int, non_zeros: int) -> None:
    rng = np.random.default_rng(bits * 7 + non_zeros)
    model = model_of(random_weights(rng, non_zeros, bits))
    batch = random_batch(rng, 300, 40)
    scores = model.score(batch)
    weights, margin, known = model.weights, np.empty(300), np.empty(300, np.int64)
    twin.margins(
        batch.indptr, batch.hash, batch.value, weights.slot, weights.beta, model.bucket, bits, weights.intercept, margin, known
    )
    np.testing.assert_array_equal(scores.margin.view(np.uint64), margin.view(np.uint64))
    np.testing.assert_array_equal(scores.known, known)
    np.testing.assert_array_equal(scores.known + scores.unknown, np.diff(batch.indptr))
    np.testing.assert_allclose(scores.probability, [sigma(float(m)) for m in margin], rtol=1e-15, atol=1e-307)


def test_features_that_collide_add_up_one_by_one() -> None:
    model = model_of(Weights(np.array([5], np.uint32), np.array([0.1]), 0.3, "logistic", 4))
    batch = batch_of([[(5 << 28, 0.7), ((5 << 28) + 9, 1e-3), (6 << 28, 100.0)]])
    scores = model.score(batch)
    assert scores.margin[0] == (0.3 + 0.1 * 0.7) + 0.1 * 1e-3
    assert (int(scores.known[0]), int(scores.unknown[0])) == (2, 1)


def test_scores_do_not_depend_on_how_rows_are_batched() -> None:
    rng = np.random.default_rng(11)
    model = model_of(random_weights(rng, 4000, 12))
    batch = random_batch(rng, 60, 20)
    whole = model.score(batch)
    for i in range(batch.n):
        alone = model.score(select_rows(batch, np.arange(batch.n) == i))
        assert rows_of(alone, slice(0, 1)) == rows_of(whole, slice(i, i + 1))


@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge"])
def test_served_margin_is_what_the_learner_says_before_it_learns(loss: Literal["logistic", "squared", "hinge"]) -> None:
    rng = np.random.default_rng(13)
    learner = TruncatedGradient(TruncatedGradientConfig(loss=loss, gravity=1e-3), bits=7)
    for seed in range(30):
        batch = random_batch(rng, 8, 15)
        batch = dataclasses.replace(batch, label=(rng.random(8) < 0.5).astype(np.float64))
        served = model_of(learner.weights()).score(select_rows(batch, np.arange(8) == 0))
        said = learner.step(batch).margin[0]
        assert served.margin[0].tobytes() == said.tobytes()
        assert seed == 0 or served.known[0] > 0 or batch.indptr[1] == 0


def test_labels_are_written_as_the_client_writes_them() -> None:
    batch = batch_of([[(1, 1.0)], [(1, -1.0)], []])
    weights = Weights(np.array([0], np.uint32), np.array([2.0]), 0.0, "logistic", 8)
    hinge = dataclasses.replace(weights, link="hinge")
    identity = dataclasses.replace(weights, link="identity", intercept=0.5)
    assert model_of(weights).score(batch).label.tolist() == [1.0, 0.0, 0.0]
    assert model_of(weights, "-1/+1").score(batch).label.tolist() == [1.0, -1.0, -1.0]
    assert model_of(hinge).score(batch).label.tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(model_of(hinge).score(batch).probability).all()
    assert model_of(identity).score(batch).probability.tolist() == [1.0, 0.0, 0.5]
    probit = model_of(dataclasses.replace(weights, link="probit")).score(batch)
    assert probit.probability.tolist() == pytest.approx(
        [0.9772498680518208, 0.0227501319481792, 0.5], rel=1e-14
    )  # Phi(2), Phi(-2)
    assert probit.label.tolist() == [1.0, 0.0, 0.0]
    real = model_of(identity, "real").score(batch)
    assert real.label.tolist() == real.margin.tolist() == [2.5, -1.5, 0.5]
    assert np.isnan(real.probability).all()


def test_a_sum_that_overflows_is_held_at_the_largest_double() -> None:
    weights = Weights(np.array([1, 2, 3], np.uint32), np.array([1e308, -1e308, 1.0]), 0.0, "logistic", 8)
    huge, tiny, one = (1 << 24, 1e6), (2 << 24, 1e6), (3 << 24, 1.0)
    scores = model_of(weights).score(batch_of([[huge], [tiny], [huge, tiny, one], [one]]))
    assert scores.margin.tolist() == [LARGEST, -LARGEST, 1.0, 1.0]
    assert scores.probability.tolist() == pytest.approx([1.0, 0.0, sigma(1.0), sigma(1.0)], rel=1e-15)


def test_scoring_changes_nothing() -> None:
    rng = np.random.default_rng(4)
    model = model_of(random_weights(rng, 500, 12))
    batch = random_batch(rng, 40, 20)
    before = (model.weights.beta.tobytes(), model.weights.slot.tobytes(), model.bucket.tobytes(), batch.value.tobytes())
    first = model.score(batch)
    again = model.score(batch)
    assert rows_of(first, slice(None)) == rows_of(again, slice(None))
    assert before == (model.weights.beta.tobytes(), model.weights.slot.tobytes(), model.bucket.tobytes(), batch.value.tobytes())


def test_no_rows_and_rows_without_features_are_answered() -> None:
    model = model_of(random_weights(np.random.default_rng(5), 10, 8))
    assert len(model.score(batch_of([])).margin) == 0
    assert model.score(batch_of([[]])).margin.tolist() == [model.weights.intercept]


@pytest.mark.parametrize("non_zeros", [0, 1, 300])
def test_weights_of_finds_what_the_kernel_finds(non_zeros: int) -> None:
    rng = np.random.default_rng(6)
    model = model_of(dataclasses.replace(random_weights(rng, non_zeros, 9), intercept=0.0))
    hashes = [0, 2**32 - 1, *rng.integers(0, 2**32, 200, dtype=np.int64).tolist()]
    kernel = model.score(batch_of([[(h, 1.0)] for h in hashes])).margin
    assert model.weights.of(hashes) == kernel.tolist()


def test_rows_that_are_not_inside_of_their_features_are_refused() -> None:
    rng = np.random.default_rng(8)
    model, batch = model_of(random_weights(rng, 20, 6)), random_batch(rng, 5, 4)
    with pytest.raises(ValueError, match="not inside of its features"):
        model.score(dataclasses.replace(batch, indptr=batch.indptr + 1))
    with pytest.raises(ValueError, match="do not have the same lengths"):
        model.score(dataclasses.replace(batch, value=batch.value[:-1]))
