"""Draws from the posterior of logistic regression, given all its events; `service/native/metropolis.c` has the theory."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.maths.shooting import NEVER
from riata.native.library import core, struct

BURN_IN: Final = 500  # sweeps


class Events(NamedTuple):
    """Rows of logistic regression.

    x : f64[d, n]        the values of a parameter are adjacent; the intercept's are ones
    sign : f64[n]        1 or -1
    importance : f64[n]  > 0
    halt : i64[1]        once another thread has set it, what is computed is left unfinished
    """

    x: F64
    sign: F64
    importance: F64
    halt: I64 = NEVER


def labelled(events: Events) -> Any:
    """Return the `riata_labelled` of events."""
    d, n = events.x.shape
    return struct("riata_labelled", x=events.x, sign=events.sign, importance=events.importance, halt=events.halt, d=d, n=n)


def chain_room(d: int, n: int) -> Any:
    """Return a `riata_chain_room` for n rows with d parameters."""
    squares = {name: np.empty((d, d)) for name in ("hessian", "lower", "axes")}
    lines = {name: np.empty(d) for name in ("beta", "step", "gradient", "moved", "precision")}
    columns = {name: np.empty(n) for name in ("margin", "slope", "shift", "reached")}
    return struct("riata_chain_room", line=np.empty((3, n)), z=np.empty((d, n)), **columns, **squares, **lines)


def mode_of(events: Events, gamma: F64) -> tuple[F64, F64, bool]:
    """Return the mode under the normal prior of precision gamma^2 / 2, the Cholesky factor of the curvature there, and whether it
    is positive definite in floating point."""
    d, n = events.x.shape
    beta, lower = np.empty(d), np.empty((d, d))
    return beta, lower, core.mode(labelled(events), gamma, beta, lower, chain_room(d, n))


def draw_posterior(events: Events, gamma: F64, chance: tuple[int, int], theta: F64) -> float:
    """Draw from the posterior: one draw after each sweep, after BURN_IN sweeps without.

    gamma  : f64[d]       of the Laplace prior, > 0
    chance : seed and stream of the random numbers
    theta  : f64[d, M]    overwritten with the draws

    Returns the acceptance over the draws; -1 if the curvature at the mode is not positive definite: theta is then unchanged.
    """
    room = chain_room(*events.x.shape)
    return float(core.draw_posterior(labelled(events), gamma, *chance, theta.shape[1], theta, room))
