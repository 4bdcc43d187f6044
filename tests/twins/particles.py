"""Weighted particles, plainly: one formula for each kernel."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import F64
from tests.twins.philox import philox

TWINS_OF = ("particle_filter",)


def uniform(seed: int, stream: int, draw: int) -> float:
    return (philox(seed, stream, draw)[0] >> 11) / 2**53


def normals(seed: int, stream: int, draw: int) -> tuple[float, float]:
    first, second = (word >> 11 for word in philox(seed, stream, draw))
    size, angle = math.sqrt(-2.0 * math.log((first + 1) / 2**53)), 2.0 * math.pi * second / 2**53
    return size * math.cos(angle), size * math.sin(angle)


def effective(weight: F64) -> float:
    return float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0


def weigh(weight: F64, margin: F64, label: float, importance: float) -> F64:
    signed = margin if label == 1.0 else -margin
    return weight * np.exp(importance * np.minimum(0.0, signed) - importance * np.log1p(np.exp(-np.abs(margin))))


def moments(theta: F64, weight: F64) -> tuple[F64, F64]:
    part = weight / weight.sum()
    mean = theta @ part
    centred = theta - mean[:, np.newaxis]
    return mean, (centred * part) @ centred.T


def factorise(matrix: F64) -> tuple[F64, int]:
    """Row by row; a row whose own part is rounding gets a column of zeros."""
    d, dependent = len(matrix), -1
    lower = np.zeros((d, d))
    for j in range(d):
        pivot = matrix[j, j] - lower[j, :j] @ lower[j, :j]
        if pivot <= 1e-12 * matrix[j, j]:
            dependent = j if dependent < 0 else dependent
            continue
        lower[j:, j] = (matrix[j:, j] - lower[j:, :j] @ lower[j, :j]) / math.sqrt(pivot)
    return lower, dependent


def resample(weight: F64, u: float) -> list[int]:
    reached = np.cumsum(weight)
    return [int(np.argmax(reached > (i + u) / len(weight) * reached[-1])) for i in range(len(weight))]


def draw_about(mean: F64, lower: F64, chance: tuple[int, int], widths: tuple[float, float], theta: F64) -> F64:
    pairs = [normals(*chance, i) for i in range((theta.size + 1) // 2)]
    noise = np.array(pairs).reshape(-1)[: theta.size].reshape(theta.shape)
    a, b = widths
    return np.asarray(a * theta + (1.0 - a) * mean[:, np.newaxis] + b * lower @ noise)


def rejuvenate(theta: F64, weight: F64, b: float, chance: tuple[int, int]) -> F64:
    mean, covariance = moments(theta, weight)
    picked = theta[:, resample(weight, uniform(*chance, theta.size))]
    return draw_about(mean, factorise(covariance)[0], chance, (math.sqrt(1.0 - b * b), b), picked)
