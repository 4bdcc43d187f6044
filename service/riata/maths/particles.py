"""A posterior as weighted particles; the theory of operation is in `service/native/particles.c`.

theta is f64[d, M]: the particles of a parameter are adjacent. weight is f64[M], on any scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from riata.base.arrays import F64
from riata.native.library import core, struct


def bandwidth(d: int, particles: int, widen: float = 1.0, most: float = 1.0) -> float:
    """Return b = widen b_M, at most `most`, with b_M = (4 / ((d + 2) M))^(1 / (d + 4)).

    Source    Balakrishnan 2007, eq. 2.10
    """
    return float(min(widen * (4.0 / ((d + 2) * particles)) ** (1.0 / (d + 4)), most))


def particle_room(d: int, particles: int) -> Any:
    """Return a `riata_particle_room` for M particles of up to d parameters."""
    return struct(
        "riata_particle_room",
        line=np.empty((2, particles)),
        noise=np.empty((d, particles)),
        picked=np.empty(particles, np.int64),
        mean=np.empty(d),
        covariance=np.empty((d, d)),
        lower=np.empty((d, d)),
    )


def effective(weight: F64) -> float:
    """Return the effective sample size (sum w)^2 / sum w^2, in 1 .. M; 0 if all weights are zero."""
    return float(core.effective(len(weight), weight, np.empty_like(weight)))


def moments(theta: F64, weight: F64) -> tuple[F64, F64]:
    """Return the weighted mean f64[d] and covariance f64[d, d] of particles."""
    d, count = theta.shape
    mean, covariance = np.empty(d), np.empty((d, d))
    core.moments(d, count, theta, weight, mean, covariance, np.empty((2, count)))
    return mean, covariance


def factorise(matrix: F64) -> tuple[F64, int]:
    """Return the Cholesky factor L of a positive semidefinite matrix f64[d, d], and the first index whose row depends on the rows
    before it, or -1. A direction in which the matrix is singular has a column of zeros."""
    lower = np.empty(matrix.shape)
    return lower, core.factorise(len(matrix), np.ascontiguousarray(matrix), lower)


def draw_about(mean: F64, lower: F64, chance: tuple[int, int], widths: tuple[float, float], theta: F64) -> None:
    """Move particles to a theta + (1 - a) mean + b L z with standard normal z.

    chance : seed and stream of the random numbers
    widths : a and b
    """
    core.draw_about(*theta.shape, mean, lower, *chance, *widths, theta, np.empty_like(theta))
