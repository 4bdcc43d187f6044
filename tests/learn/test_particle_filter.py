"""The particle filter learner: its contract, its twin, its vocabulary, and rows that would kill the effective sample size."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import BadInput
from riata.learn.learner import Learner
from riata.learn.particle_filter import (
    MOVES,
    SPEC,
    TEMPERED,
    Events,
    ParticleFilter,
    ParticleFilterConfig,
    dependent_column,
    draw_posterior,
)
from riata.learn.registry import build_learner
from riata.run.candidates.adopting import Weighed, one_pass
from riata.wire.batch import Batch
from tests.learn.contract import Build, LearnerContract, same
from tests.learn.streams import sparse_events, to_batch
from tests.learn.test_adopt import ranked
from tests.twins.particle_filter import Filter, learn_rows
from tests.twins.truncated_step import Event

SMALL: dict[str, Any] = {"particles": 200, "start": 60}


class TestContract(LearnerContract):
    @pytest.fixture
    def batch(self) -> Batch:
        return to_batch(sparse_events(240, seed=11, features=24))

    @pytest.fixture(params=[{"features_max": 24}, {"intercept": False, "seed": 9}, {"start": 500, "particles": 101}])
    def build(self, request: pytest.FixtureRequest) -> Build:
        config = ParticleFilterConfig(**{"features_max": 32, **SMALL, **request.param})

        def empty() -> Learner:
            return build_learner(config, 8)

        return empty


def stream(n: int, beta: F64, seed: int = 0, names: int = 1000) -> list[Event]:
    """Dense rows with hashes names, 2 names, ...; the labels follow sigma(beta . x - 0.5)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(beta)))
    label = rng.random(n) < 1.0 / (1.0 + np.exp(0.5 - x @ beta))
    return [
        Event([((j + 1) * names, float(value)) for j, value in enumerate(row)], float(y)) for row, y in zip(x, label, strict=True)
    ]


def test_filter_equals_its_twin() -> None:
    events = stream(120, np.array([1.0, -1.0]), seed=3)
    events[20] = Event([*events[20].features, (2**32 - 1, 2.0)], 1.0)  # a feature that comes later
    events[90] = Event([(1000, 900.0)], 0.0)  # tempered
    events[100] = Event(events[100].features, 1.0, 3.5)
    learner = ParticleFilter(ParticleFilterConfig(features_max=3, particles=200, start=40), 8)
    twin = Filter(200, 4, start=40)
    margin = learner.step(to_batch(events)).margin
    np.testing.assert_allclose(margin, learn_rows(twin, events), rtol=1e-6)
    state = learner.freeze()
    assert state["key"].tolist() == list(twin.column)
    np.testing.assert_allclose(state["theta"].astype(np.float64).reshape(4, 200), np.array(list(twin.column.values())), rtol=1e-6)
    np.testing.assert_allclose(state["weight"] / state["weight"].max(), twin.weight / twin.weight.max(), rtol=1e-6)
    assert state["counts"][[MOVES, TEMPERED]].tolist() == [twin.moves, twin.tempered]
    assert twin.tempered > 0


def maximum(events: list[Event]) -> tuple[F64, F64]:
    """The maximum of the likelihood, and standard errors; the intercept first."""
    x = np.array([[1.0, *(value for _, value in event.features)] for event in events])
    y, beta = np.array([event.label for event in events]), np.zeros(x.shape[1])
    for _ in range(20):
        p = 1.0 / (1.0 + np.exp(-x @ beta))
        curvature = (x * (p * (1.0 - p))[:, np.newaxis]).T @ x
        beta += np.linalg.solve(curvature, x.T @ (y - p))
    return beta, np.sqrt(np.diag(np.linalg.inv(curvature)))


def test_posterior_is_that_of_all_events() -> None:
    events = stream(20_000, np.array([0.8, -0.4, 0.0]), seed=5)
    learner = ParticleFilter(ParticleFilterConfig(features_max=3, start=500), 8)
    learner.step(to_batch(events))
    found, spread = maximum(events)
    posterior = learner.weights().posterior
    assert posterior is not None
    theta, part = np.vstack([posterior.base, posterior.theta]), posterior.weight / posterior.weight.sum()
    mean = theta @ part
    z = (mean - found) / spread
    assert float(np.sqrt((z**2).mean())) < 0.8
    np.testing.assert_allclose(np.sqrt((theta - mean[:, np.newaxis]) ** 2 @ part) / spread, 1.0, atol=0.15)
    assert 25 <= posterior.figures[1] <= 80  # about 12 moves in each e-fold of the events: 12 ln 40 = 44
    assert 0.0 < posterior.figures[0] <= 1000.0


def test_a_feature_that_comes_late_gets_the_prior_and_then_its_posterior() -> None:
    early, late = stream(600, np.array([1.0]), seed=6), stream(3000, np.array([1.0, -1.0]), seed=7)
    learner = ParticleFilter(ParticleFilterConfig(features_max=2, start=200), 8)
    learner.step(to_batch(early))
    learner.step(to_batch(late))
    weights = learner.weights()
    found, spread = maximum(late)
    assert weights.slot.tolist() == [1000, 2000]
    assert abs(weights.beta[1] - found[2]) < 3.0 * spread[2]


def test_rows_with_features_beyond_the_vocabulary_are_refused_whole() -> None:
    learner = ParticleFilter(ParticleFilterConfig(features_max=2, **SMALL), 8)
    learner.step(to_batch([Event([(5, 1.0)], 1.0)]))
    assert learner.closed_vocabulary() is None
    stepped = learner.step(to_batch([Event([(6, 1.0), (7, 1.0)], 1.0), Event([(6, 1.0)], 0.0), Event([(8, 1.0)], 0.0)]))
    assert stepped.refused.tolist() == [True, False, True]
    assert stepped.no_room is not None
    assert stepped.no_room.tolist() == [True, False, True]
    vocabulary = learner.closed_vocabulary()
    assert vocabulary is not None
    assert vocabulary.tolist() == [5, 6]


def drawn(events: list[Event]) -> F64:
    """Draws from the posterior of all events of an intercept and one feature, by the Markov chain."""
    x = np.array([[1.0] * len(events), [event.features[0][1] for event in events]])
    sign, theta = np.array([1.0 if event.label else -1.0 for event in events]), np.empty((2, 4000))
    draw_posterior(Events(x, sign, np.ones(len(events))), np.array([0.2, 1.0]), (1, 1), theta)
    return theta


def test_a_row_that_would_kill_the_sample_size_is_tempered_and_counted() -> None:
    events = stream(400, np.array([1.0]), seed=8)
    learner = ParticleFilter(ParticleFilterConfig(features_max=1, start=200), 8)
    learner.step(to_batch(events))
    before = int(learner.freeze()["counts"][TEMPERED])
    outlier = Event([(1000, 15.0)], 0.0)  # two standard deviations of the weight are out at once
    learner.step(to_batch([outlier]))
    assert learner.freeze()["counts"][TEMPERED] == before + 1
    posterior = learner.weights().posterior
    assert posterior is not None
    theta, part = np.vstack([posterior.base, posterior.theta]), posterior.weight / posterior.weight.sum()
    mean, exact = theta @ part, drawn([*events, outlier])
    assert (np.abs(mean - exact.mean(axis=1)) < exact.std(axis=1)).all()  # the filter extrapolates
    assert posterior.figures[0] > 0.1 * len(part)


def test_a_row_of_hopeless_importance_is_refused_and_leaves_no_trace() -> None:
    learner = ParticleFilter(ParticleFilterConfig(features_max=3, **SMALL), 8)
    learner.step(to_batch(stream(100, np.array([1.0, 0.5]), seed=9)))
    before = learner.freeze()
    assert learner.step(to_batch([Event([(1000, 1.0), (5, 1.0)], 0.0, 1e300)])).refused.tolist() == [True]
    assert same(learner.freeze(), before)
    assert learner.step(to_batch([Event([(1000, 1.0), (2000, -1.0), (5, 1.0)], 0.0, 5.0)])).refused.tolist() == [False]


def test_rows_beyond_the_features_are_refused_before_any_is_learnt() -> None:
    learner = ParticleFilter(ParticleFilterConfig(features_max=3, **SMALL), 8)
    batch = to_batch(stream(2, np.array([1.0, 0.5]), seed=9))
    with pytest.raises(ValueError, match="rows"):
        learner.step(dataclasses.replace(batch, indptr=batch.indptr + np.array([0, 0, 1])))
    with pytest.raises(ValueError, match="rows"):
        learner.step(dataclasses.replace(batch, indptr=batch.indptr[[0, 2, 1]]))
    assert learner.learnt == 0


def test_weights_do_not_underflow() -> None:
    learner = ParticleFilter(ParticleFilterConfig(features_max=1, **SMALL), 8)
    learner.step(to_batch(stream(100, np.array([1.0]), seed=9)))
    state, row = learner.freeze(), to_batch([Event([(1000, 0.1)], 1.0)])
    weight, weights = state["weight"].astype(np.float64), []
    for scale in (2.0**-10, 2.0**-240):
        learner.thaw({**state, "weight": weight * scale})
        learner.step(row)
        weights.append(learner.freeze()["weight"].astype(np.float64) / scale)
    assert weights[1].tolist() == (weights[0] * 2.0**200).tolist()


def test_rows_without_features_are_learnt_without_an_intercept() -> None:
    learner = ParticleFilter(ParticleFilterConfig(features_max=1, intercept=False, **SMALL), 8)
    assert learner.step(to_batch([Event([], 1.0)] * 20)).refusals == 0
    assert learner.learnt == 20
    assert learner.freeze()["weight"].tolist() == [0.5**4] * 200  # drawn anew after 16 rows


def test_names_the_first_column_that_depends_on_others() -> None:
    rng = np.random.default_rng(1)
    x = np.vstack([np.ones(50), rng.normal(size=50) * 1e-3, rng.normal(size=50) * 1e4])
    assert dependent_column(x) == -1
    assert dependent_column(np.vstack([x, 3.0 - 2.0 * x[1]])) == 3
    assert dependent_column(np.vstack([x, np.zeros(50)])) == 3


def test_dependent_features_are_reported_and_learnt_all_the_same() -> None:
    events = [Event([*event.features, (5000, 2.0)], event.label) for event in stream(300, np.array([1.0]), seed=2)]
    learner = ParticleFilter(ParticleFilterConfig(features_max=2, **SMALL), 8)
    learner.step(to_batch(events))
    posterior = learner.weights().posterior
    assert posterior is not None
    assert posterior.slot[posterior.dependent] == 5000
    assert np.isfinite(posterior.theta).all()


@pytest.mark.parametrize(
    ("settings", "code"),
    [({"features_max": 33}, "too_many_features"), ({"particles": 99}, "out_of_range"), ({"particles": 10**7}, "out_of_range")],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], code: str) -> None:
    with pytest.raises(BadInput) as refused:
        ParticleFilterConfig(**settings)
    assert refused.value.code == code
    assert ParticleFilterConfig(features_max=32).features_max == 32


def test_an_adopted_filter_scatters_about_the_solution_as_its_curvature_says() -> None:
    events = stream(3000, np.array([1.0, -0.5]), seed=12)
    found, spread = maximum(events)
    rows, slot = ranked(to_batch(events), 32)
    order = np.searchsorted([1000, 2000], slot)
    solution = one_pass([rows], Weighed(32, slot, found[1:][order], float(found[0]), "logistic"), np.array([1, 0]))
    config = ParticleFilterConfig(features_max=2, gamma=1e-3, gamma_intercept=1e-3)
    learner = ParticleFilter(config, 8)
    learner.thaw(SPEC.adopt(config, 8, solution))
    weights = learner.weights()
    assert weights.posterior is not None
    assert [weights.intercept, *weights.beta] == pytest.approx(found.tolist())
    np.testing.assert_allclose(np.vstack([weights.posterior.base, weights.posterior.theta]).std(axis=1), spread, rtol=0.1)
    assert learner.step(to_batch(events[:100])).refusals == 0
    without = ParticleFilterConfig(features_max=2, intercept=False)
    learner = ParticleFilter(without, 8)
    learner.thaw(SPEC.adopt(without, 8, solution))
    assert learner.weights().beta.tolist() == pytest.approx(found[1:].tolist())
    with pytest.raises(BadInput) as refused:
        SPEC.adopt(ParticleFilterConfig(features_max=1), 8, solution)
    assert refused.value.code == "cannot_adopt"
