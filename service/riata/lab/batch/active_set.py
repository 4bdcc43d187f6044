"""Which weights a pass of RMMP keeps the curvature of: the working set S, of at most k members.

Balakrishnan and Madigan leave two things open: which Omega decides, and what fills the room that is left. Here Omega is that of
the pass, at the weights before the step, since H of a feature outside S is not known. The order of preference is:

    0   weights that are not zero, by size: dropping one would freeze it
    1   weights whose |Omega_j| is at least gamma_j, by |Omega_j|
    2   members of S, by |Omega_j|: without them S would alternate between neighbours of the boundary
    3   weights whose |Omega_j| is at least NEAR gamma_j, by |Omega_j|
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, I64

NEAR: Final = 0.8
FIRST: Final = 256  # room at the start
HELD_FIRST: Final = 1024  # room at the start if columns are held
SPARE: Final = 4  # room for one more for each so many that are not zero
FULL: Final = 0.8  # share of members that are not zero from which on S is too small to judge by
GROWTH: Final = 4


def room(k: int, non_zeros: int, members: int) -> int:
    """How many members S may have next: k, or fewer as long as few weights are not zero.

    The cost of a pass grows with the square of S, and 1.25 times the support is enough. A set of which nearly all are used grows
    at once.
    """
    if members and non_zeros >= FULL * members:
        return min(k, GROWTH * members)
    return min(k, non_zeros + max(FIRST, non_zeros // SPARE))


def held_room(non_zeros: int, members: int) -> int:
    """How many members S may have next if its columns are held in memory: a member costs no more than its column."""
    if members and non_zeros >= FULL * members:
        return GROWTH * members
    return 2 * non_zeros + HELD_FIRST


def choose_active(beta: F64, omega: F64, gamma: F64, members: I64, most: int) -> I64:
    """The next S: i64[<= most], increasing.

    beta    : f64[d]   after the step, or of the pass
    omega   : f64[d]   G + D beta of the pass
    gamma   : f64[d]
    members : i64[k]   the present S
    """
    size = np.abs(omega)
    order = np.full(len(beta), 4)
    order[size >= NEAR * gamma] = 3
    order[members] = 2
    order[size >= gamma] = 1
    order[beta != 0.0] = 0
    order[np.isinf(gamma)] = 4
    candidates = np.flatnonzero(order < 4)
    within = np.where(order[candidates] == 0, np.abs(beta[candidates]), size[candidates])
    first = candidates[np.lexsort((-within, order[candidates]))]
    return np.sort(first[:most])
