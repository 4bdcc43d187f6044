"""Dynamic time warping of curves with any number of channels; the method is in `service/native/warping.c`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64
from riata.native.library import core, struct

NO_WINDOW: Final = -1


class Curves(NamedTuple):
    """Curves of any lengths.

    start    : i64[n + 1]   curve i has the points start[i] : start[i + 1], at least one
    value    : f64[channels start[n]]   channel by channel: first all points of channel 0 of a curve, then those of channel 1
    channels : int
    """

    start: I64
    value: F64
    channels: int


Prototypes = Any  # a `riata_prototypes`


def curve(curves: Curves, i: int) -> F64:
    """Return the values of a curve, channel by channel."""
    return curves.value[curves.channels * curves.start[i] : curves.channels * curves.start[i + 1]]


def warp_pairs(curves: Curves, window: int, first: int, end: int, out: F64) -> None:
    """Write the distances between the curves first : end and all before them; see `riata_warp_pairs`."""
    core.warp_pairs(_struct(curves), window, first, end, out, _scratch(curves, np.arange(end)))


def prototypes_of(left: F64, right: F64, channels: int) -> Prototypes:
    """Return two curves in the form that curves are compared with."""
    points = {"left_points": len(left) // channels, "right_points": len(right) // channels}
    return struct("riata_prototypes", left=left, right=right, **points)


def nearer_left(curves: Curves, at: I64, pair: Prototypes, window: int, is_warped: bool) -> BOOL:
    """Return whether the curves `at` are at least as near to the left prototype as to the right one; see `riata_nearer_left`.

    window : NO_WINDOW: any
    """
    found = np.empty(len(at), np.bool_)
    scratch = _scratch(curves, at, pair.left_points, pair.right_points)
    core.nearer_left(_struct(curves), at, len(at), pair, window, is_warped, found, scratch)
    return found


def _struct(curves: Curves) -> Any:
    return struct("riata_curves", start=curves.start, value=curves.value, n=len(curves.start) - 1, channels=curves.channels)


def _scratch(curves: Curves, at: I64, *others: int) -> F64:
    longest = max(int((curves.start[at + 1] - curves.start[at]).max(initial=0)), *others, 0)
    return np.empty((4 + curves.channels) * longest + 8)
