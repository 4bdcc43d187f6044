"""The particle filter around a solution: particles drawn from the normal distribution about it."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import Arrays
from riata.base.errors import BadInput
from riata.learn.adopt import Adopted, require_bits
from riata.learn.particle_filter.config import ParticleFilterConfig, parameters_of, particles_of
from riata.learn.particle_filter.learner import HASH_BITS
from riata.learn.particle_filter.state import COLUMNS, COUNTS, INTERCEPT, LEARNT, STREAM
from riata.maths.particles import draw_about, factorise, moments


def around(config: ParticleFilterConfig, solution: Adopted) -> Arrays:
    """Return the frozen state whose weights are those of the solution, and scatter as its curvature says (Laplace's method).

    The prior adds its precision gamma^2 / 2. Raises `BadInput` (code `cannot_adopt`) if the solution has more features than the
    filter, or lacks a cross curvature.
    """
    require_bits(solution, HASH_BITS)
    d, count = len(solution.slot) + int(config.intercept), particles_of(config)
    if d > parameters_of(config) or len(solution.members) < len(solution.slot):
        raise BadInput(
            f"particle_filter takes up to features_max ({config.features_max}) features with their cross curvature: the solution "
            f"has {len(solution.slot)} features, and cross curvature for {len(solution.members)}",
            "cannot_adopt",
        )
    own = np.concatenate([solution.base.curvature, solution.features.curvature[solution.members]])
    curvature = solution.cross + np.diag(own - np.diag(solution.cross))
    prior = np.full(len(own), 0.5 * config.gamma**2)
    prior[0] = 0.5 * config.gamma_intercept**2
    beta = np.concatenate([[solution.intercept], solution.beta[solution.members]])
    key = np.concatenate([np.array([INTERCEPT], np.int64), solution.slot[solution.members].astype(np.int64)])
    used = slice(0 if config.intercept else 1, None)
    scale = 1.0 / np.sqrt(np.diag(curvature + np.diag(prior)))[used]
    scaled = (curvature + np.diag(prior))[used, used] * np.outer(scale, scale)
    covariance = np.linalg.inv(scaled) * np.outer(scale, scale)
    lower, _ = factorise(covariance)
    theta = np.tile(beta[used, np.newaxis], (1, count))
    draw_about(beta[used].copy(), lower, (config.seed, 0), (1.0, 1.0), theta)
    theta += (beta[used] - moments(theta, np.ones(count))[0])[:, np.newaxis]  # the mean of the draws becomes that of the solution
    counts = np.zeros(COUNTS, np.int64)
    counts[[LEARNT, COLUMNS, STREAM]] = max(solution.events, config.start), d, 1
    nothing = np.zeros(0)
    return {
        "counts": counts, "key": key[used].copy(), "theta": theta.reshape(-1), "weight": np.ones(count), "x": nothing,
        "label": nothing, "importance": nothing,
    }  # fmt: skip
