"""Rounds of Shotgun: P weights move at the same time, each as if it were the only one; see `service/native/shotgun.c`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from riata.base.arrays import F64, I32, I64
from riata.lab.batch.columns import Columns, native_columns
from riata.native.library import core, struct


class Place(NamedTuple):
    """Where the solver is.

    part     : f64[2 d]   coordinates, >= 0
    margin   : f64[n]
    residual : f64[n]     weight times slope of the log-likelihood
    spread   : f64[n]     weight times its curvature
    reach    : f64[2 d]   how far each coordinate may move; inf: any distance
    stamp    : i32[n]     scratch: the last round that moved a row
    """

    part: F64
    margin: F64
    residual: F64
    spread: F64
    reach: F64
    stamp: I32


class Limits(NamedTuple):
    """What is known of each feature.

    penalty : f64[d]   gamma
    bound   : f64[d]   upper bound of the curvature; 0 for a weight that is to stay 0
    peak    : f64[d]   largest |x|
    """

    penalty: F64
    bound: F64
    peak: F64


class Rounds:
    """Moves the coordinates of a place, on columns. Threads may share a round by `moves` of others and `apply` to other rows."""

    def __init__(self, columns: Columns, link: int, place: Place, limits: Limits) -> None:
        """link : LOGISTIC or PROBIT of `links`"""
        self._columns, self._link = native_columns(columns), link
        self._at = struct("riata_shotgun", features=len(limits.penalty), **place._asdict(), **limits._asdict())

    def moves(self, chosen: I64, move: F64) -> float:
        """Write how far each chosen coordinate moves; return the largest violation among them. See `riata_shotgun_moves`."""
        worst: float = core.shotgun_moves(self._columns, self._at, chosen, len(chosen), move)
        return worst

    def apply(self, chosen: I64, move: F64, rows: tuple[int, int], number: int) -> None:
        """Apply moves to the margins and residuals of the rows of a range, in round `number`. See `riata_shotgun_apply`."""
        core.shotgun_apply(self._columns, self._link, self._at, chosen, len(chosen), move, *rows, number)

    def advance(self, order: I64, at_once: int, number: int) -> tuple[float, int]:
        """Move all coordinates of `order`, `at_once` in each round, `number` being the first; return the largest violation, and
        how many feature values were read. See `riata_shotgun_rounds`."""
        reads, move = np.empty(1, np.int64), np.empty(at_once)
        worst = core.shotgun_rounds(self._columns, self._link, self._at, order, len(order), at_once, number, move, reads)
        return worst, int(reads[0])

    def settle(self, shift: float) -> tuple[float, float, float]:
        """Shift all margins and recompute the residuals; return the log-likelihood, and slope and curvature of the intercept.

        See `riata_shotgun_settle`.
        """
        of_intercept = np.empty(2)
        total = core.shotgun_settle(self._columns, self._link, self._at, shift, of_intercept)
        return total, float(of_intercept[0]), float(of_intercept[1])


def shuffle(order: I64, seed: int, epoch: int) -> None:
    """Permute at random, by permutation number `epoch` of a seed. See `riata_shuffle`."""
    core.shuffle(order, len(order), seed, epoch)


def spectral_radius(columns: Columns, features: I64, norm: F64, iterations: int, seed: int) -> float:
    """Return an estimate from below of the largest eigenvalue of A' A, A the features scaled to unit norm.

    See `riata_spectral_radius`.
    """
    work = np.empty(len(features) + len(columns.label))
    rho: float = core.spectral_radius(native_columns(columns), features, len(features), norm, iterations, seed, work)
    return rho
