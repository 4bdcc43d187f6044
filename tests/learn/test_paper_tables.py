"""The claims that the paper's tables rest on, small: what is called printed is the paper's algorithm, and what helps it helps."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.learn.registry import build_learner
from riata.learn.taylor_config import TaylorSketchConfig
from riata.wire.batch import slice_rows
from tests.bench.paper_tables import LINEAR, LINKS, PRINTED, VARIANTS, configure, gamma_in_force
from tests.learn.paper_design import (
    BETA_TRUE,
    BITS,
    LEVELS,
    ProbitOrLogistic,
    batch_optimum,
    correlated_normals,
    coverage,
    dense_beta,
    dense_rows,
    draw_labels,
    follow,
    paper_design,
    std_errors,
)

GOLDEN: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "simulated_design.json").read_text(encoding="utf-8")
)
D: Final = len(BETA_TRUE)


def distance(variant: str, gamma: float, t: int, seed: int, link: ProbitOrLogistic = "logistic") -> float:
    """L1 distance of a variant to the batch optimum at the penalty in force after t events."""
    z, y = paper_design(t, seed, link)
    config = configure(variant, gamma, t, link)
    learner = build_learner(config, BITS)
    learner.step(dense_rows(z).batch(y))
    penalty = np.full(D, gamma_in_force(config, t))
    best = batch_optimum(np.hstack([np.ones((t, 1)), z]), y, penalty, link)
    return float(np.abs(dense_beta(learner.weights(), D - 1) - best.beta).sum())


def test_the_variant_called_printed_gives_the_reference_trace() -> None:
    golden = GOLDEN["online"]
    z, y = paper_design(golden["t"], golden["seed"], golden["link"])
    learner = build_learner(configure(PRINTED, golden["gamma"]), BITS)
    learner.step(slice_rows(dense_rows(z).batch(y), 0, golden["i"][0]))
    beta = dense_beta(learner.weights(), D - 1)
    assert np.abs(beta - golden["beta_i"][0]).max() <= 1e-7  # this variant solves to 1e-6 of gamma, the trace to 1e-10


@pytest.mark.parametrize("link", LINKS)
def test_a_warm_up_brings_the_online_estimate_at_least_twice_as_near(link: ProbitOrLogistic) -> None:
    for seed in (1, 2, 3):
        plain = distance("a solve after 100 events", 10.0, 5000, seed, link)
        assert distance("warm-up of 1000", 10.0, 5000, seed, link) < plain / 2.0


@pytest.mark.parametrize("link", LINKS)
def test_a_growing_penalty_with_a_warm_up_stays_near_the_batch_optimum_of_the_moment(link: ProbitOrLogistic) -> None:
    for gamma in (10.0, 100.0):
        assert distance(LINEAR, gamma, 5000, 1, link) < 0.1


def test_the_distance_falls_along_the_stream_in_every_variant() -> None:
    for variant in VARIANTS:
        means = [float(np.mean([distance(variant, 10.0, t, seed) for seed in (1, 2, 3)])) for t in (4000, 16_000)]
        assert all(late < early for early, late in pairwise(means)), variant


def achieved(config: TaylorSketchConfig, width: int, t: int, seeds: int) -> list[float]:
    """Coverage of the true margins of fresh rows at LEVELS, over streams of t events."""
    beta = np.concatenate([[0.3], np.linspace(-0.8, 0.8, width)])
    fresh = correlated_normals(300, width, 0.5, np.random.default_rng(1))
    errors: list[F64] = []
    std: list[F64] = []
    for seed in range(seeds):
        rng = np.random.default_rng((2, seed))
        rows = correlated_normals(t, width, 0.5, rng)
        learner = build_learner(config, BITS)
        for _ in follow(learner, rows.batch(draw_labels(rows, beta, rng)), [t]):
            errors.append(fresh.margins(dense_beta(learner.weights(), width)) - fresh.margins(beta))
            std.append(std_errors(learner, fresh))
    return [coverage(np.array(errors), np.array(std), level) for level in LEVELS]


def test_intervals_have_their_nominal_coverage_with_a_small_penalty_and_a_warm_up() -> None:
    config = TaylorSketchConfig(mode="exact", gamma=0.1, warm_up=1000)
    assert achieved(config, width=8, t=3000, seeds=40) == pytest.approx(list(LEVELS), abs=0.05)


def test_a_heavy_penalty_pulls_margins_out_of_their_intervals() -> None:
    config = TaylorSketchConfig(mode="exact", gamma=100.0, warm_up=1000)
    assert achieved(config, width=8, t=3000, seeds=5)[-1] < 0.5
