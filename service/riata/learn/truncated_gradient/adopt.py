"""Truncated gradient around a solution."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import Arrays
from riata.learn.adopt import Adopted, require_bits, require_logistic
from riata.learn.truncated_gradient.config import TruncatedGradientConfig, kernel_settings
from riata.learn.truncated_gradient.state import GRID


def around(config: TruncatedGradientConfig, bits: int, solution: Adopted) -> Arrays:
    """Return the frozen state with the weights of the solution, the scales of its rows, and the sums of squared gradients of a
    pass there. No truncation is due."""
    require_bits(solution, bits)
    require_logistic(config.kind, config.loss)
    sums = solution.features
    at = np.argsort(solution.slot)
    slot, beta, intercept = solution.slot[at].astype(np.uint32), solution.beta[at], solution.intercept
    if config.grid:
        beta, intercept = np.rint(beta / GRID) * GRID, float(np.rint(intercept / GRID) * GRID)
    alive = beta != 0.0
    norm = float((sums.energy / sums.peak**2).sum()) if config.normalised else 0.0
    squares = float(solution.base.squares[0]) if config.intercept else 0.0
    arrays: Arrays = {
        "counts": np.array([solution.events], np.int64),
        "scalars": np.array([0.0, 0.0, intercept if config.intercept else 0.0, squares, norm, solution.importance]),
        "slot": slot[alive],
        "beta": beta[alive],
        "tau": np.zeros(int(alive.sum())),
    }
    settings = kernel_settings(config)
    if settings.calibrated:  # the optimum is calibrated
        arrays = {**arrays, "calibration": np.array([1.0, 0.0, squares, squares])}
    if settings.centred:  # columns are found again by the next rows
        arrays = {**arrays, "entry": np.zeros(0, np.uint32), "column_slot": np.zeros(0, np.int64), "survey": np.zeros(0)}
    if config.rate == "adaptive":
        arrays = {**arrays, "seen": slot, "squares": sums.squares[at]}
    if config.normalised:
        arrays = {**arrays, "scale": sums.peak[at]}
    return arrays
