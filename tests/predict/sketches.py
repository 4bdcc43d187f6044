"""Synthetic sketches for the tests of what is read off them."""

from __future__ import annotations

import dataclasses

import numpy as np

from riata.learn.learner import Sketch, Weights
from riata.predict.uncertainty import EVIDENCE_MIN


def random_sketch(
    rng: np.random.Generator, members: int = 6, outside: int = 4, bits: int = 8, intercept: bool = True, gamma: float = 0.5
) -> Sketch:
    """A sketch of 50 events with some weights at zero, inside and outside the block; not at its optimum. The intercept
    has enough curvature for all weights to have errors."""
    rows = rng.normal(size=(50, members))
    if intercept:
        rows[:, 0] = 1.0
    curvature = rows.T @ (rows * rng.uniform(0.05, 0.25, 50)[:, None])
    diagonal = curvature.diagonal() + 1.0
    if intercept:
        diagonal[0] += EVIDENCE_MIN * members
    np.fill_diagonal(curvature, 0.0)
    slots = rng.choice(2 ** min(bits, 20), members + outside, replace=False).astype(np.uint32) << np.uint32(max(bits - 20, 0))
    slot = slots[:members]
    slot[:1] = 0 if intercept else slot[:1]
    gammas = np.full(members, gamma)
    if intercept:
        gammas[0] = 0.0
    return Sketch(
        slot=slot,
        beta=np.where(rng.random(members) < 0.6, rng.normal(size=members), 0.0),
        gradient=rng.normal(size=members),
        curvature=diagonal,
        prior=np.zeros(members),
        cross=curvature,
        gamma=gammas,
        penalty=gamma,
        intercept=intercept,
        outside_slot=np.sort(slots[members:]),
        outside_beta=np.where(rng.random(outside) < 0.5, rng.normal(size=outside), 0.0),
        outside_gradient=rng.normal(size=outside),
        outside_curvature=rng.uniform(0.5, 4.0, outside),
        outside_prior=np.zeros(outside),
        outside_gamma=np.full(outside, gamma),
        bits=bits,
    )


def served_weights(sketch: Sketch) -> Weights:
    """The weights of a sketch as published."""
    first = int(sketch.intercept)
    slot = np.concatenate([sketch.slot[first:], sketch.outside_slot])
    beta = np.concatenate([sketch.beta[first:], sketch.outside_beta])
    order = np.argsort(slot)
    order = order[beta[order] != 0.0]
    return Weights(slot[order], beta[order], float(sketch.beta[0]) if first else 0.0, "logistic", sketch.bits)


def with_all_weights(sketch: Sketch) -> Sketch:
    """The same sketch with no weight at zero."""
    return dataclasses.replace(
        sketch,
        beta=np.where(sketch.beta == 0.0, 0.25, sketch.beta),
        outside_beta=np.where(sketch.outside_beta == 0.0, 0.25, sketch.outside_beta),
    )
