"""Mixtures of Markov chains by the particle filter: golden values, labels, and the posterior of all sequences."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64, I64
from riata.base.errors import BadInput
from riata.lab.batch.markov_mixture import (
    MarkovFilter,
    MixtureConfig,
    Names,
    dirichlet_about,
    dirichlet_precision,
    draw_start,
    effective,
    particles_of,
    relabel,
    summary,
    transitions,
)
from tests.batch.designs import CHAINS, simulated
from tests.refused import refused

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "pfs.json").read_text(encoding="utf-8"))
TOLERANCE = GOLDEN["tolerance"]["relative"]


def learnt(sequences: I64, **settings: Any) -> MarkovFilter:
    made = MarkovFilter(MixtureConfig(**settings), 4)
    for sequence in sequences:
        made.learn(sequence)
    made.begin()
    return made


def test_golden_dirichlet_precisions() -> None:
    for case in GOLDEN["dirichlet"]:
        theta, variance = np.array(case["theta_tilde"])[:, np.newaxis], np.array(case["V"])
        found = dirichlet_precision(theta, variance, case["b"])
        assert found[0] == pytest.approx(case["alpha0"], rel=TOLERANCE)
        assert (theta[:, 0] * found[0]).tolist() == pytest.approx(case["alpha"], rel=TOLERANCE)


def test_a_variance_too_large_for_any_dirichlet_gives_the_least_precision() -> None:
    assert dirichlet_precision(np.array([[0.5], [0.5]]), np.array([9.0, 9.0]), 1.0)[0] == pytest.approx(1e-3)


def test_golden_likelihoods_of_a_mixture() -> None:
    case = GOLDEN["mixture"]
    made = MarkovFilter(MixtureConfig(), 3)
    made.pi = np.array(case["pi"])[:, np.newaxis]
    made.chains = np.array([case["P_1"], case["P_2"]])[..., np.newaxis]
    made.weight = np.ones(1)
    made._moved()
    for sequence, expected in zip(case["sequences"], case["loglik"], strict=True):
        each = made.log_likelihoods(np.array(sequence) - 1)
        assert np.logaddexp.reduce(each[:, 0]) == pytest.approx(expected, rel=TOLERANCE)


def test_relabelling_undoes_permutations() -> None:
    rng = np.random.default_rng(1)
    pi, chains = rng.dirichlet([3.0, 2.0, 1.0]), rng.dirichlet([1.0, 1.0], (3, 2))
    orders = list(itertools.permutations(range(3)))
    many_pi = np.array([pi[list(order)] for order in orders]).T.copy()
    many = np.moveaxis(np.array([chains[list(order)] for order in orders]), 0, -1).copy()
    reference = many_pi[:, 4].copy(), many[..., 4].copy()
    relabel(many_pi, many, 4)
    assert np.array_equal(many_pi, np.tile(reference[0][:, None], 6))
    assert np.array_equal(many, np.tile(reference[1][..., None], 6))


def test_equal_shares_are_told_apart_by_the_chains() -> None:
    """With equal shares an order by share would mix the components up."""
    made = learnt(simulated(1200, share=0.5), particles=300, start=400)
    told = summary(made, 0.95)["transitions"]["mean"]
    gap = min(np.abs(told[list(order)] - CHAINS).max() for order in ((0, 1), (1, 0)))
    assert gap < 0.1


def test_a_move_keeps_mean_and_variance_of_a_distribution() -> None:
    rng = np.random.default_rng(3)
    theta = rng.dirichlet([20.0, 50.0, 30.0], 20_000).T
    part = np.full(20_000, 1 / 20_000)
    moved = dirichlet_about(theta, part, np.arange(20_000), 0.5, rng)
    assert moved.sum(axis=0) == pytest.approx(1.0)
    assert moved.mean(axis=1) == pytest.approx(theta.mean(axis=1), abs=2e-3)
    assert moved.std(axis=1) == pytest.approx(theta.std(axis=1), rel=0.1)


def moments(values: F64, weight: F64) -> tuple[F64, F64]:
    part = weight / weight.sum()
    mean = values @ part
    return mean, np.sqrt((values - mean[..., None]) ** 2 @ part)


def test_the_filter_agrees_with_a_sampler_that_keeps_all_sequences() -> None:
    sequences = simulated(1500, seed=1)
    made = learnt(sequences, particles=2500, start=300)
    told = summary(made, 0.95)
    counts = np.array([transitions(sequence, 4) for sequence in sequences])
    pi, chains = draw_start(counts, MixtureConfig(particles=200), 4, np.random.default_rng(4))
    order = np.argsort(-pi.mean(axis=1))
    mean, spread = moments(chains[order], np.ones(200))
    z = (told["transitions"]["mean"] - mean) / spread
    assert float(np.sqrt((z**2).mean())) < 0.6
    low, high = told["transitions"]["low"], told["transitions"]["high"]
    inside = ((low <= CHAINS) & (high >= CHAINS)).sum(axis=(1, 2))
    assert inside.min() >= 15
    assert made.moves > 5
    assert 1.0 <= made.effective <= 2500.0
    assert effective(made.weight) == made.effective


def test_the_number_of_particles_follows_the_number_of_probabilities() -> None:
    assert particles_of(MixtureConfig(), 4) == 5000  # two chains of 12 free probabilities, and a share
    assert particles_of(MixtureConfig(components=1), 2) == 1000
    assert particles_of(MixtureConfig(components=6), 20) == 10_000
    assert particles_of(MixtureConfig(particles=300), 4) == 300


def test_fewer_sequences_than_the_start_are_sampled_from_directly() -> None:
    made = learnt(simulated(100), particles=200)
    assert (made.learnt, made.moves, made.pi.shape, made.chains.shape) == (100, 0, (2, 200), (2, 4, 4, 200))
    assert made.responsibilities(np.array([0, 0, 0, 0, 0, 0, 0])).max() > 0.9


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    sequences = simulated(300)
    one, same, other = (learnt(sequences, particles=200, start=100, seed=seed) for seed in (1, 1, 2))
    assert one.chains.tobytes() == same.chains.tobytes() != other.chains.tobytes()


def test_a_sequence_that_would_leave_few_particles_is_taken_in_parts() -> None:
    made = learnt(simulated(300), particles=500, start=300)
    made.learn(np.array([0, 2] * 60))
    assert made.tempered == 1
    assert made.effective > 50
    assert np.isfinite(made.chains).all()


def test_sequences_that_cannot_be_learnt_are_refused_by_name() -> None:
    names = Names.of([["b", "a"], ["a", "c"]])
    assert names.code(["c", "a"]).tolist() == [2, 0]
    for sequence, code in ((["a"], "short_sequence"), ([], "short_sequence"), (["a", "x"], "unknown_state")):
        with pytest.raises(BadInput) as refused:
            names.code(sequence)
        assert refused.value.code == code
    with pytest.raises(BadInput, match="'x' at position 2 is unknown; known are a, b, c"):
        names.code(["a", "x"])


@pytest.mark.parametrize("settings", [{"components": 7}, {"particles": 10}, {"b": 0.0}, {"keep": 1.0}, {"seed": -1}])
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with refused(BadInput, "out_of_range"):
        MixtureConfig(**settings)
    with pytest.raises(BadInput):
        MarkovFilter(MixtureConfig(), 1)
    with pytest.raises(BadInput):
        MarkovFilter(MixtureConfig(), 4).begin()
