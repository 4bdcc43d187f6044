"""One pass over rows: the log-likelihood at given weights, and its derivatives of first and second order.

    G_j = sum_i r_i x_ij        D_j = sum_i h_i x_ij^2        H_jl = sum_i h_i x_ij x_il, for members j, l of the working set S

with r and h of `service/native/taylor.h` times the weight of the row. G and D are kept for all features, H only on S: memory is
d + k^2 and does not depend on the number of rows. All sums are f64.

G and the sums are kept for both labels separately, [0] for -1 and [1] for 1. So a dual point in which the residuals sum to zero,
which the duality gap of a free intercept needs, costs no further pass (`certificate.py`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I32, I64, U32
from riata.lab.batch.data import Rows, native_rows
from riata.native.library import core, struct

# Sums over the rows of one label.
WEIGHT: Final = 0  # w
LIKELIHOOD: Final = 1  # log p
RESIDUAL: Final = 2  # r
MOMENT: Final = 3  # r c: the residual times the margin
SPREAD: Final = 4  # w q^2 / h: the second derivative of the dual along the residuals, see `certificate.py`
CURVATURE: Final = 5  # h
SUMS: Final = 6


class Weighted(NamedTuple):
    """Weights of all features, dense, and where the members of S are.

    beta      : f64[d]
    intercept : float
    position  : i32[d]   line of H of each feature, 1 .. k, increasing; -1 outside S. Line 0 is the intercept's
    """

    beta: F64
    intercept: float
    position: I32


def expand(rows: Rows, link: int, at: Weighted, sums: F64, moments: F64, cross: F64) -> None:
    """Add the rows to the sums of a pass: f64[2, SUMS], moments f64[2, d, 2] and H f64[k + 1, k + 1]. See `riata_pass`."""
    size, given = len(cross), native_rows(rows)
    of = struct("riata_matrix", cross=cross, stride=size, size=size)
    out = struct("riata_pass_sums", sums=sums, moments=moments, features=moments.shape[1], cross=of)
    core.expand(given, link, _native(at), out, np.empty(core.expand_room(given, size)))


def add_block(cross: F64, rows: tuple[I64, U32, F64, F64]) -> None:
    """Add h x x' of rows (start, member, x, h) to the elements of H above the diagonal. See `riata_add_block`."""
    start, member, x, h = rows
    terms = struct("riata_terms", start=start, at=member, x=x, h=h, n=len(h))
    work = np.empty(core.add_block_room(len(cross), len(h), len(x)))
    core.add_block(struct("riata_matrix", cross=cross, stride=len(cross), size=len(cross)), terms, work)


def likelihoods(rows: Rows, link: int, at: Weighted, toward: Weighted, shares: F64, out: F64) -> None:
    """Write the log-likelihood at the points at + share (toward - at). See `riata_likelihoods`."""
    core.likelihoods(native_rows(rows), link, _native(at), _native(toward), shares, len(shares), out)


def sides(rows: Rows, direction: F64, intercept: float, slack: float) -> tuple[int, int]:
    """Return how many rows a direction moves away from their label by more than `slack`, and how many toward it.

    See `riata_sides`.
    """
    found = np.empty(2, np.int64)
    core.sides(native_rows(rows), struct("riata_weighted", beta=direction, intercept=intercept), slack, found)
    return int(found[0]), int(found[1])


def _native(at: Weighted) -> Any:
    return struct("riata_weighted", **at._asdict())
