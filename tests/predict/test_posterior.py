"""Models with a posterior distribution: intervals, marginals, and what a follower gets."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from riata.base.arrays import F64, Arrays
from riata.base.errors import Conflict, Corrupt
from riata.learn.learner import Posterior, Weights
from riata.maths.links import Link
from riata.predict import posterior as module
from riata.predict.factory import make_model, read_model
from riata.predict.linear_model import LinearModel
from riata.predict.model import Scores
from riata.predict.posterior import PosteriorModel, intervals_of, positive, posterior_document, quantiles, require_posterior
from tests.predict.rows import batch_of, model_of, origin, random_weights
from tests.refused import refused

SLOTS = [7, 2**31, 2**32 - 1]
ROW = [(7, 2.0), (99, 5.0), (2**31, -1.0)]


def drawn(count: int = 500, dependent: int = -1) -> Weights:
    """Three features; the mean of the first is zero, so that it has no weight."""
    rng = np.random.default_rng(1)
    theta, base, weight = rng.normal(size=(3, count)) * 0.5, rng.normal(size=(1, count)), rng.random(count)
    theta[0, count // 2 :] = -theta[0, : count // 2]
    weight[count // 2 :] = weight[: count // 2]
    part = weight / weight.sum()
    posterior = Posterior(np.array(SLOTS, np.uint32), theta, base, weight, np.array([400.0, 3.0, 1.0]), dependent)
    return Weights(np.array(SLOTS[1:], np.uint32), theta[1:] @ part, float((base @ part)[0]), "logistic", 32, posterior)


def model(count: int = 500, dependent: int = -1) -> PosteriorModel:
    return require_posterior(make_model(origin(), drawn(count, dependent), 3, 42))


def slow_quantile(values: F64, weight: F64, q: float) -> float:
    reached = 0.0
    for value, part in sorted(zip(values.tolist(), weight.tolist(), strict=True)):
        reached += part
        if reached >= q * weight.sum() * (1.0 - 1e-12):
            return float(value)
    raise AssertionError


def test_intervals_are_weighted_quantiles_of_the_draws_probabilities() -> None:
    made, level = model(), 0.9
    p = made.posterior
    margin = p.base[0] + 2.0 * p.theta[0] - p.theta[1]
    probability = 1.0 / (1.0 + np.exp(-margin))
    [[low, high, mean]] = made.intervals(batch_of([ROW]), level).tolist()
    assert low == pytest.approx(slow_quantile(probability, p.weight, 0.05), rel=1e-12)
    assert high == pytest.approx(slow_quantile(probability, p.weight, 0.95), rel=1e-12)
    assert mean == pytest.approx(float(probability @ p.weight / p.weight.sum()), rel=1e-12)
    part = p.weight / p.weight.sum()
    expected = np.sqrt(margin**2 @ part - (margin @ part) ** 2)
    assert made.score(batch_of([ROW])).std_error.tolist() == pytest.approx([expected])


def test_a_row_gets_the_same_bits_alone_and_among_others() -> None:
    made, rows = model(), [[], ROW, [(2**32 - 1, 1e6)], [(5, 1.0)]]
    together = made.intervals(batch_of(rows), 0.5)
    alone = np.concatenate([made.intervals(batch_of([row]), 0.5) for row in rows])
    assert together.tobytes() == alone.tobytes()
    scores = [made.score(batch_of([row])).std_error[0] for row in rows]
    assert made.score(batch_of(rows)).std_error.tolist() == scores
    assert together[0].tolist() == together[3].tolist()  # of a feature without draws nothing is known


def test_everything_else_is_that_of_the_means() -> None:
    made, linear = model(), model_of(drawn())
    scores, expected = made.score(batch_of([ROW])), linear.score(batch_of([ROW]))
    assert (scores.margin.tolist(), scores.probability.tolist()) == (expected.margin.tolist(), expected.probability.tolist())
    named = [(h, x, str(h)) for h, x in ROW]
    assert made.explain(named, lambda _slot, _bits: []).margin == scores.margin[0]
    assert made.plan is None
    assert (made.gen, made.seq, made.origin) == (3, 42, origin())
    assert made.memory()["posterior"] > 8 * 500 * 5


def test_marginals_are_those_of_the_weights_in_their_order() -> None:
    made = model()
    base, each = made.marginals(0.8)
    p = made.posterior
    assert len(each) == len(made.weights.slot) == 2
    assert (each[0].low, each[0].high) == quantiles(p.theta[1], p.weight, 0.8)
    assert base.positive == positive(p.base[0], p.weight)
    part = p.weight / p.weight.sum()
    spread = [np.sqrt(line**2 @ part - (line @ part) ** 2) for line in p.theta[1:]]
    assert made.weight_errors() == pytest.approx(spread)


def test_positive_counts_the_weights_above_zero() -> None:
    assert positive(np.array([-1.0, 0.0, 2.0]), np.array([1.0, 1.0, 2.0])) == 0.5


def test_the_arrays_cannot_be_written_through() -> None:
    for array in (model().posterior.theta, model().posterior.weight, model().covariance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_a_follower_gets_the_same_answers() -> None:
    made = model(dependent=2)
    arrays, left_out = made.parts()
    assert left_out == ""
    again = read_model(origin(), (3, 42), "logistic", 32, arrays, std_errors=True)
    assert isinstance(again, PosteriorModel)
    rows = batch_of([ROW, []])
    assert again.intervals(rows, 0.95).tobytes() == made.intervals(rows, 0.95).tobytes()
    assert again.score(rows).std_error.tobytes() == made.score(rows).std_error.tobytes()
    assert again.posterior.dependent == 2


def test_a_posterior_too_large_to_publish_is_left_out_and_said() -> None:
    made = model(count=200_000)
    arrays, left_out = made.parts()
    assert "MiB" in left_out
    with pytest.raises(Conflict):
        require_posterior(read_model(origin(), (3, 42), "logistic", 32, arrays, std_errors=False))


@pytest.mark.parametrize(
    "broken",
    [
        {"draws_slot": np.array([7, 7, 9], np.uint32)}, {"draws": np.zeros(7)}, {"draws_base": np.zeros(3)},
        {"draws_weight": np.zeros(500)}, {"draws_weight": np.full(500, -1.0)}, {"draws_figures": np.zeros(2)},
        {"draws_dependent": np.array([3])}, {"draws_slot": np.array([1, 2, 3], np.uint32)}, {"stranger": np.zeros(1)},
    ],
)  # fmt: skip
def test_damaged_parts_are_refused(broken: Arrays) -> None:
    arrays, _ = model().parts()
    with pytest.raises(Corrupt):
        read_model(origin(), (3, 42), "logistic", 32, {**arrays, **broken}, std_errors=True)


def test_a_model_without_a_posterior_is_refused_by_name() -> None:
    with refused(Conflict, "no_posterior", match="particle_filter"):
        require_posterior(model_of(random_weights(np.random.default_rng(0), 5, 10)))


def test_the_description_names_a_dependent_feature_and_warns_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    told = posterior_document(model(dependent=1), lambda slot, bits: ["a"] if (slot, bits) == (2**31, 32) else [])
    assert told == {
        "draws": 500, "effective_sample_size": 400.0, "rejuvenations": 3, "tempered_events": 1, "dependent_feature": "a",
        "warning": None,
    }  # fmt: skip
    nameless = posterior_document(model(dependent=2), lambda _slot, _bits: [])
    assert nameless is not None
    assert nameless["dependent_feature"] == f"slot {2**32 - 1}"
    monkeypatch.setattr(module, "FEATURES_ADVISED", 2)
    crowded = posterior_document(model(), lambda _slot, _bits: [])
    assert crowded is not None
    assert "more than 2 features" in str(crowded["warning"])
    assert posterior_document(model_of(drawn()), lambda _slot, _bits: []) is None


# Intervals of the probability from standard errors: against draws of normal margins, and refused where there are none.


LEVEL = 0.9


def linked(link: Link) -> LinearModel:
    return LinearModel(origin(), random_weights(np.random.default_rng(1), 5, 10, link), gen=0, seq=1)


def scores_of(margin: list[float], std_error: list[float]) -> Scores:
    n = len(margin)
    zeros, none = np.zeros(n), np.zeros(n, np.int64)
    return Scores(np.array(margin), zeros, zeros, none, none, np.array(std_error))


def test_ends_and_mean_are_those_of_normal_margins() -> None:
    margin, std_error = [-3.0, 0.0, 1.5, 40.0], [0.5, 0.0, 2.0, 1.0]
    model = linked("logistic")
    found = intervals_of(model, batch_of([[]] * 4), scores_of(margin, std_error), LEVEL)
    drawn = np.array(margin)[:, None] + np.array(std_error)[:, None] * np.array(
        [NormalDist().inv_cdf((k + 0.5) / 20_000) for k in range(20_000)]
    )
    probability = 1.0 / (1.0 + np.exp(-drawn))
    np.testing.assert_allclose(found[:, 0], np.quantile(probability, 0.05, axis=1), atol=1e-4)
    np.testing.assert_allclose(found[:, 1], np.quantile(probability, 0.95, axis=1), atol=1e-4)
    np.testing.assert_allclose(found[:, 2], probability.mean(axis=1), atol=1e-5)
    assert found[1].tolist() == pytest.approx([0.5, 0.5, 0.5], abs=1e-15)


def test_the_mean_under_the_probit_link_has_a_closed_form() -> None:
    margin, std_error = [-1.0, 0.3, 2.0], [0.5, 2.0, 1.0]
    found = intervals_of(linked("probit"), batch_of([[]] * 3), scores_of(margin, std_error), LEVEL)
    for row, m, s in zip(found.tolist(), margin, std_error, strict=True):
        assert row[2] == pytest.approx(NormalDist().cdf(m / (1.0 + s * s) ** 0.5), abs=1e-6)
        assert row[1] == pytest.approx(NormalDist().cdf(m + s * NormalDist().inv_cdf(0.95)), abs=1e-12)


def test_a_model_without_standard_errors_is_refused_with_the_learners_that_have_them() -> None:
    model = model_of(random_weights(np.random.default_rng(0), 5, 10))
    with pytest.raises(Conflict, match="particle_filter") as refused:
        intervals_of(model, batch_of([[]]), scores_of([0.0], [np.nan]), LEVEL)
    assert refused.value.code == "no_posterior"
    assert "taylor_sketch" in refused.value.detail
